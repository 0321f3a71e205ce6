"""What vLLM profiles and how hybrids share its pool, against published logs."""

import json

import pytest

from planner.engine.phases.serving import plan_serving
from planner.engine.servers import serving_workload
from planner.engine.servers.versions import possible_versions, version_number, vllm_band, vllm_rules
from planner.engine.servers.vllm_pages import shared_pages
from planner.hardware import load_hardware
from planner.model.spec import (
    Attention,
    DenseFeedForward,
    Embedding,
    GatedDeltaNet,
    Head,
    LatentAttention,
    LayerGroup,
    MixtureOfExperts,
    ModelSpec,
    Stack,
)
from planner.scenario.serving import Serving
from planner.units import GIB

HARDWARE = load_hardware()
SERVER_STEP = {"max_num_batched_tokens": 8192, "max_num_seqs": 1024, "gpu_memory_utilization": 0.95}


def model(groups, hidden, vocab, model_type="llama") -> ModelSpec:
    stack = Stack("decoder", hidden, Embedding(vocab, hidden), groups)
    return ModelSpec("m", model_type, "causal-lm", (stack,), Head(vocab), 262144)


def activation(spec, version, tensor=1, **fields):
    phase = Serving.model_validate_json(
        json.dumps({"engine_version": version, "parallelism": {"tensor": tensor}, **SERVER_STEP, **fields})
    )
    chosen = HARDWARE.resolve("h100-sxm5-80gb")
    answer = plan_serving(phase, spec, [chosen], chosen, HARDWARE)
    return answer.details["engine_budget"]["h100-sxm5-80gb"]["activation_bytes"]


def experts(layers, hidden, heads, kv_heads, count, visited, size, vocab, shared=None):
    feed_forward = MixtureOfExperts(count, visited, size, shared=DenseFeedForward(shared) if shared else None)
    return model((LayerGroup(layers, Attention(heads, kv_heads, 128), feed_forward),), hidden, vocab)


def dense(layers, hidden, heads, kv_heads, size, vocab):
    return model((LayerGroup(layers, Attention(heads, kv_heads, 128), DenseFeedForward(size)),), hidden, vocab)


@pytest.mark.parametrize(
    ("spec", "version", "tensor", "logged_gib"),
    [
        (dense(32, 4096, 32, 8, 14336, 128256), "0.11 V1", 1, 4.76),
        (dense(64, 5120, 64, 8, 25600, 151936), "0.11 V1", 2, 5.64),
        (dense(40, 5120, 40, 8, 17408, 151936), "0.15.0 V1", 1, 5.64),
        (dense(40, 5120, 40, 8, 17408, 151936), "0.17.0 V1", 1, 2.23),
        (dense(32, 4096, 32, 8, 14336, 128256), "0.19.0 V1", 4, 1.89),
        (dense(40, 5120, 40, 10, 17920, 100352), "0.19.0 V1", 1, 1.52),
        (experts(48, 2048, 32, 4, 128, 8, 768, 151936), "0.19.0 V1", 1, 2.68),
        (experts(24, 2048, 16, 16, 60, 4, 1408, 151936, shared=5632), "0.19.0 V1", 1, 2.47),
        (experts(32, 4096, 32, 8, 8, 2, 14336, 32000), "0.19.0 V1", 2, 1.21),
    ],
    ids=["llama-8b", "qwen3-32b", "qwen3-14b", "qwen3-14b-triton", "llama-tp4", "phi-4", "qwen3-30b-a3b",
         "qwen1.5-moe", "mixtral"],
)  # fmt: skip
def test_the_profiled_activation_is_what_the_log_prints(spec, version, tensor, logged_gib):
    # llm-d-planner docs/empirical-vllm-memory-results.md and #205, H100, printed to 0.01 GiB
    assert activation(spec, version, tensor) == pytest.approx(logged_gib * GIB, rel=0.004)


def test_an_fp32_model_keeps_wider_logits():
    # llm-d-planner#205: 45 956 150 067 bytes of cache are left of 0.95 x 79.19 GiB, so 2.20 GiB were profiled
    spec = dense(32, 4096, 32, 8, 14336, 128256)
    assert activation(spec, "0.19.0 V1", weights="fp32", kv_cache_dtype="fp32") == pytest.approx(2.2 * GIB, rel=0.01)


def test_early_v1_did_not_sample_in_its_profile():
    # vllm-project/vllm#13594
    assert activation(dense(32, 4096, 32, 8, 14336, 128256), "0.7.3 V1") < 1.2 * GIB


def test_early_v1_profiled_1024_sequences_on_every_card_and_counted_the_context():
    # vllm-project/vllm#17122: Llama 3.1 8B on an L40S, 158 656 tokens
    chosen = HARDWARE.resolve("l40s")
    phase = Serving.model_validate_json('{"engine_version": "0.8.5", "context_length": 32768}')
    answer = plan_serving(phase, dense(32, 4096, 32, 8, 14336, 128256), [chosen], chosen, HARDWARE)
    assert answer.details["kv"]["tokens_available"]["l40s"] == pytest.approx(158656, rel=0.03)


