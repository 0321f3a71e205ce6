"""BART, mBART, Pegasus, Marian, Blenderbot and M2M-100: encoder-decoders that differ in norms and position tables."""

from dataclasses import dataclass, replace

from planner.model.readers.config import Config
from planner.model.readers.layers import MOST_LAYERS
from planner.model.readers.t5 import small_head
from planner.model.readers.tasks import task_of
from planner.model.spec import (
    LAYER_NORM,
    Attention,
    Buffer,
    DenseFeedForward,
    Embedding,
    Head,
    LayerGroup,
    ModelSpec,
    NormPart,
    Part,
    Stack,
    Table,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How one architecture departs from BART."""

    first_norm: bool = False
    """Norms stand before each half, with one more at the end."""
    embedding_norm: bool = True
    position_offset: int | None = 2
    """Rows beyond `max_position_embeddings`; None: positions are computed and have no table."""


SHAPES = {
    "bart": Shape(),
    "mbart": Shape(first_norm=True),
    "pegasus": Shape(first_norm=True, embedding_norm=False, position_offset=0),
    "marian": Shape(embedding_norm=False, position_offset=0),
    "blenderbot": Shape(first_norm=True, embedding_norm=False, position_offset=0),
    "m2m_100": Shape(first_norm=True, embedding_norm=False, position_offset=None),
}
MODEL_TYPES = tuple(SHAPES)
_BART_LABELS = 3
_BIAS = "transformers 5.24, BartForConditionalGeneration: final_logits_bias"
NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")


def read(config: Config, task: str | None) -> ModelSpec:
    """An encoder-decoder; the decoder is the main stack and holds the shared token table."""
    kind = task_of(config, task, "seq2seq-lm")
    shape = SHAPES[config.model_type]
    vocab, hidden = config.size("vocab_size"), config.size("hidden_size")
    # Untied, each half has a token table of its own beside the shared one.
    tied = config.flag("tie_word_embeddings", True)
    shared = config.flag("share_encoder_decoder_embeddings", True)
    decoder = half(config, "decoder", shape, Embedding(vocab, hidden), own_table=not (tied and shared))
    if kind == "seq2seq-lm" and config.model_type != "m2m_100":
        decoder = replace(decoder, buffers=(Buffer("final logits bias", vocab, source=_BIAS),))
    stacks = (
        decoder,
        half(config, "encoder", shape, None, own_table=not tied),
    )
    labels = _BART_LABELS if config.model_type == "bart" else 2
    head = Head(vocab, tied=tied) if kind == "seq2seq-lm" else small_head(config, kind, hidden, labels)
    positions = config.optional_size("max_position_embeddings")
    return ModelSpec(config.model_type, config.model_type, kind, stacks, head, positions)


def half(config: Config, name: str, shape: Shape, table: Embedding | None, own_table: bool) -> Stack:
    """The encoder or the decoder."""
    hidden = config.size("hidden_size")
    before: list[Part] = []
    if own_table:
        before.append(Table("embed_tokens", config.size("vocab_size"), hidden))
    if shape.position_offset is not None:
        before.append(Table("embed_positions", config.size("max_position_embeddings") + shape.position_offset, hidden))
    if shape.embedding_norm:
        before.append(NormPart("layernorm_embedding", hidden))
    group = half_layers(config, name, shape.first_norm)
    return Stack(name, hidden, table, (group,), LAYER_NORM if shape.first_norm else None, tuple(before))


def half_layers(config: Config, name: str, first_norm: bool, key_bias: bool = True) -> LayerGroup:
    """The layers of one half, with cross attention in the decoder; biases everywhere but, in Whisper, the keys."""
    heads, decoder = config.size(f"{name}_attention_heads"), name == "decoder"
    hidden = config.size("hidden_size")
    if hidden % heads:
        raise config.error(f"{name}_attention_heads", heads, f"a divisor of the hidden size {hidden}")

    def looks(causal: bool) -> Attention:
        return Attention(
            heads,
            heads,
            hidden // heads,
            qkv_bias=True,
            output_bias=True,
            dropout=config.number("attention_dropout", 0.0, maximum=1.0),
            key_bias=key_bias,
            causal=causal,
            rotary_share=0.0,
            names=NAMES,
        )

    network = DenseFeedForward(
        config.size(f"{name}_ffn_dim"),
        gated=False,
        activation=config.text("activation_function", "gelu"),
        bias=True,
        dropout=config.number("activation_dropout", 0.0, maximum=1.0),
        names=("", "fc1", "fc2"),
    )
    return LayerGroup(
        config.size(f"{name}_layers", maximum=MOST_LAYERS),
        looks(decoder),
        network,
        LAYER_NORM,
        norms=3 if decoder else 2,
        arrangement="pre" if first_norm else "post",
        cross_attention=looks(False) if decoder else None,
        dropout=config.number("dropout", 0.0, maximum=1.0),
    )
