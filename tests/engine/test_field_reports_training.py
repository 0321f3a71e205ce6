"""Training questions that other tools got wrong: what ours must say. Each test names the report."""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import Plan
from planner.scenario import Scenario
from planner.units import GIB, MIB

GPT_J = {
    "layers": 28, "hidden_size": 4096, "attention_heads": 16, "kv_heads": 16, "head_dim": 256,
    "ffn_hidden_size": 16384, "gated_mlp": False, "vocab_size": 50400, "norm": "layernorm", "bias": True,
}  # fmt: skip
GPT_2_LARGE = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 1280, "n_head": 20, "n_layer": 36,
    "n_positions": 1024, "vocab_size": 50257, "activation_function": "gelu_new",
}  # fmt: skip
CODE_LLAMA_7B = {
    "layers": 32, "hidden_size": 4096, "attention_heads": 32, "kv_heads": 32, "ffn_hidden_size": 11008,
    "vocab_size": 32016,
}  # fmt: skip


def plan(model: dict[str, Any], gpu: str = "h100-sxm5-80gb", **phases: Any) -> Plan:
    source = {"config": model, "task": "causal-lm"} if "model_type" in model else {"dimensions": model}
    return estimate(Scenario.of({"model": source, "phases": phases, "hardware": {"gpus": [gpu]}}), load_catalog())


def preset(name: str, **phases: Any) -> Plan:
    return estimate(Scenario.of({"model": {"preset": name}, "phases": phases}), load_catalog())


def test_zero_3_needs_more_than_its_largest_layer() -> None:
    # D2, deepspeedai/DeepSpeed#4093: the estimate said 0.77 GB, the largest layer in fp32; 13 GB were used.
    spread = {"data": 2, "zero_stage": 3, "sharding_backend": "deepspeed"}
    step = {"precision": "bf16-fp32-master", "parallelism": spread, "offload": {"optimizer": "cpu"}}
    assert plan(GPT_J, training=step).phases["training"].peak.allocated_bytes > 5 * 0.77e9


def test_every_term_of_a_training_plan_shows_its_multipliers() -> None:
    # D4, deepspeedai/DeepSpeed#5102 asks which multipliers an estimate uses.
    for item in plan(CODE_LLAMA_7B, training={}).phases["training"].terms:
        assert item.factors
        assert item.source


def test_zero_3_with_long_sequences_may_need_more_than_its_shards() -> None:
    # D6, deepspeedai/DeepSpeed#4305: gathered parameters stand beside the shards.
    spread = {"data": 8, "zero_stage": 3, "sharding_backend": "deepspeed"}
    step = {"precision": "bf16-fp32-master", "parallelism": spread}
    phase = plan(CODE_LLAMA_7B, training=step).phases["training"]
    weights = phase.moments["forward"].components["weights"]
    assert weights > 2 * 6.7e9 / 8 * 1.2


def test_reserved_memory_lies_above_allocated_memory() -> None:
    # D10, NVIDIA/Megatron-LM#525: 28.8 GiB allocated, 30.0 GiB reserved when it ran out.
    peak = plan(GPT_2_LARGE, training={}).phases["training"].peak
    assert 1.01 < peak.reserved_bytes / peak.allocated_bytes < 1.1
    assert peak.process_bytes > peak.reserved_bytes


def test_qlora_needs_less_than_lora_and_lora_less_than_full_tuning() -> None:
    # D16, RahulSChand/gpu_poor#1: LoRA of CodeLlama-7B was said to need 177 GB; people ran it in about 16 GB.
    def peak(method: str) -> int:
        step = {"method": method, "sequence_length": 2048, "activation_checkpointing": "full"}
        return plan(CODE_LLAMA_7B, fine_tuning=step).phases["fine_tuning"].peak.process_bytes

    qlora, lora, full = peak("qlora"), peak("lora"), peak("full")
    assert qlora < lora < full
    assert 13 * GIB < lora <= 32e9


def test_mixed_precision_adamw_takes_16_bytes_per_parameter_and_more() -> None:
    # D18, huggingface/accelerate: takes the largest part of the sum, 8 bytes per parameter.
    found = preset("meta-llama/Llama-3.1-8B", training={"precision": "amp-bf16", "sequence_length": 128})
    assert found.phases["training"].peak.allocated_bytes >= 16 * found.model.parameters


def test_asking_for_4_bits_wins_over_the_file_of_16() -> None:
    # D28, unslothai/unsloth-zoo#192: a 16-bit repository loaded in 4 bits was counted in 16.
    def weights(method: str) -> int:
        phase = preset("meta-llama/Llama-3.1-8B", fine_tuning={"method": method}).phases["fine_tuning"]
        return phase.moments["start_of_step"].components["weights"]

    assert weights("qlora") < 0.45 * weights("lora")


