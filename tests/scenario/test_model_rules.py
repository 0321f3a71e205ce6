from typing import Any

import pytest

from planner.scenario import Scenario, issue_line, validate

SMALL = {"layers": 2, "hidden_size": 768, "attention_heads": 12, "vocab_size": 1000}


def lines(model: dict[str, Any]) -> list[str]:
    issues = validate(Scenario.of({"model": model, "phases": {"design": {}}}), None, None)
    return [issue_line(issue).removeprefix("model.dimensions.") for issue in issues]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"attention_heads": 11},
            "attention_heads: 11 heads do not divide hidden size 768; give the head dimension. Use 8 or 12.",
        ),
        ({"kv_heads": 5}, "kv_heads: 5 key-value heads do not divide 12 attention heads. Use 4 or 6."),
        ({"position_embedding": "learned"}, "max_positions: The length of a learned table must be given."),
        ({"experts": 4, "experts_per_token": 8}, "experts_per_token: A token cannot go to 8 of 4 experts."),
        ({"experts_per_token": 8}, "experts_per_token: This changes nothing: there are no experts."),
    ],
)
def test_dimensions_that_do_not_fit_each_other_are_told(fields: dict[str, Any], line: str) -> None:
    assert lines({"dimensions": {**SMALL, **fields}}) == [line]


def test_heads_of_their_own_width_need_not_divide_the_hidden_size() -> None:
    assert lines({"dimensions": {**SMALL, "attention_heads": 11, "head_dim": 64}}) == []


def test_active_parameters_are_a_part_of_all() -> None:
    assert lines({"parameters": 100, "active_parameters": 200}) == [
        "model.active_parameters: Active parameters cannot be more than all 100."
    ]


def test_a_scenario_without_a_phase_is_told() -> None:
    issues = validate(Scenario.of({"model": {"preset": "x"}}), None, None)
    assert [issue_line(issue) for issue in issues] == ["phases: No phase is planned. Switch one on."]
