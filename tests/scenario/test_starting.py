from typing import Any

import pytest

from planner.hardware import load_hardware
from planner.model import load_presets, resolve_model
from planner.scenario import Scenario, validate
from planner.scenario.model_source import ConfigModel, PresetModel
from planner.scenario.phases import Phases
from planner.scenario.starting import plan_for_model, starting_scenario


def planned(scenario: Scenario) -> set[str]:
    return {name for name in Phases.model_fields if getattr(scenario.phases, name) is not None}


def test_the_window_opens_with_all_six_phases_of_a_model_it_knows_and_nothing_to_complain_of() -> None:
    scenario = starting_scenario()
    assert planned(scenario) == set(Phases.model_fields)
    assert isinstance(scenario.model, PresetModel)
    assert scenario.model.preset in load_presets()
    assert validate(scenario, resolve_model(scenario.model), load_hardware()) == ()


def test_every_preset_can_be_planned_through_its_life_without_a_contradiction() -> None:
    hardware = load_hardware()
    for name, preset in load_presets().items():
        source = ConfigModel(config=dict(preset.config), task=preset.task)
        spec = resolve_model(source)
        scenario = plan_for_model(source, max_positions=spec.max_positions)
        issues = validate(scenario, spec, hardware)
        assert planned(scenario) == set(Phases.model_fields)
        assert issues == (), (name, issues)


@pytest.mark.parametrize(
    ("config", "trained", "served", "engine"),
    [
        ({"max_position_embeddings": 131072, "architectures": ["LlamaForCausalLM"]}, 4096, 8192, "vllm"),
        ({"n_positions": 1024, "architectures": ["GPT2LMHeadModel"]}, 1024, 1024, "vllm"),
        ({"max_position_embeddings": 512, "architectures": ["BertForMaskedLM"]}, 512, 512, "transformers"),
        ({"text_config": {"max_position_embeddings": 2048}}, 2048, 2048, "vllm"),
        ({"max_position_embeddings": "many", "architectures": "Llama"}, 4096, 8192, "vllm"),
        ({"_class_name": "StableDiffusionPipeline", "components": {}}, 4096, 8192, "transformers"),
        ({}, 4096, 8192, "vllm"),
    ],
)
def test_lengths_and_engine_suit_the_configuration(
    config: dict[str, Any], trained: int, served: int, engine: str
) -> None:
    phases = plan_for_model({"config": config}).phases
    assert phases.training
    assert phases.serving
    assert (phases.training.sequence_length, phases.serving.context_length) == (trained, served)
    assert phases.serving.engine == engine


def test_fine_tuning_of_a_bare_model_is_qlora() -> None:
    tuning = plan_for_model({"parameters": 7_000_000_000}, "Seven").phases.fine_tuning
    assert tuning
    assert (tuning.method, tuning.frozen_format, tuning.lora.rank) == ("qlora", "nf4-double", 16)