def test_a_plan_tells_allocated_reserved_and_process_memory_apart() -> None:
    # D30, pytorch/torchtitan#735 asks which of them decides about out of memory.
    peak = plan(CODE_LLAMA_7B, training={}).phases["training"].peak
    assert peak.allocated_bytes < peak.reserved_bytes < peak.process_bytes <= peak.high_bytes


@pytest.mark.parametrize(("dtype", "megabytes"), [("bf16", 155.3), ("fp32", 310.6)])
def test_logits_of_a_small_grpo_batch_have_the_width_of_their_dtype(dtype: str, megabytes: float) -> None:
    # D32, huggingface/trl#3678: 2 x 256 x 151665 logits; 310 MB were called the bf16 size.
    model = {
        "layers": 1, "hidden_size": 64, "attention_heads": 1, "kv_heads": 1, "ffn_hidden_size": 64,
        "vocab_size": 151665,
    }  # fmt: skip
    step = {"precision": dtype, "batch_size": 2, "sequence_length": 256}
    moment = plan(model, evaluation=step).phases["evaluation"].moments["forward"]
    assert moment.components["logits"] + moment.components["temporaries"] == pytest.approx(megabytes * 1e6, rel=0.01)


def test_a_loss_in_chunks_brings_the_peak_of_a_large_vocabulary_down() -> None:
    # D34, EvolvingLMMs-Lab/LongVA#19 and NVIDIA-NeMo/Automodel#3907: 43 to 8 GB.
    def logits(loss: str) -> int:
        step = {"method": "lora", "sequence_length": 16384, "loss_implementation": loss}
        phase = preset("Qwen/Qwen2.5-3B", fine_tuning=step | {"activation_checkpointing": "full"}).phases["fine_tuning"]
        return phase.peak.allocated_bytes

    assert logits("full_logits") - logits("fused_linear") > 20 * GIB
    assert logits("chunked") < logits("full_logits")


def test_parameters_take_the_bytes_of_their_dtype() -> None:
    # D38, TylerYep/torchinfo#29: half-precision models were counted as float32.
    half, whole = (
        plan(CODE_LLAMA_7B, training={"precision": precision}).phases["training"].moments["start_of_step"]
        for precision in ("bf16", "fp32")
    )
    assert whole.components["weights"] == pytest.approx(2 * half.components["weights"], rel=1e-6)


def test_evaluation_that_gathers_logits_needs_host_ram() -> None:
    # E2, huggingface/transformers#25313 and E4: the Trainer moves logits to host RAM until it dies.
    few, many = (
        preset("EleutherAI/pythia-1b", evaluation={"batch_size": batch, "sequence_length": 2048}).phases["evaluation"]
        for batch in (1, 8)
    )
    more = sum(many.host_ram.values()) - sum(few.host_ram.values())
    assert more >= 7 * 2048 * 50304 * 2


def test_a_context_alone_is_counted_for_the_smallest_step() -> None:
    # D38, TylerYep/torchinfo#187: nvidia-smi shows the context beside the model.
    tiny = {
        "layers": 1,
        "hidden_size": 64,
        "attention_heads": 1,
        "kv_heads": 1,
        "ffn_hidden_size": 64,
        "vocab_size": 64,
    }
    peak = plan(tiny, training={"sequence_length": 8}).phases["training"].peak
    assert peak.process_bytes - peak.reserved_bytes > 200 * MIB


LLAMA_2_7B = "meta-llama/Llama-2-7b-hf"
LLAMA_2_PARAMETERS = 6_738_415_616
ROTARY_TABLE = 512
"""The inverse frequencies that the model holds in fp32, once as they are and once as they were."""


def start(name: str, **training: Any) -> dict[str, int]:
    return dict(preset(name, training=training).phases["training"].moments["start_of_step"].components)


def test_megatron_on_eight_gpus_adds_up_as_its_distributed_optimizer_says() -> None:
    # D8, NVIDIA/Megatron-LM#597: Llama-2-7B, micro-batch 2, 4 096 tokens; 2 + 4 + 12 / 8 bytes per parameter, and the
    # report's own s·b·h·L·(18 + 4 f / h), which leaves out that a gated feed-forward keeps half as much again.
    spread = {"data": 8, "zero_stage": 1, "sharding_backend": "megatron-distributed-optimizer"}
    step = {
        "precision": "bf16-fp32-master", "activation_profile": "megatron-core", "micro_batch_size": 2,
        "sequence_length": 4096, "attention_implementation": "flash_attention_2",
        "parallelism": spread | {"sequence_parallel": True},
    }  # fmt: skip
    phase = preset(LLAMA_2_7B, training=step).phases["training"]
    held = phase.moments["start_of_step"].components
    static = held["weights"] + held["gradients"] + held["optimizer_states"]
    assert static == pytest.approx(LLAMA_2_PARAMETERS * (2 + 4 + 12 / 8), rel=1e-3)
    report = 4096 * 2 * 4096 * 32 * (18 + 4 * 11008 / 4096)
    assert report < phase.layer_activation_bytes < 1.3 * report


