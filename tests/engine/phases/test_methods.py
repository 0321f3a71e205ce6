"""What each fine-tuning method and each memory-saving setting trains, keeps and frees."""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.model import counts, resolve_model
from planner.scenario import Scenario

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 6, 1024, 8, 4, 128, 2816, 32000
MODEL = {
    "layers": LAYERS, "hidden_size": HIDDEN, "attention_heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM,
    "ffn_hidden_size": FFN, "vocab_size": VOCAB,
}  # fmt: skip
BATCH, LENGTH = 2, 512
TOKENS = BATCH * LENGTH
LINEARS = ((HIDDEN, 1024), (HIDDEN, 512), (HIDDEN, 512), (1024, HIDDEN), (HIDDEN, FFN), (HIDDEN, FFN), (FFN, HIDDEN))


def plan(name: str = "training", **step: Any) -> PhasePlan:
    chosen = {"micro_batch_size": BATCH, "sequence_length": LENGTH} | step
    return estimate(Scenario.of({"model": {"dimensions": MODEL}, "phases": {name: chosen}}), load_catalog()).phases[
        name
    ]


def parameters() -> int:
    return counts.parameters(resolve_model(Scenario.of({"model": {"dimensions": MODEL}}).model))


def layer_parameters() -> int:
    return sum(inputs * outputs for inputs, outputs in LINEARS) + 2 * HIDDEN


@pytest.mark.parametrize(
    ("method", "trained_bytes"),
    [
        ({"method": "full"}, None),
        ({"method": "lora"}, LAYERS * sum(16 * (i + o) for i, o in LINEARS) * 4),
        ({"method": "dora"}, LAYERS * sum(16 * (i + o) + o for i, o in LINEARS) * 4),
        ({"method": "last_layers", "trained_layers": 2}, 2 * layer_parameters() * 2),
        ({"method": "prompt", "virtual_tokens": 20}, 20 * HIDDEN * 4),
        ({"method": "prefix", "virtual_tokens": 20}, 20 * LAYERS * 2 * KV_HEADS * HEAD_DIM * 4),
    ],
)
def test_gradients_are_those_of_the_trained_parameters(method: dict[str, Any], trained_bytes: int | None) -> None:
    for extra in ({}, {"activation_checkpointing": "full"}, {"checkpointing_reentrant": True}):
        checkpointing = {"activation_checkpointing": "full"} | extra if extra else {}
        phase = plan("fine_tuning", **method, **checkpointing)
        expected = parameters() * 2 if trained_bytes is None else trained_bytes
        assert phase.moments["optimizer_step"].components["gradients"] == expected


def test_adamw_keeps_two_numbers_per_trained_parameter() -> None:
    phase = plan("fine_tuning", method="prompt", virtual_tokens=20)
    assert phase.moments["start_of_step"].components["optimizer_states"] == 2 * 20 * HIDDEN * 4


def test_frozen_layers_in_front_of_the_trained_ones_keep_nothing() -> None:
    one, two = (
        plan("fine_tuning", method="last_layers", trained_layers=count).layer_activation_bytes for count in (1, 2)
    )
    full = plan().layer_activation_bytes
    assert two - one == pytest.approx(full / LAYERS, rel=0.001)


def test_core_attention_checkpointing_drops_what_eager_attention_keeps() -> None:
    # transformers, bf16: 6·a·s bytes per token of scores (fp32 softmax, its bf16 copy).
    plain = plan(attention_implementation="eager").layer_activation_bytes
    selective = {"activation_checkpointing": "selective", "selective_policy": "core-attention"}
    kept = plan(attention_implementation="eager", **selective).layer_activation_bytes
    assert plain - kept >= LAYERS * TOKENS * 6 * HEADS * LENGTH


