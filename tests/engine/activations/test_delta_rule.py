"""Qwen3-Next and Qwen3.5: Gated DeltaNet layers beside gated attention, against traces of their classes.

Source of the numbers: transformers 5.24.0 under torch 2.13 fake tensors (device `cuda`), without the `fla` kernels.
"""

from collections.abc import Callable
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.activations.lower import Loads, lower
from planner.engine.activations.step import record_step
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.model import read_config
from planner.scenario import Scenario

DENSE = {
    "model_type": "qwen3_5_text", "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 2, "vocab_size": 320, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 24, "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
SPARSE = {
    **DENSE, "model_type": "qwen3_next", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
    "shared_expert_intermediate_size": 48, "decoder_sparse_step": 1,
}  # fmt: skip


def step(config: dict[str, Any], **fields: Any) -> PhasePlan:
    phase = {"precision": "bf16", "micro_batch_size": 2, "sequence_length": 160, "optimizer": "sgd", **fields}
    document = {"model": {"config": config, "task": "causal-lm"}, "phases": {"training": phase}}
    return estimate(Scenario.of(document), load_catalog()).phases["training"]


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (SPARSE, {}, (7_803_376, 7_186_400, 8_003_040)),
        (DENSE, {}, (7_569_072, 6_952_096, 7_768_736)),
        (DENSE, {"precision": "amp-bf16"}, (7_781_296, 7_082_400, 7_899_040)),
        (
            DENSE,
            {"precision": "fp32", "attention_implementation": "eager"},
            (10_092_568, 9_680_392, 10_497_032),
        ),
    ],
    ids=["experts", "dense", "mixed-precision", "eager-fp32"],
)
def test_a_step_is_that_of_its_trace(
    config: dict[str, Any], fields: dict[str, Any], traced: tuple[int, int, int]
) -> None:
    phase = step(config, **fields)
    assert not phase.warnings
    start = phase.moments["start_of_step"].allocated_bytes
    for moment, real in zip(("forward", "end_of_forward", "backward"), traced, strict=True):
        own = phase.moments[moment].allocated_bytes - start
        assert own == pytest.approx(real, rel=1.2e-3), moment


def test_checkpointed_layers_are_run_again_chunk_by_chunk() -> None:
    phase = step(DENSE, sequence_length=1024, activation_checkpointing="full")
    start = phase.moments["start_of_step"].allocated_bytes
    traced = {"forward": 14_742_016, "end_of_forward": 4_522_248, "backward": 30_498_152}
    for moment, real in traced.items():
        assert phase.moments[moment].allocated_bytes - start == pytest.approx(real, rel=6e-3), moment


def test_every_weight_has_a_gradient(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all(DENSE)
    has_gradients_for_all(SPARSE)


@pytest.mark.parametrize(("cached", "traced"), [(False, 2_809_184), (True, 43_720)], ids=["prefill", "decode"])
def test_generation_holds_what_the_rule_works_on(*, cached: bool, traced: int) -> None:
    spec = read_config(DENSE, "causal-lm", "model")
    loads = Loads(batch=2, sequence=1 if cached else 160, context=160 if cached else 0)
    lowered = lower(
        spec, loads, precision="bf16", attention="sdpa", mask="none", version="", training=False, loss="none",
        use_cache=True, cache_filled=cached, logits="last",
    )  # fmt: skip
    tape = record_step(lowered.recipe)
    changes = [0] * (tape.now + 1)
    for record in tape.records:
        if record.label.startswith(("input ids", "ids of the context")) or (record.kind and not record.birth):
            # The batch, and what the cache held before.
            continue
        size = record.itemsize
        for dim in record.dims:
            size *= int(lowered.symbols[dim].value) if isinstance(dim, str) else dim
        changes[record.birth] += size
        changes[tape.now if record.death is None else record.death] -= size
    alive, highest = 0, 0
    for change in changes[:-1]:
        alive += change
        highest = max(highest, alive)
    assert highest == pytest.approx(traced, rel=0.07 if cached else 5e-3)
