"""Serving engines against their own logs and tables."""

import json
from dataclasses import replace

import numpy as np
import pytest

from planner.engine.phases.serving import plan_serving
from planner.engine.servers import MOMENTS, plan_server, serving_workload
from planner.engine.servers.sglang import automatic_fraction, vision_share
from planner.engine.servers.versions import vllm_band
from planner.errors import PlannerError
from planner.hardware import load_hardware
from planner.model import resolve_model
from planner.model.spec import (
    Attention,
    DenseFeedForward,
    Embedding,
    GatedDeltaNet,
    Head,
    LayerGroup,
    ModelSpec,
    Norm,
    Stack,
)
from planner.scenario.model_source import PresetModel
from planner.scenario.serving import Serving
from planner.units import GIB, MIB

HARDWARE = load_hardware()


def llama(layers, hidden, heads, kv_heads, ffn, vocab=128256, positions=131072, qk_norm=None) -> ModelSpec:
    group = LayerGroup(layers, Attention(heads, kv_heads, 128, qk_norm=qk_norm), DenseFeedForward(ffn))
    stack = Stack("decoder", hidden, Embedding(vocab, hidden), (group,))
    return ModelSpec("m", "llama", "causal-lm", (stack,), Head(vocab), positions)


LLAMA_8B = llama(32, 4096, 32, 8, 14336)
LLAMA_70B = llama(80, 8192, 64, 8, 28672)
QWEN_32B = llama(64, 5120, 64, 8, 25600, 151936, 40960, Norm())
MISTRAL_7B = llama(32, 4096, 32, 8, 14336, 32000, 32768)


def plan(spec, gpu="h100-sxm5-80gb", total=None, **fields):
    chosen = HARDWARE.resolve(gpu, total_bytes=total)
    phase = Serving.model_validate_json(json.dumps(fields))
    return plan_serving(phase, spec, [chosen], chosen, HARDWARE)


def budget(spec, gpu="h100-sxm5-80gb", **fields):
    return plan(spec, gpu, **fields).details["engine_budget"][gpu]


def test_vllm_0_19_divides_an_h100_as_its_log_says_for_llama_8b():
    # utilization 0.95 of 79.19 GiB: weights 14.99, activation 1.89, non-torch 0.25, cache 58.11 GiB, 476 016 tokens
    answer = plan(
        LLAMA_8B, total=85029615043, engine_version="0.19.0 V1", gpu_memory_utilization=0.95,
        max_num_batched_tokens=8192, max_num_seqs=1024,
    )  # fmt: skip
    parts = answer.details["engine_budget"]["h100-sxm5-80gb"]
    assert parts["weights_bytes"] == pytest.approx(14.99 * GIB, rel=0.0005)
    assert parts["activation_bytes"] == pytest.approx(1.89 * GIB, rel=0.01)
    assert parts["non_torch_bytes"] == 0.25 * GIB
    assert parts["kv_cache_bytes"] == pytest.approx(58.11 * GIB, rel=0.001)
    assert answer.details["kv"]["tokens_available"]["h100-sxm5-80gb"] == pytest.approx(476016, rel=0.001)


def test_an_fp8_cache_holds_twice_the_tokens():
    fields = {"engine_version": "0.19.0 V1", "max_num_seqs": 1024, "gpu_memory_utilization": 0.95}
    wide = plan(LLAMA_8B, total=85029615043, **fields).details["kv"]["tokens_available"]["h100-sxm5-80gb"]
    narrow = plan(LLAMA_8B, total=85029615043, kv_cache_dtype="fp8", **fields).details["kv"]["tokens_available"]
    assert narrow["h100-sxm5-80gb"] == pytest.approx(2 * wide, abs=16)


def test_vllm_0_6_without_chunked_prefill_profiles_the_whole_prompt():
    # logs of Llama 3.1 8B on an RTX 3090: 2.07 GiB at 20 000 tokens, 2.99 GiB at 29 000
    fields = {"engine_version": "0.6.4 V0", "chunked_prefill": False, "max_num_seqs": 256}
    short = budget(LLAMA_8B, "rtx-3090", context_length=20000, **fields)["activation_bytes"]
    long = budget(LLAMA_8B, "rtx-3090", context_length=29000, **fields)["activation_bytes"]
    assert short == pytest.approx(2.07 * GIB, rel=0.01)
    assert long == pytest.approx(2.99 * GIB, rel=0.01)


