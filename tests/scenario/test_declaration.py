from typing import Literal

import pytest

from planner.scenario import Declared, Scenario
from planner.scenario.declaration import Choices, parts_of
from planner.scenario.hardware import Hardware
from planner.scenario.model_source import SOURCES
from planner.scenario.phases import FineTuning, Lora, Phases, Training
from planner.scenario.serving import Serving


def all_parts(part: type[Declared] = Scenario) -> set[type[Declared]]:
    inner = {found for name in part.model_fields for found in parts_of(part, name)}
    return {part}.union(*(all_parts(found) for found in inner)) if inner else {part}


PARTS = sorted(all_parts(), key=lambda part: part.__name__)


def test_every_part_of_a_scenario_is_found() -> None:
    assert {Phases, Training, Lora, Hardware, *SOURCES.values()} <= set(PARTS)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_field_has_a_label_and_a_help_that_is_a_sentence(part: type[Declared]) -> None:
    for field in part.declarations():
        if (part, field.name) not in {(Scenario, "format"), (Scenario, "version")}:
            assert not field.label[0].islower() or field.label.startswith(("fp8", "torch")), field.name
            assert len(field.label) <= 28, field.label
            assert field.help.endswith("."), field.name


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_number_has_a_range(part: type[Declared]) -> None:
    for field in part.declarations():
        if field.kind in ("int", "float"):
            assert field.minimum is not None, field.name
            assert field.maximum is not None, field.name


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_a_form_names_only_fields_that_exist_and_shows_each_once(part: type[Declared]) -> None:
    names = [field.name for field in part.declarations()]
    assert sorted(names) == sorted(part.model_fields)
    assert set(part.form_order) <= set(names)


def test_a_whole_number_with_unit_step_and_range_is_described_completely() -> None:
    field = Serving.declarations()[4]
    assert (field.name, field.kind, field.unit, field.step) == ("context_length", "int", "tokens", 1024)
    assert (field.minimum, field.maximum, field.default) == (1, 10**9, 8192)
    assert not field.nullable
    assert not field.required


@pytest.mark.parametrize(
    ("part", "name", "kind", "nullable"),
    [
        (Training, "compile", "bool", False),
        (Training, "selective_policy", "choice", True),
        (Training, "framework_version", "text", False),
        (Training, "parallelism", "model", False),
        (FineTuning, "lora", "model", False),
        (Lora, "dropout", "float", False),
        (Lora, "target_modules", "list", False),
        (Serving, "flash_attention", "bool", True),
        (Serving, "gpu_memory_utilization", "float", True),
        (Hardware, "gpus", "list", False),
        (Phases, "training", "model", True),
    ],
)
def test_the_kind_of_a_field_follows_from_its_type(
    part: type[Declared], name: str, kind: Literal["bool"], nullable: bool
) -> None:
    field = next(field for field in part.declarations() if field.name == name)
    assert (field.kind, field.nullable) == (kind, nullable)


def test_what_a_designer_sets_first_leads_the_form() -> None:
    shown = [field.name for field in Training.declarations() if not field.advanced and field.kind != "model"]
    assert shown[:5] == [
        *("precision", "optimizer", "micro_batch_size", "sequence_length", "gradient_accumulation_steps"),
    ]


def test_choices_come_as_pairs_of_value_and_label() -> None:
    field = next(field for field in Training.declarations() if field.name == "activation_checkpointing")
    assert field.choices == (("none", "None"), ("selective", "Selective"), ("full", "Full"))


def test_equal_lists_of_choices_are_equal_keys() -> None:
    assert hash(Choices({"a": "A"})) == hash(Choices({"a": "A"}))


def test_the_json_schema_derives_from_the_declarations() -> None:
    schema = Scenario.model_json_schema()
    micro_batch = schema["$defs"]["Training"]["properties"]["micro_batch_size"]
    assert micro_batch == {
        "default": 1,
        "description": "Sequences that go through the model together on one GPU.",
        "maximum": 1_000_000,
        "minimum": 1,
        "title": "Micro-batch per GPU",
        "type": "integer",
        "unit": "sequences",
    }
    assert schema["$defs"]["Training"]["additionalProperties"] is False