def test_op_sac_keeps_every_second_product_and_attention() -> None:
    # torchtitan: first, third, fifth and seventh product (q, v, gate, down), attention's output and its logarithms,
    # and the layer's input.
    kept = plan(activation_checkpointing="selective", selective_policy="op-sac").layer_activation_bytes
    per_token = 2 * (HEADS * HEAD_DIM + KV_HEADS * HEAD_DIM + FFN + HIDDEN) + 2 * HEADS * HEAD_DIM + 4 * HEADS
    inputs = 2 * HIDDEN * (LAYERS - 1)  # the first layer's is the embedding's output
    assert kept == TOKENS * (LAYERS * per_token + inputs)


def test_one_layer_in_n_is_the_first_in_transformers_and_the_last_in_torchtitan() -> None:
    # transformers 5.24, activation_checkpointing_enable(every_n_layers=4): layers 0 and 4; torchtitan: the fourth
    def kept(profile: str, **fields: Any) -> int:
        return plan(activation_profile=profile, **fields).layer_activation_bytes

    nth = {"activation_checkpointing": "selective", "selective_policy": "every-nth-layer", "checkpoint_interval": 4}
    for profile, checkpointed in (("hf-transformers", -(-LAYERS // 4)), ("torchtitan", LAYERS // 4)):
        whole, none = kept(profile), kept(profile, activation_checkpointing="full")
        assert kept(profile, **nth) == pytest.approx(whole - checkpointed * (whole - none) / LAYERS, rel=0.01)


def test_every_second_layer_keeps_half_of_everything_and_half_of_the_inputs() -> None:
    plain, full = plan().layer_activation_bytes, plan(activation_checkpointing="full").layer_activation_bytes
    half = plan(activation_checkpointing="selective", selective_policy="every-2nd-layer").layer_activation_bytes
    assert half == pytest.approx((plain + full) / 2, rel=0.01)


def test_offloaded_activations_leave_the_gpu_and_stand_in_host_ram() -> None:
    stays = plan(activation_checkpointing="full")
    gone = plan(activation_checkpointing="full", offload={"activations": "cpu"})
    assert gone.layer_activation_bytes == 0
    assert sum(gone.host_ram.values()) - sum(stays.host_ram.values()) >= stays.layer_activation_bytes
    assert gone.peak.allocated_bytes <= stays.peak.allocated_bytes


def test_updating_in_backward_frees_each_gradient_at_once() -> None:
    phase = plan(optimizer="sgd", optimizer_in_backward=True)
    assert phase.moments["optimizer_step"].components["gradients"] == 0
    largest = VOCAB * HIDDEN * 2
    assert phase.moments["backward"].components["gradients"] <= 2 * largest


def test_lomo_updates_in_backward_by_itself() -> None:
    assert plan(optimizer="lomo").moments["optimizer_step"].components["gradients"] == 0


def test_zero_offload_sends_gradients_to_the_cpu_that_updates() -> None:
    on_cpu = {"parallelism": {"zero_stage": 3, "sharding_backend": "deepspeed"}, "offload": {"optimizer": "cpu"}}
    phase = plan(precision="bf16-fp32-master", **on_cpu)
    assert phase.moments["optimizer_step"].components["gradients"] == 0
    assert phase.moments["optimizer_step"].components["optimizer_states"] == 0


def test_a_tiled_feed_forward_keeps_its_input_alone() -> None:
    # 4 × 2f per token less: gate, its activation, up and their product; the norm's output stays as the tiles' input.
    plain = plan(sequence_length=4 * HIDDEN).layer_activation_bytes
    tiled = plan(sequence_length=4 * HIDDEN, tiled_mlp=True).layer_activation_bytes
    assert plain - tiled == LAYERS * BATCH * 4 * HIDDEN * 8 * FFN


def test_torchao_float8_keeps_16_bit_inputs_and_transformer_engine_8_bit_ones() -> None:
    bf16 = plan().layer_activation_bytes
    assert plan(precision="fp8").layer_activation_bytes == bf16
    weights = 3 * sum(inputs * outputs for inputs, outputs in LINEARS) // 3
    engine = plan(precision="fp8", fp8_recipe="blockwise").layer_activation_bytes
    inputs = HIDDEN * 5 + HEADS * HEAD_DIM + FFN
    shared = 2 * (2 * HIDDEN + FFN)  # norm outputs and the gated product, which nothing else keeps
    assert engine == bf16 + LAYERS * (2 * weights + TOKENS * (inputs - shared))


def test_megatron_keeps_float8_weights_and_their_transposes_for_the_whole_step() -> None:
    # Transformer Engine 2, `_fp8_workspaces`: Megatron Core tells which micro-batch it is, so they are made once.
    half, float8 = (
        plan(precision=name, activation_profile="megatron-core").moments["start_of_step"].components
        for name in ("bf16-fp32-master", "fp8")
    )
    weights = sum(inputs * outputs for inputs, outputs in LINEARS)
    assert float8["weights"] - half["weights"] == LAYERS * 2 * weights
    assert float8["optimizer_states"] == half["optimizer_states"]


def test_eager_torchao_casts_through_two_copies_in_fp32() -> None:
    # torchao 0.18 on a Llama of two layers (hidden 256, feed-forward 640, 64 tokens of vocabulary), 2 × 128 tokens
    model = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 640, "vocab_size": 64,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False,
    }  # fmt: skip
    step = {"precision": "fp8", "optimizer": "sgd", "micro_batch_size": 2, "sequence_length": 128}

    def moments(**fields: Any) -> list[int]:
        source = {"model": {"config": model, "task": "causal-lm"}, "phases": {"training": step | fields}}
        found = estimate(Scenario.of(source), load_catalog()).phases["training"].moments
        return [found[name].allocated_bytes for name in ("forward", "end_of_forward", "backward")]

    assert moments() == pytest.approx([10407736, 8967992, 10636616], rel=3e-5)
    assert moments(compile=True)[2] < moments()[2]


def test_losses_hold_fewer_logits_the_more_they_are_fused() -> None:
    def peak(**loss: Any) -> int:
        return plan(activation_checkpointing="full", optimizer="sgd", sequence_length=4096, **loss).peak.allocated_bytes

    full, fused = peak(), peak(loss_implementation="fused_cross_entropy")
    chunked, linear = peak(loss_implementation="chunked"), peak(loss_implementation="fused_linear")
    assert full > chunked > linear
    assert full > peak(compile_loss=True) >= fused > linear
    # transformers: 12 bytes per logit at the first step of backward; Liger in place: 2.
    assert full - fused == pytest.approx(10 * BATCH * 4096 * VOCAB, rel=0.05)


def test_a_cut_loss_makes_its_gradients_in_backward_alone() -> None:
    # apple/ml-cross-entropy d42911f, cce.py and cce_backward.py: log-sum-exps are kept, logits are never written.
    def moments(loss: str) -> tuple[int, int]:
        step = {"activation_checkpointing": "full", "optimizer": "sgd", "activation_profile": "torchtune"}
        found = plan(**step, sequence_length=4096, loss_implementation=loss).moments
        return found["end_of_forward"].allocated_bytes, found["backward"].allocated_bytes

    cut, fused = moments("cut_cross_entropy"), moments("fused_linear")
    # Liger holds the gradient of the hidden states in their place, and that of the head.
    assert fused[0] - cut[0] == pytest.approx(2 * VOCAB * HIDDEN, rel=0.02)
    assert cut[1] <= fused[1]


def test_gradients_are_added_up_in_the_type_asked_for_and_cast_for_the_master_copy() -> None:
    # Megatron-LM without --accumulate-allreduce-grads-in-fp32: 2 bytes that stay, and 4 more while the optimizer runs
    wide, narrow = (
        plan(precision="bf16-fp32-master", optimizer="sgd", gradient_accumulation_steps=2, **fields).moments
        for fields in ({}, {"gradient_accumulation_dtype": "bf16"})
    )
    weights = wide["start_of_step"].components["weights"] // 2
    assert wide["forward"].components["gradients"] == pytest.approx(4 * weights, rel=1e-3)
    assert narrow["forward"].components["gradients"] == pytest.approx(2 * weights, rel=1e-3)
    assert narrow["optimizer_step"].components["temporaries"] == pytest.approx(4 * weights, rel=1e-3)


def test_megatron_updates_in_place_with_kernels_of_its_own() -> None:
    # Megatron-LM, core/optimizer/__init__.py: FusedAdam of Transformer Engine, which takes no lists
    def update(profile: str) -> int:
        moments = plan(activation_profile=profile, precision="bf16-fp32-master").moments
        before, at = (moments[name].components["temporaries"] for name in ("start_of_step", "optimizer_step"))
        return at - before

    assert update("megatron-core") == 0
    assert update("hf-transformers") > 0


def test_tf32_needs_what_fp32_needs() -> None:
    # cuBLAS rounds operands as it reads them (torch `backends.cuda.matmul.allow_tf32`): no copy is made
    assert plan(precision="tf32").peak == plan(precision="fp32").peak


def test_qlora_under_autocast_holds_embeddings_and_head_in_fp32() -> None:
    # peft 0.21, prepare_model_for_kbit_training: everything that is not 4-bit is cast to fp32.
    half, prepared = (
        plan("fine_tuning", method="qlora", precision=precision).moments["start_of_step"].components["weights"]
        for precision in ("bf16", "amp-bf16")
    )
    kept = 2 * VOCAB * HIDDEN + (2 * LAYERS + 1) * HIDDEN
    assert prepared - half == 2 * kept


def test_paged_states_count_for_the_process_but_never_run_out() -> None:
    paged, plain = plan(optimizer="paged_adamw_32bit"), plan(optimizer="adamw_32bit")
    # bitsandbytes pages states of 100 000 elements and more: all but those of the norms.
    states = 8 * (parameters() - (2 * LAYERS + 1) * HIDDEN)
    assert plain.peak.allocated_bytes - paged.peak.allocated_bytes <= states
    managed = [item for item in paged.terms if "managed memory" in item.name]
    assert sum(item.bytes for item in managed) == states
    assert paged.peak.low_bytes < paged.peak.process_bytes - 0.9 * states


def test_an_8_bit_base_keeps_the_inputs_that_a_4_bit_one_lets_go() -> None:
    # bitsandbytes, MatMul8bitLt: ctx.tensors = (CAt, subA, A).
    step = {"method": "qlora", "lora": {"target_modules": ["q_proj"], "adapter_dtype": "bf16"}}
    four, eight = (
        plan("fine_tuning", base_quantization=name, **step).layer_activation_bytes for name in ("nf4", "int8")
    )
    # The feed-forward's norm output and the gated product; attention's output and q_proj's input are kept anyway.
    assert eight - four == LAYERS * TOKENS * 2 * (HIDDEN + FFN)


def test_a_compiled_loss_in_chunks_keeps_16_bit_logits() -> None:
    def kept(**loss: Any) -> int:
        return plan(loss_implementation="chunked", **loss).moments["end_of_forward"].allocated_bytes

    assert kept() - kept(compile_loss=True) == pytest.approx(2 * TOKENS * VOCAB, rel=0.4)


def test_a_loss_fused_with_the_head_brings_ligers_other_kernels() -> None:
    # Liger-Kernel: norms keep 16-bit input and a number per row, the activation keeps gate and up, rotation is in
    # place. Per token of a layer: residual, norm output twice, q, k, v, attention, its logarithms, gate, up, product.
    kept = plan(loss_implementation="fused_linear").layer_activation_bytes
    q, k = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    per_token = 2 * (4 * HIDDEN + 2 * q + 2 * k + 3 * FFN) + 4 * HEADS + 2 * 4
    assert kept == pytest.approx(TOKENS * LAYERS * per_token, rel=0.001)
