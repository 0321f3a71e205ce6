"""Values that no scenario may hold: each is told where it is, what is wrong, and what would be right."""

import math
from typing import Any

import pytest

from planner.scenario import Scenario, ScenarioError, issue_text


def refused(document: dict[str, Any]) -> dict[str, str]:
    """Path to message of everything that is refused in a scenario."""
    with pytest.raises(ScenarioError) as error:
        Scenario.of({"model": {"preset": "x"}, **document})
    return {issue.path: issue_text(issue) for issue in error.value.issues}


def training(**fields: Any) -> dict[str, Any]:
    return {"phases": {"training": fields}}


TRAINING = "phases.training."


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "0 is out of range. Use 1 to 1\u202f000\u202f000 sequences."),
        (-4, "-4 is out of range. Use 1 to 1\u202f000\u202f000 sequences."),
        (10**30, "about 10^30 is out of range. Use 1 to 1\u202f000\u202f000 sequences."),
        ("4", 'This must be a whole number, not "4".'),
        (True, "This must be a whole number, not true."),
        (2.0, "This must be a whole number, not 2."),
        (math.nan, "This must be a whole number, not NaN."),
        ([1], "This must be a whole number, not a list."),
        (None, "This must be a whole number, not null."),
    ],
)
def test_a_number_of_sequences_is_a_whole_number_in_range(value: object, message: str) -> None:
    assert refused(training(micro_batch_size=value)) == {TRAINING + "micro_batch_size": message}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_share_is_a_finite_number(value: float) -> None:
    document = {"phases": {"serving": {"gpu_memory_utilization": value}}}
    text = refused(document)["phases.serving.gpu_memory_utilization"]
    assert text == "NaN and infinity are not numbers that can be planned with."


def test_an_unknown_field_is_named_with_the_nearest() -> None:
    found = refused(training(optimiser="adamw", parallelism={"tensor_parallel": 2}))
    assert found == {
        TRAINING + "optimiser": "There is no field optimiser here. Did you mean optimizer?",
        TRAINING + "parallelism.tensor_parallel": "There is no field tensor_parallel here. Did you mean tensor?",
    }


def test_a_wrong_choice_is_named_with_the_nearest() -> None:
    assert refused(training(optimizer="adamW")) == {
        TRAINING + "optimizer": '"adamW" is not one of the choices. Did you mean adamw?'
    }


def test_a_wrong_choice_that_is_near_nothing_lists_the_choices() -> None:
    assert refused(training(activation_checkpointing="some")) == {
        TRAINING + "activation_checkpointing": '"some" is not one of the choices. Use none, selective or full.'
    }


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = refused(
        {"phases": {"training": {"micro_batch_size": 0}, "serving": {"engine": 3}}, "hardware": {"gpus": []}}
    )
    assert set(found) == {TRAINING + "micro_batch_size", "phases.serving.engine", "hardware.gpus"}
    assert found["hardware.gpus"] == "This list needs at least 1 entry."


def test_a_wrong_entry_of_a_list_is_told_once() -> None:
    found = refused({"hardware": {"gpus": [{"name": "My card"}]}})
    assert found == {"hardware.gpus.0": "A GPU of your own needs a name and its memory in GiB."}


@pytest.mark.parametrize(
    "entry", [{}, {"id": "l40s", "name": "Mine", "memory_gib": 48}, {"count": 2}, {"memory_gib": 48.0}]
)
def test_a_gpu_has_an_id_or_a_name(entry: dict[str, Any]) -> None:
    found = refused({"hardware": {"gpus": [entry]}})
    assert found == {"hardware.gpus.0": "A GPU needs either an id of the catalogue or a name of its own."}


@pytest.mark.parametrize("model", [{}, {"preset": "x", "config": {}}, 3, "llama", None, []])
def test_a_model_has_exactly_one_description(model: object) -> None:
    assert refused({"model": model}) == {
        "model": "A model needs exactly one of preset, config, dimensions or parameters."
    }


def test_a_model_cannot_be_left_out() -> None:
    with pytest.raises(ScenarioError, match="model: Model must be given"):
        Scenario.of({})


def test_zero_layers_are_refused_and_missing_dimensions_named() -> None:
    found = refused({"model": {"dimensions": {"layers": 0}}})
    assert found["model.dimensions.layers"] == "0 is out of range. Use 1 to 100\u202f000 layers."
    assert found["model.dimensions.hidden_size"] == "Hidden size must be given."


@pytest.mark.parametrize("count", [0, -1, 10**30])
def test_a_number_of_parameters_is_one_that_a_model_can_have(count: int) -> None:
    assert "is out of range" in refused({"model": {"parameters": count}})["model.parameters"]


def test_a_configuration_that_is_too_deep_is_refused() -> None:
    config: dict[str, Any] = {}
    for _ in range(2000):
        config = {"inner": config}
    assert refused({"model": {"config": config}}) == {"model.config": "It is nested more than 64 levels deep."}


def test_a_configuration_that_is_no_json_is_refused() -> None:
    assert "type set" in refused({"model": {"config": {"a": {1, 2}}}})["model.config"]
    assert "NaN" in refused({"model": {"config": {"a": math.nan}}})["model.config"]


def test_half_a_character_is_refused_because_no_file_could_hold_it() -> None:
    assert "lone surrogate" in refused({"model": {"config": {"a": "\ud800"}}})["model.config"]
    assert "name" in refused({"name": "\ud800"})


def test_a_name_that_fills_the_screen_is_refused() -> None:
    assert refused({"name": "x" * 301}) == {"name": "This text is longer than 300 characters."}


def test_a_scenario_that_is_no_object_is_refused() -> None:
    with pytest.raises(ScenarioError) as error:
        Scenario.of([1])
    assert error.value.message == "This must be an object in braces, not a list."


def test_the_message_of_a_refusal_has_a_line_for_each_field() -> None:
    with pytest.raises(ScenarioError) as error:
        Scenario.of({"model": {"preset": "x"}, **training(micro_batch_size=0, optimizer="adamW")})
    assert error.value.message.splitlines() == [
        'phases.training.optimizer: "adamW" is not one of the choices. Did you mean adamw?',
        "phases.training.micro_batch_size: 0 is out of range. Use 1 to 1\u202f000\u202f000 sequences.",
    ]
