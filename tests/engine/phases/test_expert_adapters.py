"""Adapters that peft attaches to routed experts (0.21.2 `utils/transformers_weight_conversion.py`)."""

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.phases.expert_adapters import AS_LAYERS, AS_PARAMETERS
from planner.scenario import Scenario

SIZES = {
    "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2, "vocab_size": 320, "num_attention_heads": 4,
    "num_key_value_heads": 2,
}  # fmt: skip
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
MIXTRAL = SIZES | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
QWEN_2 = SIZES | EXPERTS | {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 96}


def warnings(config: dict[str, object], targets: object, version: str = "transformers 5.24") -> set[str]:
    tuned = {"method": "lora", "framework_version": version, "lora": {"target_modules": targets}}
    document = {"model": {"config": config, "task": "causal-lm"}, "phases": {"fine_tuning": tuned}}
    found = estimate(Scenario.of(document), load_catalog()).phases["fine_tuning"].warnings
    return set(found) & {AS_LAYERS, AS_PARAMETERS}


@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "down_proj"]])
def test_adapters_of_joined_experts_are_said_to_be_left_out(targets: object) -> None:
    assert warnings(MIXTRAL, targets) == {AS_PARAMETERS}
    # peft translates by a table in which Qwen2-MoE's own type is missing.
    assert warnings(QWEN_2, targets) == set()


def test_adapters_of_experts_that_are_linear_layers_are_said_to_be_left_out() -> None:
    assert warnings(QWEN_2, "all-linear", "transformers 4.57.6") == {AS_LAYERS}


@pytest.mark.parametrize("config", [MIXTRAL, SIZES | {"model_type": "llama"}])
def test_adapters_of_attention_reach_no_expert(config: dict[str, object]) -> None:
    assert warnings(config, "attention") == set()
