"""Encoders of the BERT shape: token, position and type tables, a norm, then layers that normalise after each sum."""

from collections.abc import Sequence

from planner.errors import ModelError
from planner.model.readers.config import Config
from planner.model.readers.layers import layer_count
from planner.model.spec import (
    LAYER_NORM,
    Attention,
    Buffer,
    DenseFeedForward,
    Embedding,
    Head,
    LayerGroup,
    Linear,
    ModelSpec,
    NormPart,
    Part,
    Stack,
    Table,
    Task,
    Tensor,
)

QKVO = ("query", "key", "value", "dense")
UP_DOWN = ("", "dense", "dense")


def encoder_layer(
    config: Config,
    attention_names: tuple[str, str, str, str] = QKVO,
    ffn_names: tuple[str, str, str] = UP_DOWN,
    ffn: str = "intermediate_size",
    activation: str = "hidden_act",
    dropout: str = "attention_probs_dropout_prob",
    hidden_dropout: str = "hidden_dropout_prob",
) -> LayerGroup:
    """All layers of a BERT-shaped encoder; biases everywhere."""
    heads = config.size("num_attention_heads")
    mixer = Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=config.divisible("hidden_size", "num_attention_heads"),
        qkv_bias=True,
        output_bias=True,
        dropout=config.number(dropout, 0.0, maximum=1.0),
        causal=False,
        rotary_share=0.0,
        names=attention_names,
    )
    network = DenseFeedForward(
        config.size(ffn), gated=False, activation=config.text(activation, "gelu"), bias=True, names=ffn_names
    )
    dropped = config.number(hidden_dropout, 0.0, maximum=1.0)
    return LayerGroup(layer_count(config), mixer, network, LAYER_NORM, arrangement="post", dropout=dropped)


def tables(config: Config, width: int, types: bool = True) -> list[Part]:
    """Position and token-type tables and the norm of the embeddings."""
    parts: list[Part] = [Table("position_embeddings", config.size("max_position_embeddings"), width)]
    if types:
        parts.append(Table("token_type_embeddings", config.size("type_vocab_size"), width))
    return [*parts, NormPart("LayerNorm", width)]


def encoder_stack(
    config: Config,
    group: LayerGroup,
    before: Sequence[Part],
    after: Sequence[Part] = (),
    width: int | None = None,
    *,
    positions_of_tokens: bool = False,
    buffers: tuple[Buffer, ...] = (),
) -> Stack:
    """`group` says the dropout of the embeddings too."""
    hidden = config.size("hidden_size")
    table = Embedding(
        config.size("vocab_size"),
        hidden if width is None else width,
        dropout=group.dropout,
        positions_of_tokens=positions_of_tokens,
    )
    return Stack("encoder", hidden, table, (group,), None, tuple(before), tuple(after), buffers=buffers)


def index_buffers(config: Config, *names: str) -> tuple[Buffer, ...]:
    """One row of indices for every position, which the embedding module keeps."""
    rows = config.size("max_position_embeddings")
    return tuple(Buffer(name, rows, 8, "transformers 5.24, BertEmbeddings: buffers") for name in names)


def encoder_model(config: Config, task: Task, stack: Stack, head: Head | None) -> ModelSpec:
    positions = config.optional_size("max_position_embeddings")
    return ModelSpec(config.model_type, config.model_type, task, (stack,), head, positions)


def dense(name: str, inputs: int, outputs: int | None = None, bias: bool = True) -> Linear:
    return Linear(name, inputs, inputs if outputs is None else outputs, bias)


def masked_head(config: Config, transform: Sequence[Part], width: int, name: str = "decoder") -> Head:
    """Token logits behind a transform, tied to the token table unless the file says otherwise.

    Untied, the BERT classes keep the prediction's bias beside that of the decoder.
    """
    tied = config.flag("tie_word_embeddings", True)
    vocab = config.size("vocab_size")
    before = tuple(transform)
    if not tied and name == "decoder" and config.model_type != "electra":
        before += (Tensor("bias", (vocab,)),)
    return Head(vocab, tied, bias=True, inputs=width, before=before, name=name)


def label_head(
    config: Config,
    task: Task,
    before: Sequence[Part] = (),
    name: str = "classifier",
    *,
    activation: str = "tanh",
    dropout: str = "hidden_dropout_prob",
) -> Head:
    """A classifier over labels, tokens or answer spans, always with a bias.

    `dropout`: the key of what a classifier drops where `classifier_dropout` does not say it.
    """
    labels = config.labels()
    if task == "question-answering":
        return Head(labels, bias=True, kind="classification", name="qa_outputs")
    usual = config.number(dropout, 0.0, maximum=1.0)
    dropped = usual if config.raw("classifier_dropout") is None else config.number("classifier_dropout", usual)
    if task == "token-classification":
        return Head(labels, bias=True, kind="classification", name="classifier", dropout=dropped)
    return Head(
        labels,
        bias=True,
        kind="classification",
        before=tuple(before),
        name=name,
        activation=activation,
        dropout=dropped,
    )


def no_head(config: Config, task: Task) -> ModelError:
    return ModelError(f"{config.where}: a model of type “{config.model_type}” has no head for the task “{task}”.")