def test_the_sampler_dominates_at_4096_sequences_in_vllm_0_6():
    # 19.09 GiB on MI300X for Llama 3.1 70B: 38 bytes per sampled logit and the hidden states of 32 768 tokens
    parts = budget(LLAMA_70B, "mi300x", engine_version="0.6.5 V0", max_num_seqs=4096, context_length=32768)
    assert parts["activation_bytes"] == pytest.approx(19.09 * GIB, rel=0.005)


def test_vllm_0_6_5_profiles_1_26_gib_for_llama_3_8b():
    # vllm-project/vllm#10511: PyTorch activation peak memory 1.26 GiB, on one GPU and on two
    for tensor in (1, 2):
        parts = budget(LLAMA_8B, engine_version="0.6.5", context_length=8192, parallelism={"tensor": tensor})
        assert parts["activation_bytes"] == pytest.approx(1.26 * GIB, rel=0.005)


def test_qwen3_32b_on_one_h100_refuses_32000_tokens_and_serves_16000():
    # llm-d-planner: 32 000 tokens need 7.81 GiB of cache, 16 000 need 3.91; 4.45 GiB were free.
    fields = {"engine_version": "0.11 V1", "max_num_seqs": 1024, "max_num_batched_tokens": 8192}
    long, short = (plan(QWEN_32B, context_length=length, **fields) for length in (32000, 16000))
    assert "7.81 GiB KV cache is needed, which is larger than" in long.needs["h100-sxm5-80gb"].refusal
    need = short.needs["h100-sxm5-80gb"]
    assert need.refusal is None
    assert need.need_bytes <= need.capacity_bytes


def test_a_tenth_of_a_t4_has_no_room_for_mistral_7b_awq():
    # vllm-project/vllm#7028
    need = plan(MISTRAL_7B, "t4", weights="awq-int4", gpu_memory_utilization=0.1, context_length=2048).needs["t4"]
    assert "No available memory for the cache blocks" in need.refusal


def test_blocks_are_the_pool_divided_by_block_and_token():
    # llm-d-benchmark#454
    answer = plan(LLAMA_8B, engine_version="0.19", kv_cache_memory_bytes=10 * GIB, block_size=32)
    assert answer.details["kv"]["tokens_available"]["h100-sxm5-80gb"] == 10 * GIB // (32 * 131072) * 32


def test_tensorrt_takes_a_share_of_free_memory_and_vllm_a_share_of_all():
    # ai-dynamo/aiconfigurator#1159
    trt = budget(LLAMA_8B, engine="tensorrt-llm", gpu_memory_utilization=0.9, total=79 * GIB)
    used = trt["weights_bytes"] + trt["activation_bytes"] + trt["non_torch_bytes"] + trt["cuda_graph_bytes"]
    assert trt["kv_cache_bytes"] == int(0.9 * (79 * GIB - used))
    vllm = budget(LLAMA_8B, engine_version="0.19", gpu_memory_utilization=0.9, total=79 * GIB)
    used = vllm["weights_bytes"] + vllm["activation_bytes"] + vllm["non_torch_bytes"]
    assert vllm["kv_cache_bytes"] == int(0.9 * 79 * GIB) - used


def test_a_stated_number_of_tokens_is_the_cache():
    # NVIDIA/TensorRT-LLM#1400: 132 608 tokens x 524 288 bytes of Llama 7B
    llama_7b = llama(32, 4096, 32, 32, 11008, 32000, 2048)
    parts = budget(llama_7b, "a100-sxm4-80gb", engine="tensorrt-llm", weights="int8", kv_cache_dtype="fp16",
                   max_total_tokens=132608, context_length=2048)  # fmt: skip
    assert parts["kv_cache_bytes"] == 69_524_783_104


