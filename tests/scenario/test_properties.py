"""Whatever a file holds: a valid scenario survives unchanged, and only the product's own error comes out."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlannerError
from planner.hardware import load_hardware
from planner.scenario import (
    Scenario,
    edited,
    issue_text,
    scenario_from_json,
    scenario_to_json,
    undo_text,
    validate,
)

from .strategies import json_values, models, scenarios

FIELDS = ["phases", "model", "hardware", "training", "serving", "parallelism", "tensor", "gpus", "lora", "engine", "x"]
paths = st.lists(st.sampled_from(FIELDS) | st.integers(-2, 3), max_size=5).map(tuple)
odd_values = json_values | st.just(math.nan) | st.integers(10**30, 10**40) | st.tuples(st.integers()) | st.binary()


def refusal_of(action: Callable[[], object]) -> str | None:
    """The message with which an action was refused; None if it was not. Any other error fails the test."""
    try:
        action()
    except PlannerError as error:
        return error.message
    return None


@given(scenarios)
def test_a_valid_scenario_survives_saving_byte_for_byte(document: dict[str, Any]) -> None:
    scenario = Scenario.of(document)
    saved = scenario_to_json(scenario)
    again = scenario_from_json(saved.encode())
    assert again == scenario
    assert scenario_to_json(again) == saved
    assert hash(again) == hash(scenario)


@given(scenarios)
def test_a_saved_scenario_says_what_was_said_and_nothing_else(document: dict[str, Any]) -> None:
    assert json.loads(scenario_to_json(Scenario.of(document))) == json.loads(json.dumps(document))


@given(scenarios)
def test_checking_a_valid_scenario_ends_in_issues_with_words(document: dict[str, Any]) -> None:
    for issue in validate(Scenario.of(document), None, load_hardware()):
        text = issue_text(issue)
        assert text.endswith((".", "?"))
        assert not re.search(r"\{[a-z_]+\}", text)


@given(st.binary() | st.text())
def test_any_file_content_is_read_or_refused_in_words(content: bytes | str) -> None:
    assert refusal_of(lambda: scenario_from_json(content)) != ""


@given(json_values)
def test_any_json_is_read_or_refused_in_words(tree: Any) -> None:
    text = json.dumps({"format": "vram-planner/scenario", "version": 1, "model": tree, "phases": tree})
    assert refusal_of(lambda: scenario_from_json(text)) != ""


@given(scenarios, st.data())
@settings(max_examples=200)
def test_a_scenario_with_one_value_replaced_is_read_or_refused_field_by_field(
    document: dict[str, Any], data: st.DataObject
) -> None:
    holder: Any = document
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = data.draw(st.sampled_from(list(keys)))
        if isinstance(holder[key], dict | list) and holder[key] and data.draw(st.booleans()):
            holder = holder[key]
            continue
        holder[key] = data.draw(odd_values)
        break
    message = refusal_of(lambda: Scenario.of(document))
    assert message != ""


@given(models, paths, odd_values)
@settings(max_examples=200)
def test_any_edit_makes_a_scenario_or_a_message(model: Any, path: tuple[str | int, ...], value: Any) -> None:
    scenario = Scenario.of({"model": model})
    assert undo_text(path, value)
    assert refusal_of(lambda: edited(scenario, path, value)) != ""
