"""GPT-2 and its descendants: GPT-BigCode (StarCoder 1), GPT-J, CodeGen, GPT-Neo and GPT-NeoX (Pythia)."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward, hidden_dropout, layer
from planner.model.readers.layers import layer_count, merged
from planner.model.spec import LAYER_NORM, Buffer, LayerGroup, ModelSpec, Part, Table

MODEL_TYPES = ("gpt2", "gpt_bigcode", "gptj", "codegen", "gpt_neo", "gpt_neox")

_GPT2 = Traits(
    norm=LAYER_NORM,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    fused_qkv=True,
    ffn="n_inner",
    ffn_ratio=4,
    activation="activation_function",
    linear="conv1d",
    attention_names=("c_attn", "", "", "c_proj"),
    mlp_names=("", "c_fc", "c_proj"),
    rotary=False,
    dropout="attn_pdrop",
    hidden_dropout="resid_pdrop",
    embedding_dropout="embd_pdrop",
)
TRAITS = {
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, linear="linear"),
    "gptj": replace(
        _GPT2,
        norms=1,
        arrangement="parallel",
        qkv_bias=False,
        output_bias=False,
        fused_qkv=False,
        linear="linear",
        attention_names=("q_proj", "k_proj", "v_proj", "out_proj"),
        mlp_names=("", "fc_in", "fc_out"),
        head_bias=True,
        rotary=True,
        rotary_pairs="neighbours",
        scores_in_fp32=True,
    ),
    "gpt_neo": replace(
        _GPT2,
        qkv_bias=False,
        fused_qkv=False,
        linear="linear",
        ffn="intermediate_size",
        scores_in_fp32=True,
        attention_names=("q_proj", "k_proj", "v_proj", "out_proj"),
        dropout="attention_dropout",
        hidden_dropout="resid_dropout",
        embedding_dropout="embed_dropout",
    ),
    "gpt_neox": replace(
        _GPT2,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        linear="linear",
        ffn="intermediate_size",
        ffn_ratio=None,
        activation="hidden_act",
        attention_names=("query_key_value", "", "", "dense"),
        mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
        rotary=True,
        dropout="attention_dropout",
        hidden_dropout="hidden_dropout",
        embedding_dropout="hidden_dropout",
    ),
}
TRAITS["codegen"] = replace(TRAITS["gptj"], fused_qkv=True, attention_names=("qkv_proj", "", "", "out_proj"))


def read(config: Config, task: str | None) -> ModelSpec:
    """A decoder of the GPT-2 line."""
    traits = TRAITS[config.model_type]
    if config.model_type == "gpt_neox" and config.flag("use_parallel_residual"):
        traits = replace(traits, arrangement="parallel")
    hidden = config.size("hidden_size")
    before: tuple[Part, ...] = ()
    if config.model_type in ("gpt2", "gpt_bigcode", "gpt_neo"):
        before = (Table("wpe", config.size("max_position_embeddings"), hidden),)
    spec = decoder_model(config, task, traits, _layers(config, traits), before)
    if config.model_type not in ("gpt2", "gpt_bigcode"):
        return spec
    return replace(spec, stacks=(replace(spec.stack, buffers=_causal_buffers(config)),))


def _causal_buffers(config: Config) -> tuple[Buffer, ...]:
    """A causal mask of all positions: one in GPT-BigCode, in GPT-2 until version 5 one in every attention layer."""
    layers, positions = layer_count(config), config.size("max_position_embeddings")
    if config.model_type == "gpt_bigcode":
        return (Buffer("causal mask", positions * positions, 1, "transformers 5.24, GPTBigCodeModel: buffer `bias`"),)
    source = "transformers 4.57.6, GPT2Attention: buffers `bias` and `masked_bias`"
    return (
        Buffer("causal masks", layers * positions * positions, 1, source, (5,)),
        Buffer("values of masked scores", layers, None, source, (5,)),
    )


def _layers(config: Config, traits: Traits) -> tuple[LayerGroup, ...]:
    mixer = attention(config, traits)
    if config.model_type == "gpt_bigcode" and config.flag("multi_query"):
        mixer = replace(mixer, kv_heads=1)
    if config.model_type in ("gptj", "codegen"):
        turned = config.optional_size("rotary_dim")
        mixer = replace(mixer, rotary_share=1.0 if turned is None else turned / mixer.head_dim)
    if config.model_type == "gpt_neox":
        mixer = replace(mixer, rotary_share=config.number("rotary_pct", 0.25, maximum=1.0))
    network = feed_forward(config, traits)
    count = layer_count(config)
    window = config.size("window_size") if config.model_type == "gpt_neo" else None
    # GPT-Neo alternates global and local attention (`attention_types`, by default [[["global", "local"], n / 2]]).
    dropout = hidden_dropout(config, traits)
    kinds = [layer(traits, replace(mixer, window=seen), network, dropout=dropout) for seen in (None, window)]
    return merged(kinds[index % 2] for index in range(count))
