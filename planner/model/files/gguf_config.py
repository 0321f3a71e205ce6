"""GGUF metadata as the configuration that Hugging Face would have for the same model.

Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and llama.cpp's gguf-py/gguf/constants.py.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.errors import ModelError
from planner.model.files.gguf import ArrayLength, GgufHeader
from planner.model.files.tensors import TensorSummary

ARCHITECTURES = {
    "arcee": "arcee",
    "baichuan": "baichuan",
    "bert": "bert",
    "bloom": "bloom",
    "command-r": "cohere",
    "cohere2": "cohere2",
    "deepseek2": "deepseek_v3",
    "dots1": "dots1",
    "ernie4_5": "ernie4_5",
    "exaone4": "exaone4",
    "falcon": "falcon",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "glm4": "glm4",
    "glm4moe": "glm4_moe",
    "gpt-oss": "gpt_oss",
    "gpt2": "gpt2",
    "gptneox": "gpt_neox",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "hunyuan-dense": "hunyuan_v1_dense",
    "internlm2": "internlm2",
    "llama": "llama",
    "mamba": "mamba",
    "minicpm": "minicpm",
    "minimax-m2": "minimax_m2",
    "mistral3": "ministral3",
    "mpt": "mpt",
    "nemotron": "nemotron",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "phi2": "phi",
    "phi3": "phi3",
    "phimoe": "phimoe",
    "qwen2": "qwen2",
    "qwen2moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
}
"""llama.cpp's name of an architecture, and the model type of its configuration."""
KEYS = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "ssm.state_size": "state_size",
    "ssm.conv_kernel": "conv_kernel",
    "ssm.time_step_rank": "time_step_rank",
}
_EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")


def gguf_config(header: GgufHeader, tensors: TensorSummary, path: Path) -> dict[str, Any]:
    """A configuration for the model in a GGUF file; `tensors` are those of all its parts."""
    metadata = header.metadata
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise ModelError(f"{path} does not say which architecture its model has (“general.architecture”).")
    own = {key.removeprefix(architecture + "."): value for key, value in metadata.items()}
    shapes = {entry.name: entry.shape for entry in tensors.entries}
    config: dict[str, Any] = {"model_type": ARCHITECTURES.get(architecture, architecture)}
    config |= {usual: _plain(own[key], path, key) for key, usual in KEYS.items() if key in own}
    config["vocab_size"] = _vocabulary(config, metadata, shapes, path)
    config["tie_word_embeddings"] = "output.weight" not in shapes
    config |= _heads(own, architecture, path) | _biases(shapes) | _experts(own, config, architecture, path)
    if architecture == "llama" and config.get("num_local_experts"):
        config["model_type"] = "mixtral"
    if architecture == "falcon":
        config |= _falcon(config)
    if architecture == "mamba" and isinstance(own.get("ssm.inner_size"), int):
        config["expand"] = own["ssm.inner_size"] / max(1, config.get("hidden_size") or 1)
    name = metadata.get("general.name")
    if isinstance(name, str) and name:
        config["_name_or_path"] = name[:200]
    bits = 8 * tensors.size_bytes / max(1, tensors.elements)
    config["quantization_config"] = {"quant_method": "gguf", "bits": bits, "stored_bytes": tensors.size_bytes}
    return config


def _plain(value: Any, path: Path, key: str) -> Any:
    """A number; a list with one for each layer counts when all are alike."""
    if isinstance(value, list):
        if not value or any(item != value[0] for item in value):
            raise ModelError(f"{path}: layers that differ in “{key}” cannot be read yet.")
        return value[0]
    if isinstance(value, ArrayLength):
        raise ModelError(f"{path}: “{key}” holds {value.items} numbers, more than a model has layers.")
    return value


def _vocabulary(
    config: Mapping[str, Any], metadata: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], path: Path
) -> int:
    """The rows of the token table, else the entries of the vocabulary."""
    table = shapes.get("token_embd.weight")
    if table is not None and len(table) == 2:
        return table[0]
    tokens = metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, ArrayLength):
        return tokens.items
    if isinstance(tokens, list):
        return len(tokens)
    stated = config.get("vocab_size")
    if isinstance(stated, int):
        return stated
    raise ModelError(f"{path} holds neither a token table nor a vocabulary; it is no whole language model.")


def _heads(own: Mapping[str, Any], architecture: str, path: Path) -> dict[str, Any]:
    if architecture == "deepseek2":
        rotary = _plain(own.get("rope.dimension_count", 64), path, "rope.dimension_count")
        key = own.get("attention.key_length_mla", own.get("attention.key_length"))
        value = own.get("attention.value_length_mla", own.get("attention.value_length"))
        width = key - rotary if isinstance(key, int) and isinstance(rotary, int) else None
        return {"qk_rope_head_dim": rotary, "qk_nope_head_dim": width, "v_head_dim": value}
    if "attention.key_length" in own:
        return {"head_dim": _plain(own["attention.key_length"], path, "attention.key_length")}
    return {}


def _biases(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, bool]:
    """Switches that only the tensors tell."""
    attention = "blk.0.attn_q.bias" in shapes or "blk.0.attn_qkv.bias" in shapes
    feed_forward, normed = "blk.0.ffn_up.bias" in shapes, "blk.0.attn_q_norm.weight" in shapes
    return {
        "attention_bias": attention,
        "use_qkv_bias": attention,
        "use_bias": attention,
        "mlp_bias": feed_forward,
        "use_qk_norm": normed,
        "qk_layernorm": normed,
        "use_parallel_residual": "blk.0.ffn_norm.weight" not in shapes,
        "lm_head_bias": "output.bias" in shapes,
    }


def _falcon(config: Mapping[str, Any]) -> dict[str, Any]:
    """Falcon's switches: one KV head is the first architecture, several the new one."""
    kv_heads = config.get("num_key_value_heads")
    return {"multi_query": kv_heads == 1, "new_decoder_architecture": kv_heads != 1, "num_kv_heads": kv_heads}


def _experts(own: Mapping[str, Any], config: Mapping[str, Any], architecture: str, path: Path) -> dict[str, Any]:
    count = own.get("expert_count", 0)
    if not count:
        return {}
    count = _plain(count, path, "expert_count")
    found: dict[str, Any] = dict.fromkeys(_EXPERT_KEYS, count)
    size = config.get("moe_intermediate_size")
    if size is not None and architecture in ("gpt-oss", "granitemoe", "minimax-m2", "olmoe", "phimoe"):
        found["intermediate_size"] = size
    return found
