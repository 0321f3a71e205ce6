"""Layouts over GPUs against published figures and counts by hand."""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.scenario import Scenario

GIB, MIB = 2**30, 2**20
GPT_345M = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 512, "n_head": 8, "n_layer": 12,
    "n_positions": 1024, "n_ctx": 1024, "n_inner": 2048, "vocab_size": 50304, "activation_function": "gelu_new",
    "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "tie_word_embeddings": True,
}  # fmt: skip
LLAMA_8B = "meta-llama/Llama-3.1-8B"


def plan(model: dict[str, Any], phase: str = "training", **step: Any) -> PhasePlan:
    scenario = Scenario.of({"model": model, "phases": {phase: step}})
    return estimate(scenario, load_catalog()).phases[phase]  # type: ignore[index]


@pytest.mark.parametrize(
    ("parallelism", "attention", "accumulation", "gib"),
    [
        # Megatron-LM tests/functional_tests, golden values on DGX H100 (mem-max-allocated-bytes).
        ({"data": 2, "pipeline": 4, "pipeline_interleave": 3, "reported_stage": "last"}, "eager", 4, 3.875),
        ({"data": 2, "tensor": 2, "pipeline": 2, "reported_stage": "last"}, "flash_attention_2", 4, 1.330),
        (
            {"data": 8, "zero_stage": 1, "sharding_backend": "megatron-distributed-optimizer"},
            "flash_attention_2", 1, 2.507,
        ),
    ],
)  # fmt: skip
def test_megatron_rows_are_met_within_two_percent(
    parallelism: dict[str, Any], attention: str, accumulation: int, gib: float
) -> None:
    planned = plan(
        {"config": GPT_345M, "task": "causal-lm"}, precision="bf16-fp32-master", micro_batch_size=4,
        sequence_length=1024, gradient_accumulation_steps=accumulation, attention_implementation=attention,
        activation_profile="megatron-core", optimizer_implementation="fused", parallelism=parallelism,
    )  # fmt: skip
    assert planned.peak.allocated_bytes / GIB == pytest.approx(gib, rel=0.02)


@pytest.mark.parametrize(("data", "context", "length", "gib"), [(8, 1, 32768, 83.9), (2, 4, 131072, 84.0)])
def test_reserved_memory_of_torchtitan_counts_a_pool_per_stream(
    data: int, context: int, length: int, gib: float
) -> None:
    """torchtitan benchmarks/llama3_h100_202412_torchtitan.md, context parallelism on 8 H100, float8."""
    planned = plan(
        {"preset": LLAMA_8B}, precision="fp8", sequence_length=length, activation_checkpointing="full",
        activation_profile="torchtitan", optimizer_implementation="fused",
        parallelism={
            "data": data, "context": context, "zero_stage": 3, "sharding_backend": "fsdp2", "fsdp_reduce_dtype": "fp32",
        },
    )  # fmt: skip
    assert planned.peak.reserved_bytes / GIB == pytest.approx(gib, rel=0.03)
    assert any("stream" in item.name for item in planned.terms if item.component == "overhead")


def zero(stage: int) -> PhasePlan:
    return plan(
        {"preset": LLAMA_8B}, precision="bf16-fp32-master", sequence_length=2048, activation_checkpointing="full",
        optimizer_implementation="fused", parallelism={"data": 8, "zero_stage": stage},
    )  # fmt: skip


def test_zero_divides_what_deepspeed_divides() -> None:
    """ZeRO (arXiv:1910.02054), section 5: 2 P weights, 2 P gradients, 12 P states, each divided from its stage on."""
    count = 8030261248
    for stage in (1, 2, 3):
        planned = zero(stage)
        start = planned.moments["start_of_step"].components
        gradients = planned.moments["optimizer_step"].components["gradients"]
        assert start["optimizer_states"] == pytest.approx(12 * count / 8, rel=1e-6)
        assert start["weights"] == pytest.approx(2 * count / (8 if stage == 3 else 1), rel=1e-6)
        assert gradients == pytest.approx(2 * count / (8 if stage >= 2 else 1), rel=1e-6)


def test_deepspeed_allocates_its_reduce_bucket_whole() -> None:
    for stage in (1, 2, 3):
        [bucket] = [item for item in zero(stage).terms if item.name == "reduce bucket"]
        assert bucket.bytes == 500_000_000 * 2
        assert ("start_of_step" in bucket.alive) == (stage == 3)


@pytest.mark.parametrize(("precision", "bytes_at_step"), [("bf16", 2), ("bf16-fp32-master", 6)])
def test_flat_gradients_are_cast_only_for_a_master_copy(precision: str, bytes_at_step: int) -> None:
    """DeepSpeed stage_1_and_2.py: `flatten(...).to(single_partition_of_fp32_groups[i].dtype)`."""
    planned = plan(
        {"preset": LLAMA_8B}, precision=precision, optimizer_implementation="fused",
        parallelism={"data": 8, "zero_stage": 2},
    )  # fmt: skip
    at_step = sum(
        int(item.bytes)
        for item in planned.terms
        if item.component == "temporaries" and item.alive == ("optimizer_step",)
    )
    assert at_step == bytes_at_step * 8_030_261_248 // 8


