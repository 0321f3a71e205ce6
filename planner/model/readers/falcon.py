"""Falcon: attention and feed-forward side by side, one KV head or a few, linear layers of a class of their own."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward, hidden_dropout, layer
from planner.model.readers.layers import layer_count
from planner.model.spec import LAYER_NORM, ModelSpec

MODEL_TYPES = ("falcon",)

_TRAITS = Traits(
    norm=LAYER_NORM,
    qkv_bias="bias",
    output_bias="bias",
    mlp_bias="bias",
    gated=False,
    fused_qkv=True,
    ffn="ffn_hidden_size",
    ffn_ratio=4,
    activation="activation",
    kv_heads="num_kv_heads",
    linear="subclass",
    attention_names=("query_key_value", "", "", "dense"),
    mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
    hidden_dropout="hidden_dropout",
)


def read(config: Config, task: str | None) -> ModelSpec:
    """A Falcon decoder. The new architecture repeats its KV heads before it caches them, as `_split_heads` shows."""
    if config.states("n_embed"):
        config = config.with_values(hidden_size=config.size("n_embed"))
    new, parallel = config.flag("new_decoder_architecture"), config.flag("parallel_attn")
    norms = 2
    if parallel and config.size("num_ln_in_parallel_attn", 2 if new else 1) != 2:
        norms = 1
    traits = replace(
        _TRAITS, norms=norms, arrangement="parallel" if parallel else "pre", rotary=not config.flag("alibi")
    )
    mixer = attention(config, traits)
    if new:
        mixer = replace(mixer, cache_heads=mixer.heads)
    else:
        mixer = replace(mixer, kv_heads=1 if config.flag("multi_query") else mixer.heads)
    one = layer(traits, mixer, feed_forward(config, traits), dropout=hidden_dropout(config, traits))
    return decoder_model(config, task, traits, (replace(one, count=layer_count(config)),))
