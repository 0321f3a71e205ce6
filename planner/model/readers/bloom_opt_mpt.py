"""BLOOM, OPT and MPT: decoders of the GPT-2 shape with other position encodings."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, decoder_model
from planner.model.readers.tasks import decoder_head, task_of
from planner.model.spec import LAYER_NORM, Linear, ModelSpec, Norm, NormPart, Part, Table

MODEL_TYPES = ("bloom", "opt", "mpt")

_BLOOM = Traits(
    norm=LAYER_NORM,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    fused_qkv=True,
    ffn="n_inner",
    ffn_ratio=4,
    activation="activation",
    attention_names=("query_key_value", "", "", "dense"),
    mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
    rotary=False,
    hidden_dropout="hidden_dropout",
)
_MPT = replace(
    _BLOOM,
    norm=Norm("layernorm"),
    qkv_bias=False,
    output_bias=False,
    mlp_bias=False,
    attention_names=("Wqkv", "", "", "out_proj"),
    hidden_dropout="resid_pdrop",
    mlp_names=("", "up_proj", "down_proj"),
)
_OPT = replace(
    _BLOOM,
    qkv_bias="enable_bias",
    output_bias="enable_bias",
    mlp_bias="enable_bias",
    fused_qkv=False,
    ffn="ffn_dim",
    ffn_ratio=None,
    activation="activation_function",
    attention_names=("q_proj", "k_proj", "v_proj", "out_proj"),
    mlp_names=("", "fc1", "fc2"),
    hidden_dropout="dropout",
)
_OPT_POSITION_OFFSET = 2


def read(config: Config, task: str | None) -> ModelSpec:
    """A BLOOM, MPT or OPT decoder."""
    if config.states("n_embed"):
        config = config.with_values(hidden_size=config.size("n_embed"))
    hidden = config.size("hidden_size")
    if config.model_type == "opt":
        return _opt(config, task)
    if config.model_type == "bloom":
        before: tuple[Part, ...] = (NormPart("word_embeddings_layernorm", hidden),)
        # BLOOM's activation is GELU in the code; its positions are ALiBi, so any length can be read.
        return decoder_model(config, task, replace(_BLOOM, activation="activation"), before=before)
    spec = decoder_model(config, task, _MPT)
    return replace(spec, max_positions=config.optional_size("max_seq_len"))


def _opt(config: Config, asked: str | None) -> ModelSpec:
    hidden = config.size("hidden_size")
    inner = config.size("word_embed_proj_dim", hidden)
    norm = LAYER_NORM if config.flag("layer_norm_elementwise_affine") else Norm("layernorm", weight=False)
    first = config.flag("do_layer_norm_before")
    traits = replace(
        _OPT,
        norm=norm,
        arrangement="pre" if first else "post",
        final_norm=first and not config.flag("_remove_final_layer_norm"),
    )
    positions = config.size("max_position_embeddings") + _OPT_POSITION_OFFSET
    before: list[Part] = [Table("embed_positions", positions, hidden)]
    after: list[Part] = []
    if inner != hidden:
        before.append(Linear("project_in", inner, hidden))
        after.append(Linear("project_out", hidden, inner))
    spec = decoder_model(config, asked, traits, before=tuple(before), after=tuple(after), embedding_size=inner)
    head = decoder_head(
        config, task_of(config, asked, "causal-lm"), config.size("vocab_size"), tied=config.flag("tie_word_embeddings")
    )
    return replace(spec, head=None if head is None else replace(head, inputs=inner))
