"""Cache sizes per kind of layer, against published figures and hand counts."""

import numpy as np
import pytest

from planner.engine.kv_cache import CachePolicy, kv_bytes_per_token, kv_cache_terms, window_alone
from planner.model.spec import (
    Attention,
    DenseFeedForward,
    Embedding,
    GatedDeltaNet,
    Head,
    LatentAttention,
    LayerGroup,
    ModelSpec,
    SparseIndexer,
    Stack,
)
from planner.units import GIB, MIB


def model(*groups: tuple[int, object], hidden: int = 4096) -> ModelSpec:
    layers = tuple(LayerGroup(count, mixer, DenseFeedForward(4 * hidden)) for count, mixer in groups)
    return ModelSpec("m", "m", "causal-lm", (Stack("decoder", hidden, Embedding(1000, hidden), layers),), None)


LLAMA_8B = model((32, Attention(32, 8, 128)))


def cache(spec, policy=None, **amounts) -> int:
    return sum(item.bytes for item in kv_cache_terms(spec, policy or CachePolicy(), ("decode",), **amounts))


def test_llama_3_1_8b_keeps_131072_bytes_per_token():
    assert kv_bytes_per_token(LLAMA_8B) == 131072


def test_llama_3_70b_with_8_sequences_of_32k_needs_80_gib():
    # The head dimension is 128 and not hidden / kv heads, which would cancel grouped queries (640 GiB).
    assert cache(model((80, Attention(64, 8, 128)), hidden=8192), sequences=8, tokens=32768) == 80 * GIB


def test_mistral_small_22b_at_49152_tokens_in_q8_0_is_what_ollama_allocated():
    # ollama/ollama#6160: 56 layers, 8 KV heads of 128: 5 712.00 MiB
    spec = model((56, Attention(48, 8, 128)))
    assert cache(spec, CachePolicy(element_bytes=34 / 32), sequences=1, tokens=49152) == 5712 * MIB


def test_gpt_oss_120b_charges_sliding_layers_at_short_context():
    # alvarobartt/hf-mem#60: 36 layers, half of them sliding, 8 KV heads of 64: 73 728 bytes per token
    spec = model((18, Attention(64, 8, 64, window=128)), (18, Attention(64, 8, 64)))
    assert kv_bytes_per_token(spec) == 73728


def test_deepseek_latent_cache_is_70272_bytes_per_token_and_not_divided_by_tensor_parallel():
    spec = model((61, LatentAttention(128, 512, 128, 64, 128)))
    assert kv_bytes_per_token(spec) == kv_bytes_per_token(spec, tensor_parallel=8) == 70272
    assert cache(spec, sequences=1, tokens=4096) / GIB == pytest.approx(0.268, abs=0.0005)


def test_heads_are_repeated_when_tensor_parallel_exceeds_them():
    assert kv_bytes_per_token(LLAMA_8B, tensor_parallel=8) == 16384
    assert kv_bytes_per_token(LLAMA_8B, tensor_parallel=16) == 16384


def test_even_pipeline_stages_divide_the_cache():
    assert kv_bytes_per_token(LLAMA_8B, pipeline=4) == 131072 // 4


def test_sliding_layers_hold_their_window_and_full_layers_the_context():
    spec = model((10, Attention(32, 8, 128, window=1024)), (2, Attention(32, 8, 128)))
    per_layer_token = 2 * 8 * 128 * 2
    assert cache(spec, sequences=1, tokens=8192) == (10 * 1024 + 2 * 8192) * per_layer_token
    assert window_alone(1024, 100) == 100


def test_gemma_3_27b_at_128000_tokens_with_q8_keys_needs_7_79_gib():
    # gpustack/gpustack#2101: 52 of 62 layers slide over 1 024 tokens; K in q8_0, V in f16.
    spec = model((52, Attention(32, 16, 128, window=1024)), (10, Attention(32, 16, 128)))
    policy = CachePolicy(element_bytes=(34 / 32 + 2) / 2)
    assert cache(spec, policy, sequences=1, tokens=128000) / GIB == pytest.approx(7.79, abs=0.005)


def test_a_cache_in_blocks_rounds_every_sequence_up():
    assert cache(LLAMA_8B, CachePolicy(block_size=16), sequences=3, tokens=17) == 3 * 32 * 131072


def test_recurrent_layers_keep_a_state_that_does_not_grow():
    # Qwen3.5-35B-A3B: 30 layers, 32 value heads of 128 x 128 in fp32
    spec = model((30, GatedDeltaNet(16, 32, 128, 128, 4)))
    assert kv_bytes_per_token(spec) == 0
    states = kv_cache_terms(spec, CachePolicy(), ("decode",), sequences=1, tokens=9)
    assert next(item.bytes for item in states if item.name == "recurrent state") == 30 * 32 * 128 * 128 * 4


def test_encoders_keep_no_cache():
    encoder = model((12, Attention(12, 12, 64, causal=False)))
    assert kv_cache_terms(encoder, CachePolicy(), (), sequences=1, tokens=9) == ()


def test_a_sweep_over_sequences_and_lengths_equals_single_estimates():
    sequences, tokens = np.array([1, 4, 32]), np.array([1000, 4096, 131072])
    spec = model((10, Attention(32, 8, 128, window=1024)), (2, Attention(32, 8, 128)))
    policy = CachePolicy(block_size=16)
    swept = cache(spec, policy, sequences=sequences, tokens=tokens)
    single = [cache(spec, policy, sequences=int(s), tokens=int(t)) for s, t in zip(sequences, tokens, strict=True)]
    assert list(swept) == single


def test_sparse_latent_attention_keeps_656_and_132_bytes_in_8_bits():
    # DeepSeek-V3.2 in vLLM and SGLang: 512 values with four scales, 64 rotated keys in 16 bits, and the index key
    mixer = LatentAttention(128, 512, 128, 64, 128, 1536, indexer=SparseIndexer(64, 128, 2048))
    stack = Stack("decoder", 7168, Embedding(1000, 7168), (LayerGroup(61, mixer, None),))
    spec = ModelSpec("m", "deepseek_v32", "causal-lm", (stack,), Head(1000), 163840)
    assert kv_bytes_per_token(spec, 1, packs_sparse=True) == 61 * (656 + 132)
    assert kv_bytes_per_token(spec, 2, packs_sparse=True) == 61 * (1152 + 132)
    assert kv_bytes_per_token(spec, 2) == 61 * (576 + 128) * 2