def test_sglang_refuses_when_weights_exceed_the_static_fraction():
    # InferenceX#2128: a fraction below weights / total cannot start.
    need = plan(LLAMA_8B, engine="sglang", gpu_memory_utilization=0.15).needs["h100-sxm5-80gb"]
    assert "Please try to increase --mem-fraction-static" in need.refusal


def test_engines_say_in_their_own_words_what_does_not_fit():
    long = plan(LLAMA_8B, "rtx-4090", engine="sglang", context_length=131072)
    assert long.warnings[0].startswith("Input length (131072 tokens) exceeds the maximum allowed length (")
    large = plan(LLAMA_70B, "rtx-4090", engine="llama.cpp", weights="q8_0")
    assert large.warnings[0].startswith("cudaMalloc failed: out of memory")


def test_sglang_counts_one_state_more_than_its_slots_and_its_share_of_what_was_free():
    # A log of a 27B hybrid on GB10: 361 states in 50.77 GB of recurrence and 0.99 GB of convolution (GiB as printed)
    net = GatedDeltaNet(16, 48, 128, 128, 4)
    groups = (LayerGroup(48, net, DenseFeedForward(17408)), LayerGroup(16, Attention(24, 4, 256), None))
    stack = Stack("decoder", 5120, Embedding(248320, 5120), groups)
    spec = ModelSpec("m", "qwen3_5", "causal-lm", (stack,), Head(248320), 262144)
    parts = budget(spec, engine="sglang", weights="nvfp4", state_cache_slots=360, gpu_memory_utilization=0.9)
    assert parts["state_bytes"] == pytest.approx((50.77 + 0.99) * GIB, rel=0.001)
    held_before = parts["total_bytes"] - parts["budget_bytes"] / 0.9
    assert held_before == pytest.approx(parts["non_torch_bytes"], abs=2)


def test_sglang_gives_the_cache_its_share_of_what_was_free_before_loading():
    # sgl-project/sglang#18263: 230.20 GB free after loading 56.98 GB of Qwen3-30B-A3B, fraction 0.911: 204.63 GB (GiB)
    group = LayerGroup(48, Attention(32, 4, 128), DenseFeedForward(6144))
    stack = Stack("decoder", 2048, Embedding(151936, 2048), (group,))
    spec = ModelSpec("m", "qwen3", "causal-lm", (stack,), Head(151936), 40960)
    held = budget(spec, engine="sglang")["non_torch_bytes"]
    total = int((230.20 + 56.98) * GIB) + held
    parts = budget(spec, total=total, engine="sglang", gpu_memory_utilization=0.911)
    assert parts["kv_cache_bytes"] + parts["weights_bytes"] == pytest.approx((204.63 + 56.98) * GIB, abs=0.02 * GIB)


def test_sglang_keeps_ten_gib_of_a_large_gpu_by_itself():
    # server_args.py: 512 + 1.5 x 8192 + 2 x 256 + 128 MiB, which is more than 10 GiB
    load = serving_workload(Serving.model_validate_json('{"engine": "sglang"}'), LLAMA_8B)
    assert automatic_fraction(load, 81559 * MIB, 8192, 256) == round(1 - (512 + 12288 + 512 + 128) / 81559, 3)
    assert automatic_fraction(load, 81559 * MIB, 2048, 8) == round(1 - 10240 / 81559, 3)


