"""Decoders of an unknown type, read as what their keys look like and marked approximate."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.errors import ModelError
from planner.model.readers.config import Config, class_defaults
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward
from planner.model.readers.layers import layer_count, merged
from planner.model.readers.moe import first_dense
from planner.model.readers.registry import reader_of
from planner.model.spec import (
    LAYER_NORM,
    RMS_NORM,
    DenseFeedForward,
    LatentAttention,
    LayerGroup,
    Mixer,
    MixtureOfExperts,
    ModelSpec,
)

NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "hidden_dim", "model_dim", "embed_dim", "dim"),
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers", "num_decoder_layers", "decoder_layers"),
    "num_attention_heads": ("n_head", "num_heads", "n_heads", "attention_heads", "decoder_attention_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num", "num_query_groups"),
    "intermediate_size": ("ffn_hidden_size", "ffn_dim", "n_inner", "d_ff", "ffn_size", "decoder_ffn_dim"),
    "vocab_size": ("padded_vocab_size", "n_vocab"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "n_ctx", "max_sequence_length"),
    "hidden_act": ("hidden_activation", "activation_function", "activation", "act_fn"),
    "head_dim": ("kv_channels", "attention_head_dim"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": ("moe_topk", "moe_top_k", "moe_k", "top_k_experts", "num_experts_per_token"),
}
"""What else files call a key."""
LANGUAGE = ("text_config", "llm_config", "language_config")
"""Keys under which multimodal models keep their language model."""
NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size")
_GATED = ("silu", "swish", "swiglu", "geglu", "gelu_pytorch_tanh")


def read_generic(config: Config, task: str | None) -> ModelSpec:
    """A decoder by the usual meaning of its keys; refused when one that is needed is missing."""
    language = next((key for key in LANGUAGE if isinstance(config.raw(key), Mapping)), None)
    beside = [key for key in config.stated if key.endswith("_config") and key not in ("quantization_config", language)]
    if language is not None:
        spec = _language_model(config, language, task)
        reason = f"models of type “{config.model_type}” are not known; only its language model is read"
        if beside:
            reason += f", without what {' and '.join(f'“{key}”' for key in beside)} describe"
    else:
        spec = _decoder(_needed(config, config.stated), task)
        reason = f"models of type “{config.model_type}” are not known; this one is read by its keys as Llama-like"
    return replace(spec, name=config.model_type, model_type=config.model_type, approximate=reason)


def _language_model(config: Config, key: str, task: str | None) -> ModelSpec:
    """The nested language model, exactly where its own type is known."""
    values: Mapping[str, Any] = config.raw(key)
    kind = values.get("model_type")
    reader = reader_of(kind) if isinstance(kind, str) else None
    where = f"{config.where}, “{key}”"
    if reader is not None and isinstance(kind, str):
        return reader(Config(values, kind, where), "causal-lm")
    return _decoder(_needed(Config(values, config.model_type, where), values), task)


def _needed(config: Config, values: Mapping[str, Any]) -> Config:
    """The keys under their usual names, over the defaults of a type that is known at least by these."""
    known = class_defaults().get(config.model_type, {}).get("defaults", {})
    keys = Config(_usual({**known, **values}), "generic", config.where)
    missing = [key for key in NEEDED if not keys.states(key)]
    if missing:
        raise ModelError(
            f"{config.where}: models of type “{config.model_type}” are not known, and to read one by its keys "
            f"{', '.join(f'“{key}”' for key in missing)} would be needed too."
        )
    return keys


def _usual(values: Mapping[str, Any]) -> dict[str, Any]:
    renamed = dict(values)
    for usual, others in NAMES.items():
        if renamed.get(usual) is None:
            found = next((other for other in others if renamed.get(other) is not None), None)
            if found is not None:
                renamed[usual] = renamed[found]
    return renamed


def _decoder(keys: Config, task: str | None) -> ModelSpec:
    layer_norm = keys.raw("layer_norm_eps") is not None or keys.raw("layer_norm_epsilon") is not None
    activation = str(keys.raw("hidden_act", "silu")).lower()
    traits = Traits(
        norm=LAYER_NORM if layer_norm and keys.raw("rms_norm_eps") is None else RMS_NORM,
        qkv_bias=_true(keys, "attention_bias", "qkv_bias", "use_bias", "add_qkv_bias"),
        output_bias=_true(keys, "attention_bias", "use_bias"),
        mlp_bias=_true(keys, "mlp_bias", "use_bias"),
        gated=activation in _GATED,
        qk_norm=_true(keys, "use_qk_norm", "qk_layernorm"),
        tied=_true(keys, "tie_word_embeddings"),
    )
    mixer: Mixer = _latent(keys) if keys.states("kv_lora_rank") else attention(keys, traits)
    dense, count = feed_forward(keys, traits), layer_count(keys)
    experts = _experts(keys, dense) if keys.states("num_experts") and keys.size("num_experts") > 1 else None
    sparse = [experts is not None] * count
    if experts is not None and keys.states("first_k_dense_replace"):
        sparse = first_dense(keys, count)
    layers = (LayerGroup(1, mixer, experts if has and experts else dense, traits.norm) for has in sparse)
    return decoder_model(keys, task, traits, merged(layers))


def _true(keys: Config, *names: str) -> bool:
    return any(keys.raw(name) is True for name in names)


def _latent(keys: Config) -> LatentAttention:
    return LatentAttention(
        heads=keys.size("num_attention_heads"),
        kv_lora_rank=keys.size("kv_lora_rank"),
        qk_nope_head_dim=keys.size("qk_nope_head_dim"),
        qk_rope_head_dim=keys.size("qk_rope_head_dim"),
        v_head_dim=keys.size("v_head_dim"),
        q_lora_rank=keys.optional_size("q_lora_rank"),
    )


def _experts(keys: Config, dense: DenseFeedForward) -> MixtureOfExperts:
    experts = keys.size("num_experts")
    size = keys.size("moe_intermediate_size", dense.size)
    shared = keys.count("n_shared_experts", keys.count("num_shared_experts"))
    shared_size = keys.count("shared_expert_intermediate_size", shared * size)
    return MixtureOfExperts(
        experts,
        keys.size("num_experts_per_tok", 2, maximum=experts),
        size,
        gated=dense.gated,
        activation=dense.activation,
        bias=dense.bias,
        shared=replace(dense, size=shared_size) if shared_size else None,
    )
