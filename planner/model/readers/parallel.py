"""Phi 1 to 2, StableLM and Persimmon: layer norms, rotary embedding of a part of each head, often one norm a layer."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, decoder_model
from planner.model.spec import LAYER_NORM, ModelSpec, Norm

MODEL_TYPES = ("phi", "stablelm", "persimmon")

TRAITS = {
    "phi": Traits(
        rotary_share=0.5,
        norm=LAYER_NORM,
        norms=1,
        arrangement="parallel",
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        gated=False,
        qk_norm="qk_layernorm",
        qk_norm_kind=LAYER_NORM,
        head_bias=True,
        attention_names=("q_proj", "k_proj", "v_proj", "dense"),
        mlp_names=("", "fc1", "fc2"),
        hidden_dropout="resid_pdrop",
        embedding_dropout="embd_pdrop",
    ),
    "stablelm": Traits(
        rotary_share=0.25,
        norm=LAYER_NORM,
        qkv_bias="use_qkv_bias",
        qk_norm="qk_layernorm",
        qk_norm_kind=Norm("layernorm"),
        qk_norm_scope="each",
        hidden_dropout="hidden_dropout",
    ),
    "persimmon": Traits(
        rotary_share=0.5,
        norm=LAYER_NORM,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        gated=False,
        fused_qkv=True,
        qk_norm="qk_layernorm",
        qk_norm_kind=LAYER_NORM,
        attention_names=("query_key_value", "", "", "dense"),
        mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
    ),
}


def read(config: Config, task: str | None) -> ModelSpec:
    """A Phi, StableLM or Persimmon decoder."""
    traits = TRAITS[config.model_type]
    if config.model_type == "stablelm" and config.flag("use_parallel_residual"):
        traits = replace(traits, norms=1, arrangement="parallel")
    return decoder_model(config, task, traits)
