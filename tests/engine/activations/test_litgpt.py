"""LitGPT's model and loop, against what its code keeps and what its tables measured."""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.scenario import Scenario

LLAMA_2_7B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    "tie_word_embeddings": False, "max_position_embeddings": 4096, "hidden_act": "silu", "rms_norm_eps": 1e-05,
}  # fmt: skip
LORA = {"rank": 32, "target_modules": ["q_proj", "v_proj"], "dropout": 0.05, "adapter_dtype": "bf16"}
STEP = {
    "activation_profile": "litgpt", "precision": "bf16", "micro_batch_size": 2, "sequence_length": 512,
    "loss_implementation": "chunked", "loss_chunk_tokens": 128, "loss_keeps_logits": True, "lora": LORA,
    "gradient_accumulation_steps": 4,
}  # fmt: skip
TOKENS, LAYERS, H, F = 1024, 32, 4096, 11008


TINY_LLAMA = LLAMA_2_7B | {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_key_value_heads": 4,
}  # fmt: skip
WHOLE = {
    "activation_profile": "litgpt", "precision": "bf16", "optimizer": "adamw", "micro_batch_size": 4,
    "loss_implementation": "full_logits", "sequence_length": 2048,
}  # fmt: skip


def planned(phase: str, config: dict[str, Any], step: dict[str, Any]) -> PhasePlan:
    chosen = {"model": {"config": config, "task": "causal-lm"}, "phases": {phase: step}}
    return estimate(Scenario.of(chosen), load_catalog()).phases[phase]


def tuned(**step: Any) -> PhasePlan:
    return planned("fine_tuning", LLAMA_2_7B, STEP | step)


def test_lora_keeps_fp32_norm_inputs_the_fused_projection_and_the_copied_adapter_output() -> None:
    # Counted with saved_tensors_hooks on litgpt's own model: per token and layer two norms 8h, dropped input and mask
    # 3h, index_copy's source 4h, q, k 4h, fused qkv 6h, attention output 2h, and 6f; small per-row tensors beside.
    kept = tuned(method="lora").layer_activation_bytes
    assert kept == pytest.approx(LAYERS * TOKENS * (27 * H + 6 * F), rel=0.02)


def test_the_tables_of_its_config_hub_are_met() -> None:
    # Lightning-AI/litgpt, config_hub/finetune/README.md: llama-2-7b lora 19.77 GB, qlora 13.68 GB on one A10G.
    lora = tuned(method="lora", optimizer="adamw").peak.allocated_bytes
    qlora = tuned(method="qlora", base_quantization="nf4", optimizer="paged_adamw_32bit").peak.allocated_bytes
    assert lora == pytest.approx(19.77e9, rel=0.02)
    assert qlora == pytest.approx(13.68e9, rel=0.006)


@pytest.mark.parametrize(("base", "measured"), [("nf4", 14.14e9), ("nf4-double", 13.84e9)])
def test_where_the_longest_sample_comes_first_there_is_no_step_before(base: str, measured: float) -> None:
    # Lightning-AI/litgpt, tutorials/resource-tables.md: 7B, one sample of 1304 tokens, rank 8. That script put the
    # longest sample first, so its highest point is the backward pass of that one, when nothing older is held.
    lora = LORA | {"rank": 8}
    step = {"method": "qlora", "base_quantization": base, "optimizer": "paged_adamw_32bit", "lora": lora}
    told = tuned(**step, micro_batch_size=1, sequence_length=1304, gradient_accumulation_steps=128)
    assert told.moments["backward"].allocated_bytes == pytest.approx(measured, rel=0.002)


def test_4_bit_products_keep_the_copy_of_the_attention_output_too() -> None:
    # Queries and keys come from `torch.cat`, head by head, and FlashAttention's output takes their order; joining the
    # heads copies it. A frozen 16-bit product drops that copy, a 4-bit one kept it until bitsandbytes 0.43.2.
    plain = tuned(method="lora").layer_activation_bytes
    quantized = tuned(method="qlora", base_quantization="nf4").layer_activation_bytes
    kept = TOKENS * (LAYERS * 2 * (3 * H + F) - 2 * H)
    # The first layer's input needs no gradient: its fused projection keeps nothing.
    assert quantized - plain == kept


