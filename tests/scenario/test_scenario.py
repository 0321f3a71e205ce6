import pytest

from planner.scenario import Scenario, ScenarioError, scenario_to_json
from planner.scenario.phases import Training
from planner.scenario.starting import starting_scenario

TENSOR = ("phases", "training", "parallelism", "tensor")


def test_an_edit_makes_a_new_scenario_and_leaves_the_old_one() -> None:
    before = starting_scenario()
    after = before.with_value(TENSOR, 2)
    assert before.phases.training
    assert after.phases.training
    assert (before.phases.training.parallelism.tensor, after.phases.training.parallelism.tensor) == (1, 2)


def test_an_edit_shares_everything_that_it_does_not_touch() -> None:
    before = starting_scenario()
    after = before.with_value(TENSOR, 2)
    assert after.model is before.model
    assert after.hardware is before.hardware
    assert after.phases.serving is before.phases.serving


def test_an_edit_states_only_the_edited_field() -> None:
    scenario = Scenario.of({"model": {"preset": "x"}}).with_value(("phases", "serving", "context_length"), 4096)
    assert scenario.to_document()["phases"] == {"serving": {"context_length": 4096}}


def test_none_takes_a_value_back_to_its_default() -> None:
    scenario = starting_scenario().with_value(("phases", "training", "sequence_length"), None)
    assert scenario.phases.training
    assert scenario.phases.training.sequence_length == 2048
    assert "sequence_length" not in scenario.to_document()["phases"]["training"]


def test_none_leaves_a_phase_out() -> None:
    scenario = starting_scenario().with_value(("phases", "training"), None)
    assert scenario.phases.training is None
    assert "training" not in scenario.to_document()["phases"]


def test_a_phase_can_be_set_whole_from_a_part_or_an_object() -> None:
    scenario = Scenario.of({"model": {"preset": "x"}})
    assert scenario.with_value(("phases", "training"), {}) == scenario.with_value(("phases", "training"), Training())


def test_one_entry_of_a_list_can_be_edited() -> None:
    scenario = starting_scenario().with_value(("hardware", "gpus", 1, "count"), 2)
    assert scenario.to_document()["hardware"]["gpus"][1] == {"id": "l40s", "count": 2}


def test_an_edit_and_its_reverse_give_the_identical_file() -> None:
    before = starting_scenario()
    after = before.with_value(("phases", "training", "micro_batch_size"), 7)
    assert scenario_to_json(after.with_value(("phases", "training", "micro_batch_size"), 1)) == scenario_to_json(before)


def test_a_refused_edit_says_where() -> None:
    with pytest.raises(ScenarioError) as refused:
        starting_scenario().with_value(TENSOR, 0)
    (issue,) = refused.value.issues
    assert (issue.path, issue.code) == ("phases.training.parallelism.tensor", "out_of_range")


def test_an_edit_of_a_field_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(ScenarioError, match=r"no field optimiser here\. Did you mean optimizer\?"):
        starting_scenario().with_value(("phases", "training", "optimiser"), "adamw")


def test_scenarios_can_be_keys() -> None:
    assert len({starting_scenario(), starting_scenario()}) == 1


def test_models_given_by_a_configuration_can_be_keys() -> None:
    first = Scenario.of({"model": {"config": {"a": 1, "b": 2}}})
    assert hash(first.model) == hash(Scenario.of({"model": {"config": {"b": 2, "a": 1}}}).model)
