"""Llama-shaped steps against operator-level traces of PyTorch.

Source of the figures: torch 2.13.0 with transformers 5.24.0 and peft 0.21.2 on fake CUDA tensors (SM 8.0 kernels), as
in `resources/evidence/optrace-llama.json`. The traces leave out 24 bytes of random state per layer; so do we.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.phases.step import plan_step
from planner.engine.plan import PhasePlan
from planner.model import read_config
from planner.scenario import Scenario

LLAMA_1B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
    "vocab_size": 128256, "tie_word_embeddings": True, "max_position_embeddings": 131072, "hidden_act": "silu",
}  # fmt: skip
LLAMA_8B = {
    **LLAMA_1B, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "head_dim": 128,
    "tie_word_embeddings": False,
}  # fmt: skip
MOMENTS = ("start_of_step", "end_of_forward", "forward", "backward", "optimizer_step")
STEPS: tuple[dict[str, Any], ...] = (
    {},
    {"activation_checkpointing": "full"},
    {"activation_checkpointing": "full", "checkpointing_reentrant": True},
    {"precision": "amp-bf16"},
    {"precision": "amp-bf16", "activation_checkpointing": "full"},
    {"precision": "fp32"},
    {"gradient_accumulation_steps": 2},
)
RANDOM_STATE = 28
"""Bytes per layer of the flash kernel's seed and offset, and of scalars, that the traces hold and the terms do not."""


def plan(config: Mapping[str, Any], name: str = "training", **fields: Any) -> PhasePlan:
    phase = {"precision": "bf16", "sequence_length": 512, **fields}
    document = {"model": {"config": dict(config), "task": "causal-lm"}, "phases": {name: phase}}
    return estimate(Scenario.of(document), load_catalog()).phases[name]


def assert_moments(phase: PhasePlan, traced: tuple[int, ...], layers: int, *, positions: int = 0) -> None:
    """Equal to the byte, but for the random state and the position ids that a checkpointed layer's call holds."""
    for moment, bytes_traced in zip(MOMENTS, traced, strict=True):
        missing = bytes_traced - phase.moments[moment].allocated_bytes
        assert 0 <= missing <= RANDOM_STATE * layers + 64 + positions, (moment, missing)


def test_bf16_with_flash_attention_and_tied_embeddings() -> None:
    traced = (7414894848, 8576395920, 8970398352, 10937196808, 12358152448)
    assert_moments(plan(LLAMA_1B), traced, 16)


def test_bf16_of_a_larger_model_with_its_own_head() -> None:
    traced = (48181576192, 51751853328, 52145855760, 64246293000, 80302621184)
    assert_moments(plan(LLAMA_8B), traced, 32)


def test_a_second_micro_batch_finds_the_gradients_of_the_first() -> None:
    traced = (7414894848, 11048024720, 11442027152, 11573357192, 12358152448)
    assert_moments(plan(LLAMA_1B, gradient_accumulation_steps=2), traced, 16)


def test_clipping_under_checkpointing_costs_nothing() -> None:
    traced = (7415017728, 12289437960, 18593542440, 20694757640, 12358275328)
    phase = plan(
        LLAMA_1B, micro_batch_size=4, sequence_length=2048, activation_checkpointing="full", gradient_clipping=True
    )
    assert_moments(phase, traced, 16, positions=6 * 4 * 2048 * 8)


def test_evaluation_with_a_loss_holds_the_logits_and_their_fp32_copies() -> None:
    phase = plan(LLAMA_1B, "evaluation", sequence_length=2048, computes_loss=True)
    # The traced loop also holds one more row of 2048 int64, beside ids and labels.
    assert phase.peak.allocated_bytes == 5106766096 - 8 * 2048 - 12


@pytest.mark.parametrize(
    ("fields", "per_token"),
    [
        # T x (16h + 4A + 4K + 8f + 4a + 8): per-layer bytes of the traces, by their closed formulas.
        ({}, 16 * 2048 + 4 * 2048 + 4 * 512 + 8 * 8192 + 4 * 32 + 8),
        ({"attention_implementation": "eager"}, 16 * 2048 + 8 * 2048 + 8 * 8192 + 8 + 6 * 32 * 512),
        ({"activation_checkpointing": "full"}, 2 * 2048),
        ({"precision": "fp32"}, 24 * 2048 + 16 * 2048 + 16 * 8192 + 8 + 4 * 32 * 512),
    ],
)
def test_each_further_layer_keeps_what_the_closed_formula_says(fields: dict[str, Any], per_token: int) -> None:
    def kept(layers: int) -> int:
        phase = plan({**LLAMA_1B, "num_hidden_layers": layers}, **fields)
        return phase.moments["end_of_forward"].allocated_bytes - phase.moments["start_of_step"].allocated_bytes

    assert kept(7) - kept(6) == 512 * per_token


def test_an_older_transformers_that_builds_its_own_mask_keeps_whole_keys_values_and_a_bias_in_each_layer() -> None:
    def kept(**fields: Any) -> int:
        one, two = (plan({**LLAMA_1B, "num_hidden_layers": n}, **fields).moments["end_of_forward"] for n in (6, 7))
        return two.allocated_bytes - one.allocated_bytes - 3 * 2 * (60821504 // 3)

    older = kept(framework_version="transformers 4.57.6")
    newer = kept(framework_version="transformers 4.57.6", attention_mask="full")
    # 8A instead of 4A + 4K, and a 16-bit bias of sequence x sequence (2s per token).
    assert older - newer == 512 * (4 * 2048 - 4 * 512 + 2 * 512)


def test_seven_layers_as_one_kind_need_what_seven_kinds_of_one_layer_do() -> None:
    """The extrapolation from three recorded layers equals a recording of all of them."""
    spec = read_config({**LLAMA_1B, "num_hidden_layers": 7}, "causal-lm", "")
    group = spec.stack.groups[0]
    apart = replace(spec, stacks=(replace(spec.stack, groups=tuple(replace(group, count=1) for _ in range(7))),))
    for fields in STEPS:
        document = {"model": {"config": LLAMA_1B}, "phases": {"training": {"sequence_length": 256, **fields}}}
        training = Scenario.of(document).phases.training
        assert training is not None
        one, all_of_them = (plan_step(training, model).settle() for model in (spec, apart))
        for moment, settled in one.moments.items():
            assert settled.allocated_bytes == all_of_them.moments[moment].allocated_bytes, (fields, moment)


@pytest.mark.parametrize(("config", "parameters"), [(LLAMA_1B, 1235814400), (LLAMA_8B, 8030261248)])
def test_gradients_at_the_end_are_two_bytes_for_each_of_the_model_s_parameters(
    config: dict[str, Any], parameters: int
) -> None:
    assert plan(config).moments["optimizer_step"].components["gradients"] == 2 * parameters