def test_litgpt_0_5_5_keeps_no_inputs_of_4_bit_products() -> None:
    newer = tuned(method="qlora", base_quantization="nf4", framework_version="litgpt 0.5.5")
    assert newer.layer_activation_bytes == tuned(method="lora").layer_activation_bytes
    assert newer.peak.allocated_bytes < tuned(method="qlora", base_quantization="nf4").peak.allocated_bytes


def test_full_fine_tuning_with_the_norms_of_its_time_is_met() -> None:
    # Lightning-AI/litgpt, config_hub/finetune/README.md (April 2024): tiny-llama full, 14.10 GB.
    step = WHOLE | {"method": "full", "sequence_length": 512, "gradient_accumulation_steps": 8}
    told = planned("fine_tuning", TINY_LLAMA, step | {"framework_version": "litgpt 0.4.0"})
    assert told.peak.allocated_bytes == pytest.approx(14.10e9, rel=0.005)


def test_pretraining_with_accumulated_gradients_is_met() -> None:
    # Lightning-AI/litgpt, extensions/thunder/README.md (April 2024): eager on one GPU, 29.84 GB. Its script leaves the
    # global batch at 512, which is 128 micro-batches of 4 there.
    step = WHOLE | {"gradient_accumulation_steps": 128, "framework_version": "litgpt 0.4.0"}
    assert planned("training", TINY_LLAMA, step).peak.allocated_bytes == pytest.approx(29.84e9, rel=0.002)


def test_its_loop_holds_the_logits_of_the_step_before_and_4_bit_inputs() -> None:
    told = [item for item in tuned(method="qlora", base_quantization="nf4").terms if "step before" in item.name]
    inputs = TOKENS * LAYERS * (6 * H + 2 * F)
    assert sum(item.bytes for item in told) >= inputs


def test_autocast_copies_a_frozen_head_for_every_chunk() -> None:
    # Lightning-AI/litgpt, tutorials/finetune_lora.md: stablelm-base-alpha-3b in bf16-mixed takes 26.92 GB. Nine chunks
    # of 1034 positions; autocast caches casts of trainable weights only.
    told = tuned(method="lora", precision="amp-bf16", micro_batch_size=1, sequence_length=1034).terms
    copies = [item for item in told if "cast by autocast, again" in item.name and "forward" in item.alive]
    assert sum(item.bytes for item in copies) == 8 * 32000 * H * 2


@pytest.mark.parametrize("chunking", [{"loss_chunk_tokens": None}, {"loss_chunk_tokens": None, "loss_chunks": 3}])
def test_the_head_takes_as_many_chunks_whatever_the_batch(chunking: dict[str, Any]) -> None:
    # `lm_head_chunk_size` cuts the positions of every sequence, so one copy of the frozen head more or less per chunk
    # may never make a larger batch need less.
    small = LLAMA_2_7B | {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    small["num_key_value_heads"] = 2
    step = STEP | chunking | {"method": "lora", "precision": "amp-bf16", "sequence_length": 300}
    one, two = (planned("fine_tuning", small, step | {"micro_batch_size": batch}) for batch in (1, 2))
    copies = [
        sum(item.bytes for item in plan.terms if "cast by autocast, again" in item.name and "forward" in item.alive)
        for plan in (one, two)
    ]
    assert copies == [2 * 32000 * 32 * 2] * 2
    assert two.peak.allocated_bytes > one.peak.allocated_bytes


def test_an_unstated_version_of_litgpt_is_said_to_be_that_of_2024() -> None:
    assert any("as of 2024" in text for text in tuned(method="lora").warnings)
    assert not any("as of 2024" in text for text in tuned(method="lora", framework_version="litgpt 0.5.5").warnings)