def test_adapters_beside_sharded_weights_scatter_their_own_gradients_alone() -> None:
    planned = plan(
        {"preset": LLAMA_8B}, "fine_tuning", method="lora", precision="bf16", sequence_length=1024,
        parallelism={"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2"},
    )  # fmt: skip
    gradients = planned.moments["optimizer_step"].components["gradients"]
    assert 0 < gradients < 100 * MIB


@pytest.mark.parametrize(("each", "ranks"), [(True, 8), (False, 1), (None, 1)])
def test_gradients_that_are_not_reduced_stay_whole(each: bool | None, ranks: int) -> None:
    """accelerate's documentation of gradient synchronization: `no_sync` under FSDP keeps full gradients.

    transformers 5.24 `trainer.py` calls it for all micro-batches but the last.
    """
    step = {"precision": "amp-bf16", "sequence_length": 512, "gradient_accumulation_steps": 4}
    layout: dict[str, Any] = {"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2", "fsdp_reduce_dtype": "fp32"}
    layout |= {} if each is None else {"reduces_every_micro_batch": each}
    held = plan({"preset": LLAMA_8B}, **step, parallelism=layout).moments["end_of_forward"].components["gradients"]
    assert held == 4 * 8030261248 // ranks


def test_torchtitan_scatters_gradients_of_every_micro_batch() -> None:
    step = {"precision": "amp-bf16", "sequence_length": 512, "activation_profile": "torchtitan"}
    layout = {"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2"}
    once, often = (
        plan({"preset": LLAMA_8B}, **step, gradient_accumulation_steps=steps, parallelism=layout).moments
        for steps in (1, 4)
    )
    more = often["end_of_forward"].allocated_bytes - once["end_of_forward"].allocated_bytes
    assert more == 4 * 8030261248 // 8


def roles(objective: str, **step: Any) -> dict[str, dict[str, Any]]:
    chosen = {"method": "full", "precision": "bf16", "sequence_length": 512, "activation_checkpointing": "full"} | step
    planned = plan({"preset": LLAMA_8B}, "fine_tuning", objective=objective, **chosen)
    found = {role["role"]: role for role in planned.details["roles"]}
    assert sum(role["allocated_bytes"] for role in found.values()) == planned.peak.allocated_bytes
    return found


def test_ppo_holds_five_models_and_trains_two_of_them() -> None:
    found = roles("ppo")
    assert set(found) == {"policy", "reference", "value", "reward", "rollout"}
    assert {name for name, role in found.items() if role["trained"]} == {"policy", "value"}
    assert found["reference"]["allocated_bytes"] == 2 * 8030261248
    assert found["rollout"]["allocated_bytes"] == 0


def test_adapters_that_are_switched_off_save_the_reference_model() -> None:
    assert "copy" not in roles("grpo", method="lora")["reference"]["place"]
    assert roles("grpo", method="lora")["reference"]["allocated_bytes"] == 0
    assert roles("grpo")["reference"]["allocated_bytes"] == 2 * 8030261248


def test_dpo_sends_both_answers_of_a_pair_through_the_model() -> None:
    kept = [
        plan({"preset": LLAMA_8B}, "fine_tuning", method="full", objective=objective, sequence_length=512,
             roles={"reference": "none"}).layer_activation_bytes
        for objective in ("sft", "dpo")
    ]  # fmt: skip
    assert kept[1] == 2 * kept[0]


def test_a_rollout_engine_on_the_same_gpus_holds_weights_and_a_cache_of_its_own() -> None:
    """2 bytes per weight, and 131072 bytes per token of Llama-3.1-8B for 16 sequences of 512."""
    found = roles("grpo", roles={"rollout_engine": "colocated"})
    assert found["rollout"]["allocated_bytes"] == 2 * 8030261248 + 16 * 512 * 131072


@pytest.mark.parametrize("backend", ["fsdp1", "fsdp2"])
def test_layers_that_share_their_weights_are_gathered_with_the_root(backend):
    config = {
        "model_type": "albert", "architectures": ["AlbertForMaskedLM"], "vocab_size": 30000, "embedding_size": 128,
        "hidden_size": 768, "num_hidden_layers": 12, "num_hidden_groups": 1, "inner_group_num": 1,
        "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 2,
    }  # fmt: skip
    parallelism = {"data": 4, "zero_stage": 3, "sharding_backend": backend}
    step = {"precision": "fp32", "sequence_length": 64, "parallelism": parallelism}
    scenario = Scenario.of(
        {"name": "ALBERT", "model": {"config": config, "task": "masked-lm"}, "phases": {"training": step}}
    )
    start = estimate(scenario, load_catalog()).phases["training"].moments["start_of_step"]
    # tables 30 000 + 512 + 2 rows of 128 and a norm, 128 -> 768, one layer, and the head's dense layer, norm and bias
    layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 2 * 2 * 768
    parameters = 30_514 * 128 + 256 + 128 * 768 + 768 + layer + 768 * 128 + 128 + 256 + 30_000
    assert start.components["weights"] == pytest.approx(parameters * 4 / 4, rel=0.01)