def test_a_pipeline_rank_holds_its_own_layers_and_one_end() -> None:
    # D12, cli99/llm-analysis#23: all layers were counted on each rank
    table = 32_000 * 4096
    layers = LLAMA_2_PARAMETERS - 2 * table - 4096
    for stages in (2, 4):
        weights = start(LLAMA_2_7B, gradient_accumulation_steps=8, parallelism={"pipeline": stages})["weights"]
        assert weights == 2 * (layers // stages + table) + ROTARY_TABLE


def test_norms_are_whole_on_every_tensor_parallel_rank() -> None:
    # D12, cli99/llm-analysis#28: they were divided
    norms = 65 * 4096
    for ranks in (2, 4):
        weights = start(LLAMA_2_7B, parallelism={"tensor": ranks})["weights"]
        assert weights == 2 * ((LLAMA_2_PARAMETERS - norms) // ranks + norms) + ROTARY_TABLE


def test_fsdp_holds_a_gathered_layer_and_the_next_one_beside_its_shards() -> None:
    # D12, cli99/llm-analysis#25: nothing but shards was counted
    spread = {"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2"}
    step = {"sequence_length": 128, "activation_checkpointing": "full", "parallelism": spread}
    phase = preset(LLAMA_2_7B, training=step).phases["training"]
    layer = 2 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096)
    shards = phase.moments["start_of_step"].components["weights"]
    assert phase.moments["backward"].components["weights"] - shards >= 2 * layer


def test_zero_3_divides_weights_once_over_tensor_and_data_parallel_ranks() -> None:
    # D14, EleutherAI's calculator divided by tensor parallelism and by all GPUs: 0.05 GiB where it is 0.100
    spread = {"zero_stage": 3, "sharding_backend": "deepspeed"}
    for tensor, data in ((2, 4), (1, 8), (4, 2)):
        weights = start(LLAMA_2_7B, parallelism=spread | {"tensor": tensor, "data": data})["weights"]
        assert weights == pytest.approx(2 * LLAMA_2_PARAMETERS / 8, rel=5e-4)


@pytest.mark.parametrize("published", ["bfloat16", "float32"])
def test_the_dtype_asked_for_wins_over_that_of_the_file(published: str) -> None:
    # D20, huggingface/accelerate#3383: a file in bf16 was halved once by its own dtype and once by the one asked for.
    model = GPT_2_LARGE | {"torch_dtype": published}
    for precision, width in (("bf16", 2), ("fp32", 4)):
        found = plan(model, training={"precision": precision})
        weights = found.phases["training"].moments["start_of_step"].components["weights"]
        assert weights == pytest.approx(width * found.model.parameters, rel=1e-3)


def test_gemma_4_e2b_is_tuned_in_4_bits_on_16_gb() -> None:
    # D26, unslothai/unsloth#5752: about 15 GB, whatever was tried; Unsloth checkpoints to host RAM and fuses the loss.
    step = {
        "method": "qlora", "micro_batch_size": 4, "sequence_length": 4096, "optimizer": "adamw_8bit",
        "activation_checkpointing": "full", "loss_implementation": "fused_linear", "offload": {"activations": "cpu"},
    }  # fmt: skip
    peak = preset("google/gemma-4-E2B-it", fine_tuning=step).phases["fine_tuning"].peak
    assert 13 * GIB < peak.process_bytes < 16 * GIB


def test_an_a10_has_24_gb() -> None:
    # D40, cli99/llm-analysis, gpu_configs/a10-pcie-28gb.json
    capacities = load_catalog().hardware.resolve("a10").capacities
    assert capacities.marketing_bytes == 24 * GIB
    assert capacities.usable_bytes is not None
    assert 22 * GIB < capacities.usable_bytes < 24 * GIB


def test_experts_in_4_bits_are_dequantized_in_host_ram_as_they_are_loaded() -> None:
    # E12, hiyouga/LlamaFactory#8846: gpt-oss was published in 4 bits, and its loading took what it takes in bf16.
    found = preset("openai/gpt-oss-20b", fine_tuning={"method": "lora"})
    assert sum(found.phases["fine_tuning"].host_ram.values()) >= 2 * found.model.parameters