@pytest.mark.parametrize(
    ("preset", "share"),
    # layers x hidden^2 over 24 x 1024^2: 1.424 for 27 x 1152^2, 2.083 for 32 x 1280^2, 2.678 for 34 x 1408^2;
    # Qwen2-VL's hidden_size is 3584, so that the least share applies
    [
        ("llava-hf/llava-1.5-7b-hf", 0.95), ("google/gemma-3-4b-it", 0.95 * (1 - 0.1 * 0.423828125)),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 0.95 * (1 - 0.1 * (2.0833333 - 1))),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 0.95 * (1 - 0.1 * (2.6783854 - 1))),
        ("Qwen/Qwen2-VL-7B-Instruct", 0.95 * 0.8), ("meta-llama/Llama-3.1-8B", 1.0),
    ],
)  # fmt: skip
def test_sglang_keeps_more_free_for_a_larger_vision_tower(preset, share):
    spec = resolve_model(PresetModel(preset=preset))
    load = serving_workload(Serving.model_validate_json('{"engine": "sglang"}'), spec)
    assert vision_share(load) == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize(
    ("version", "gpus", "fraction"),
    # server_args.py: 0.81 on 8 GPUs before #7054; (9.5 + 8 / 2) GiB of an H100 before #10975; then 512 + 1.5 x 8192 +
    # 2 x 512 + 8 x 128 MiB
    [("0.4.6", 8, 0.81), ("0.4.6", 1, 0.88), ("0.5.1", 8, round(1 - 13.5 * 1024 / 81559, 3)),
     ("0.5.1", 1, round(1 - 10 * 1024 / 81559, 3)), ("0.5.9", 8, round(1 - (512 + 12288 + 1024 + 1024) / 81559, 3)),
     (None, 8, round(1 - (512 + 12288 + 1024 + 1024) / 81559, 3))],
)  # fmt: skip
def test_sglang_kept_a_share_by_gpus_then_a_reserve_by_memory_then_one_by_tokens(version, gpus, fraction):
    fields = {"engine": "sglang", "parallelism": {"tensor": gpus}} | ({"engine_version": version} if version else {})
    load = serving_workload(Serving.model_validate_json(json.dumps(fields)), LLAMA_8B)
    assert automatic_fraction(load, 81559 * MIB, 8192, 512) == fraction


def test_sglang_took_a_tenth_of_any_fraction_from_models_that_see_before_0_4_9():
    spec = resolve_model(PresetModel(preset="google/gemma-3-4b-it"))
    for version, left in (("0.4.6", 0.9), ("0.5.9", 1.0)):
        asked = {"engine": "sglang", "engine_version": version, "gpu_memory_utilization": 0.8}
        text, seeing = (budget(model, **asked)["budget_bytes"] for model in (LLAMA_8B, spec))
        assert seeing / text == pytest.approx(left, rel=1e-6)


def test_llama_cpp_prints_the_cache_of_mistral_small_and_the_compute_buffer_of_a_full_offload():
    # ollama/ollama#6160: KV 5 712 MiB; a full offload's buffer is micro-batch x (vocabulary + hidden) x 4
    spec = llama(56, 6144, 48, 8, 16384, 32768)
    buffers = plan(
        spec, "rtx-4090", engine="llama.cpp", weights="q4_0", kv_cache_dtype="q8_0", context_length=49152
    ).details["buffers"]
    assert buffers["kv_bytes"] == 5712 * MIB
    assert buffers["compute_bytes"] == 512 * (32768 + 6144) * 4


