"""GGUF metadata give the same model as the configuration that they were converted from."""

from pathlib import Path
from typing import Any

import pytest

from planner.model import load_presets, read_config
from planner.model.counts import kv_bytes_per_token, parameters
from planner.model.files.gguf import GgufHeader
from planner.model.files.gguf_config import gguf_config
from planner.model.files.tensors import TensorEntry, TensorSummary

CASES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "meta-llama/Llama-3.1-8B": (
        "llama",
        {"attention.head_count_kv": 8, "feed_forward_length": 14336, "rope.dimension_count": 128},
        ("output.weight",),
    ),
    "mistralai/Mixtral-8x7B-v0.1": (
        "llama",
        {"attention.head_count_kv": 8, "feed_forward_length": 14336, "expert_count": 8, "expert_used_count": 2},
        ("output.weight",),
    ),
    "Qwen/Qwen2.5-7B-Instruct": (
        "qwen2",
        {"attention.head_count_kv": 4, "feed_forward_length": 18944},
        ("output.weight", "blk.0.attn_q.bias"),
    ),
    "Qwen/Qwen3-30B-A3B": (
        "qwen3moe",
        {
            "attention.head_count_kv": 4,
            "attention.key_length": 128,
            "feed_forward_length": 6144,
            "expert_count": 128,
            "expert_used_count": 8,
            "expert_feed_forward_length": 768,
        },
        ("output.weight", "blk.0.attn_q_norm.weight"),
    ),
    "google/gemma-2-2b": (
        "gemma2",
        {"attention.head_count_kv": 4, "attention.key_length": 256, "feed_forward_length": 9216},
        (),
    ),
    "deepseek-ai/DeepSeek-V3": (
        "deepseek2",
        {
            "attention.head_count_kv": 1,
            "attention.key_length": 576,
            "attention.value_length": 512,
            "attention.key_length_mla": 192,
            "attention.value_length_mla": 128,
            "attention.q_lora_rank": 1536,
            "attention.kv_lora_rank": 512,
            "rope.dimension_count": 64,
            "feed_forward_length": 18432,
            "leading_dense_block_count": 3,
            "expert_count": 256,
            "expert_used_count": 8,
            "expert_shared_count": 1,
            "expert_feed_forward_length": 2048,
        },
        ("output.weight",),
    ),
    "openai/gpt-oss-20b": (
        "gpt-oss",
        {
            "attention.head_count_kv": 8,
            "attention.key_length": 64,
            "feed_forward_length": 2880,
            "expert_count": 32,
            "expert_used_count": 4,
            "expert_feed_forward_length": 2880,
        },
        ("output.weight", "blk.0.attn_q.bias"),
    ),
    "tiiuae/falcon-7b": ("falcon", {"attention.head_count_kv": 1, "feed_forward_length": 18176}, ()),
    "tiiuae/falcon-40b": ("falcon", {"attention.head_count_kv": 8, "feed_forward_length": 32768}, ()),
    "EleutherAI/pythia-1b": (
        "gptneox",
        {"feed_forward_length": 8192},
        ("output.weight", "blk.0.attn_qkv.bias", "blk.0.ffn_up.bias"),
    ),
    "bigcode/starcoder2-7b": (
        "starcoder2",
        {"attention.head_count_kv": 4, "feed_forward_length": 18432},
        ("blk.0.attn_q.bias", "blk.0.ffn_up.bias"),
    ),
    "microsoft/phi-4": ("phi3", {"attention.head_count_kv": 10, "feed_forward_length": 17920}, ("output.weight",)),
    "openai-community/gpt2": ("gpt2", {"feed_forward_length": 3072}, ("blk.0.attn_qkv.bias",)),
}


@pytest.mark.parametrize("identifier", CASES)
def test_metadata_give_the_model_of_the_configuration(identifier: str) -> None:
    preset = load_presets()[identifier]
    exact = read_config(preset.config, preset.task)
    architecture, own, tensors = CASES[identifier]
    table = exact.stack.embedding
    assert table is not None
    heads = next(
        group.mixer.heads for group in exact.stack.groups if group.mixer is not None and hasattr(group.mixer, "heads")
    )
    own = {
        "block_count": exact.layers,
        "embedding_length": exact.stack.hidden_size,
        "attention.head_count": heads,
        "context_length": exact.max_positions or 2048,
        **own,
    }
    metadata = {"general.architecture": architecture, **{f"{architecture}.{key}": own[key] for key in own}}
    named = {"token_embd.weight": (table.vocab, table.size), "blk.0.ffn_norm.weight": (1,)}
    named |= dict.fromkeys(tensors, (1,))
    summary = TensorSummary(tuple(TensorEntry(name, shape, "f16", 2) for name, shape in named.items()))
    from_config = gguf_config(GgufHeader(metadata, summary), summary, Path("m.gguf"))
    read = read_config(from_config)
    assert parameters(read) == parameters(exact)
    assert kv_bytes_per_token(read) == kv_bytes_per_token(exact)