def hybrid(layers, hidden, value_heads, heads, kv_heads, vocab=248320):
    net = GatedDeltaNet(16, value_heads, 128, 128, 4)
    dense_part = DenseFeedForward(4 * hidden)
    groups = (LayerGroup(3 * layers, net, dense_part), LayerGroup(layers, Attention(heads, kv_heads, 256), dense_part))
    return model(groups, hidden, vocab, "qwen3_5")


def pages(spec, tensor=1, version="0.24", **fields):
    phase = Serving.model_validate_json(
        json.dumps({"kv_cache_dtype": "fp8", "parallelism": {"tensor": tensor}, "engine_version": version, **fields})
    )
    load = serving_workload(phase, spec)
    return shared_pages(load, vllm_band(version), 16, 2048)


def test_qwen3_6_35b_holds_569878_tokens_in_6_01_gib():
    # a start-up log of 0.24: block size 2096, 300 blocks, 131 072 tokens per request
    shared = pages(hybrid(10, 2048, 32, 16, 2))
    assert shared.page_bytes == 2146304
    assert shared.block_tokens == 2096
    assert shared.per_request(131072) == 63 + 6
    assert 6453188362 // shared.unit_bytes == 300
    assert shared.tokens(6453188362, 131072) == 569878


def test_drafting_three_tokens_takes_179_pages_of_a_27b_at_full_length():
    # noonghunna/club-3090: 185 blocks for 179 needed, 1.03 requests
    shared = pages(hybrid(16, 5120, 48, 24, 4), tensor=2, speculative_tokens=3)
    assert shared.layers == 17
    assert shared.per_request(262144) == 179


def test_qwen3_next_has_16_bit_states_and_blocks_of_544_tokens():
    # "Setting attention block size to 544 tokens" for a 16-bit cache and model
    net = GatedDeltaNet(16, 32, 128, 128, 4)
    groups = (LayerGroup(36, net, None), LayerGroup(12, Attention(16, 2, 256), None))
    shared = pages(model(groups, 2048, 151936, "qwen3_next"), kv_cache_dtype="bf16")
    assert shared.block_tokens == 544


def windowed(window_rate=(16, 128), full_rate=(16, 128)):
    groups = (
        LayerGroup(52, Attention(32, window_rate[0], window_rate[1], window=1024), None),
        LayerGroup(10, Attention(32, full_rate[0], full_rate[1]), None),
    )
    return model(groups, 5376, 262208)


def test_windows_hold_their_window_and_the_step_in_every_group():
    # Gemma 3 27B: 52 sliding layers are six groups of ten, the last with eight layers of padding
    shared = pages(windowed(), version="0.19", kv_cache_dtype="bf16")
    assert (shared.layers, shared.full_groups, shared.windows) == (10, 1, ((1024, 6),))
    assert shared.per_request(32768) == 2048 + 6 * (192 + 1)


@pytest.mark.parametrize(("version", "grouped"), [("0.8.5 V1", False), ("0.6.4", False), ("0.11", True)])
def test_older_versions_charge_windows_in_full(version, grouped):
    assert (pages(windowed(), version=version) is not None) == grouped


@pytest.mark.parametrize(("version", "grouped"), [("0.20.1", False), ("0.21", True)])
def test_layers_of_two_cache_widths_share_pages_from_0_21(version, grouped):
    # vllm-project/vllm#43308 (Gemma 4)
    assert (pages(windowed(full_rate=(2, 512)), version=version) is not None) == grouped


def test_before_latent_caches_keys_and_values_were_padded_to_256():
    # vllm-project/vllm#4650: DeepSeek-Coder-V2 on eight H100 refused 16 000 tokens, 2 368 fitted
    group = LayerGroup(60, LatentAttention(128, 512, 128, 64, 128, 1536), None)
    spec = model((group,), 5120, 102400, "deepseek_v2")
    chosen = HARDWARE.resolve("h100-sxm5-80gb")
    rates = []
    for version in ("0.5.0 V0", "0.7.2 V0"):
        phase = Serving.model_validate_json(
            json.dumps({"engine_version": version, "parallelism": {"tensor": 8}, "context_length": 16000})
        )
        answer = plan_serving(phase, spec, [chosen], chosen, HARDWARE)
        rates.append(answer.details["kv"]["bytes_needed"]["h100-sxm5-80gb"] // 16000)
    assert rates == [60 * 2 * 16 * 256 * 2, 60 * 576 * 2]


def test_versions_are_read_to_the_patch():
    assert version_number("0.6.5 V0") == (0, 6, 5)
    assert version_number("v0.19") == (0, 19, 0)
    assert version_number("nightly") is None
    assert vllm_band("0.6.4").non_torch_mib is None
    assert vllm_band("0.6.5").non_torch_mib == 1833


def test_every_possible_version_has_its_own_band():
    found = [vllm_band(version) for version in possible_versions()]
    assert len(set(map(id, found))) == len(found)
    assert all(band.generation == "V1" for band in found)


def test_a_card_is_known_by_the_longest_part_of_its_name():
    rules = vllm_rules()
    assert rules.multiprocessors_of("NVIDIA H100 PCIe 80GB") == 114
    assert rules.multiprocessors_of("NVIDIA A10G") == 80
    assert rules.multiprocessors_of("something else") == 132