def test_llama_cpp_keeps_the_token_table_on_the_host_and_splits_layers():
    whole = plan(LLAMA_8B, "rtx-4090", engine="llama.cpp", weights="q8_0").details["buffers"]
    assert whole["model_total_bytes"] - whole["model_gpu_bytes"] == 128256 * 4096 * 34 // 32
    half = plan(LLAMA_8B, "rtx-4090", engine="llama.cpp", weights="q8_0", gpu_layers=16)
    layers = (whole["model_gpu_bytes"] - 128256 * 4096 * 34 // 32 - 4096 * 4) // 32
    assert half.details["buffers"]["model_gpu_bytes"] == 16 * layers
    assert sum(item.bytes for item in half.ledger.terms if item.component == "kv_cache") == 8192 * 131072 // 2


def test_transformers_ends_decoding_with_weights_and_the_final_cache():
    # Qwen3 speed benchmark, 8B bf16: 20 267 MiB at the end of 30 720 + 2 048 tokens
    spec = llama(36, 4096, 32, 8, 12288, 151936, 40960, Norm())
    moments, _ = plan(
        spec, "h20-96gb", engine="transformers", context_length=32768, prompt_tokens=30720
    ).ledger.settle()
    assert moments["decode"].allocated_bytes == pytest.approx(21251489792, rel=0.004)


def test_the_need_grows_with_requests_while_the_reserve_does_not():
    one, many = (plan(LLAMA_8B, engine_version="0.19", concurrent_sequences=count) for count in (1, 32))
    gpu = "h100-sxm5-80gb"
    assert many.needs[gpu].need_bytes - one.needs[gpu].need_bytes == 31 * 8192 * 131072
    assert many.details["engine_budget"] == one.details["engine_budget"]


def test_replicas_share_the_requests():
    phase = Serving.model_validate_json('{"concurrent_sequences": 33, "parallelism": {"data": 4}}')
    assert serving_workload(phase, LLAMA_8B).sequences == 9


def test_an_encoder_needs_no_cache_and_is_never_refused_for_one():
    # gpustack/gpustack#1047: a pool is reserved, but an embedding model does not need it.
    group = LayerGroup(12, Attention(12, 12, 64, causal=False), DenseFeedForward(3072, gated=False))
    stack = Stack("encoder", 768, Embedding(21128, 768), (group,))
    encoder = ModelSpec("m3e", "bert", "feature-extraction", (stack,), None, 512)
    answer = plan(encoder, "rtx-4090", engine_version="0.19", context_length=512)
    assert answer.needs["rtx-4090"].refusal is None
    assert answer.needs["rtx-4090"].need_bytes < GIB
    assert answer.details["kv"]["bytes_per_token"] == 0


def test_an_unknown_capacity_leaves_the_budget_open():
    chosen = HARDWARE.resolve("h100-sxm5-80gb")
    unknown = replace(chosen, capacities=replace(chosen.capacities, usable_bytes=None, usable_basis="unknown"))
    answer = plan_serving(Serving.model_validate_json("{}"), LLAMA_8B, [unknown], unknown, HARDWARE)
    assert answer.needs[unknown.id].capacity_bytes is None
    assert answer.details["kv"]["tokens_available"][unknown.id] is None


@pytest.mark.parametrize(("tokens", "compute_mib", "host_mib"), [(2048, 164, 12), (32768, 2144, 72)])
def test_without_flash_attention_llama_cpp_holds_the_scores_of_a_micro_batch(tokens, compute_mib, host_mib):
    # fedora-copr/logdetective#106: Mistral 7B with a vocabulary of 32 768, printed before and after a longer context
    spec = llama(32, 4096, 32, 8, 14336, 32768, 32768)
    fields = {"engine": "llama.cpp", "weights": "q4_k_m", "flash_attention": False}
    buffers = plan(spec, "rtx-4090", context_length=tokens, **fields).details["buffers"]
    assert (buffers["compute_bytes"], buffers["host_bytes"]) == (compute_mib * MIB, host_mib * MIB)


@pytest.mark.parametrize(
    ("engine", "weights"),
    [("vllm", "bf16"), ("sglang", "fp8"), ("tensorrt-llm", "fp8"), ("llama.cpp", "q4_k_m"), ("transformers", "bf16")],
)
def test_a_sweep_over_requests_and_lengths_equals_single_plans(engine, weights):
    chosen = HARDWARE.resolve("l40s")
    phase = Serving.model_validate_json(json.dumps({"engine": engine, "weights": weights}))
    sequences, tokens = np.array([1, 8, 64, 8]), np.array([1000, 8192, 4096, 131072])
    load = replace(serving_workload(phase, LLAMA_8B), sequences=sequences, context_tokens=tokens, prompt_tokens=tokens)
    swept = plan_server(engine, load, chosen, HARDWARE.overheads)
    for index in range(4):
        at = {"sequences": int(sequences[index]), "context_tokens": int(tokens[index])}
        single = plan_server(
            engine, replace(load, prompt_tokens=at["context_tokens"], **at), chosen, HARDWARE.overheads
        )
        assert swept.need_bytes[index] == single.need_bytes
        assert np.broadcast_to(swept.tokens_available, 4)[index] == single.tokens_available
        assert np.broadcast_to(swept.refused, 4)[index] == single.refused


def test_llama_cpp_asks_for_a_gguf_type():
    with pytest.raises(PlannerError, match="awq-int4"):
        plan(LLAMA_8B, engine="llama.cpp", weights="awq-int4")


def test_every_term_is_alive_at_an_instant_of_the_ledger():
    instants = {instant for names in MOMENTS.values() for instant in names}
    for engine, weights in (("vllm", "bf16"), ("sglang", "bf16"), ("tensorrt-llm", "bf16"), ("llama.cpp", "q4_k_m"),
                            ("transformers", "bf16")):  # fmt: skip
        for item in plan(LLAMA_8B, engine=engine, weights=weights).ledger.terms:
            assert set(item.alive) <= instants
            assert item.source


def test_versions_choose_their_band():
    assert vllm_band("0.6.4").generation == vllm_band("0.8 V0").generation == "V0"
    assert vllm_band("0.7.2 V1").generation == "V1"
    assert vllm_band("0.16.0").sampler_bytes > 2 * vllm_band("0.17.0 V1").sampler_bytes
    assert vllm_band("0.25.1").graphs_in_budget
    assert vllm_band(None) == vllm_band("0.19") == vllm_band("nightly")


def test_llama_cpp_prints_68_mib_of_host_buffer_for_qwen3_30b_at_32768_tokens():
    # ikawrakow/ik_llama.cpp log: 512 x (2048 + 32768) x 4 bytes
    spec = llama(48, 2048, 32, 4, 6144, 151936)
    fields = {"engine": "llama.cpp", "weights": "q4_k_m", "context_length": 32768}
    assert plan(spec, "rtx-4090", **fields).details["buffers"]["host_bytes"] == 68 * MIB


def test_graphs_that_count_against_the_budget_widen_the_band():
    # vllm-project/vllm#57936 and others: 0.09 to 2.44 GiB after capture
    before, since = (plan(LLAMA_8B, engine_version=version).needs["h100-sxm5-80gb"] for version in ("0.20", "0.21"))
    assert before.low_bytes == before.need_bytes == before.high_bytes
    assert since.high_bytes - since.need_bytes == 2000 * MIB
    assert since.need_bytes - since.low_bytes == 410 * MIB
    eager = plan(LLAMA_8B, engine_version="0.21", cuda_graphs=False).needs["h100-sxm5-80gb"]
    assert eager.low_bytes == eager.high_bytes


def test_tensorrt_says_when_no_sequence_fits_and_when_only_shorter_ones_do():
    nothing = plan(LLAMA_8B, "t4", engine="tensorrt-llm").needs["t4"].refusal
    assert nothing.startswith("Impossible to fit in any sequence in kvCache")
    capped = plan(LLAMA_8B, "rtx-4090", engine="tensorrt-llm", context_length=131072).needs["rtx-4090"].refusal
    assert capped.startswith("TensorRT-LLM caps max_seq_len at the ")
    assert plan(LLAMA_8B, engine="tensorrt-llm").needs["h100-sxm5-80gb"].refusal is None


def test_tensorrt_takes_its_share_in_whole_blocks():
    # docs/source/reference/memory.md: 0.9 of 70.48 GiB free are 4060 blocks of 64 tokens, 63.44 GiB
    block = 64 * 262144
    assert round(0.9 * 70.48 * GIB / block) == 4060
    assert 4060 * block == pytest.approx(63.44 * GIB, rel=1e-3)
    older, newer = (
        plan(LLAMA_8B, engine="tensorrt-llm", engine_version=version).details["kv"] for version in ("0.12", "1.0")
    )
    assert older["tokens_available"]["h100-sxm5-80gb"] % 64 == 0
    assert newer["tokens_available"]["h100-sxm5-80gb"] % 32 == 0


def test_a_stated_pool_of_tensorrt_is_no_larger_than_what_is_free():
    asked = plan(LLAMA_8B, engine="tensorrt-llm", kv_cache_memory_bytes=200 * GIB).details["engine_budget"]
    parts = asked["h100-sxm5-80gb"]
    assert parts["reserved_bytes"] == pytest.approx(parts["total_bytes"], rel=1e-6)
    small = plan(LLAMA_8B, engine="tensorrt-llm", kv_cache_memory_bytes=4 * GIB).details["engine_budget"]
    assert small["h100-sxm5-80gb"]["kv_cache_bytes"] == 4 * GIB
