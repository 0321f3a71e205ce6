"""T5, mT5 and UMT5: encoder and decoder with relative position tables, and the encoder alone."""

from planner.errors import ModelError
from planner.model.readers.config import Config
from planner.model.readers.layers import MOST_LAYERS
from planner.model.readers.tasks import architecture_of, task_of
from planner.model.spec import (
    RMS_NORM,
    Attention,
    DenseFeedForward,
    Embedding,
    Head,
    LayerGroup,
    Linear,
    ModelSpec,
    Part,
    Stack,
    Table,
    Task,
)

MODEL_TYPES = ("t5", "mt5", "umt5")


def read(config: Config, task: str | None) -> ModelSpec:
    """A T5 model. The decoder is the main stack and holds the shared token table; the head is always tied to it."""
    kind = task_of(config, task, "seq2seq-lm")
    vocab, hidden = config.size("vocab_size"), config.size("hidden_size")
    table = Embedding(vocab, hidden)
    alone = kind == "feature-extraction" and architecture_of(config).endswith("EncoderModel")
    if alone or kind == "token-classification":
        stacks: tuple[Stack, ...] = (_stack(config, "encoder", table),)
    else:
        stacks = (_stack(config, "decoder", table), _stack(config, "encoder", None))
    head = Head(vocab, tied=True) if kind == "seq2seq-lm" else small_head(config, kind, hidden)
    return ModelSpec(config.model_type, config.model_type, kind, stacks, head)


def small_head(config: Config, task: Task, hidden: int, labels: int = 2) -> Head | None:
    """The classifiers that encoder-decoders of transformers have."""
    if task == "feature-extraction":
        return None
    if task in ("question-answering", "token-classification"):
        return Head(config.labels(), bias=True, kind="classification", name="qa_outputs")
    if task == "sequence-classification":
        before = (Linear("dense", hidden, hidden, bias=True),)
        return Head(config.labels(labels), bias=True, kind="classification", before=before, name="out_proj")
    raise ModelError(f"{config.where}: a model of type “{config.model_type}” has no head for the task “{task}”.")


def _stack(config: Config, name: str, table: Embedding | None) -> Stack:
    decoder = name == "decoder"
    layers = config.size("num_hidden_layers", maximum=MOST_LAYERS)
    if decoder:
        layers = config.size("num_decoder_layers", layers, maximum=MOST_LAYERS)
    heads = config.size("num_attention_heads")
    buckets = Table("relative_attention_bias", config.size("relative_attention_num_buckets"), heads)
    # T5 shares one table among the layers of a stack, UMT5 has one in each.
    each = config.model_type == "umt5"
    group = LayerGroup(
        layers,
        _attention(config, heads, decoder),
        _feed_forward(config),
        RMS_NORM,
        norms=3 if decoder else 2,
        cross_attention=_attention(config, heads, False) if decoder else None,
        extra=(buckets,) if each else (),
    )
    before: tuple[Part, ...] = () if each else (buckets,)
    return Stack(name, config.size("hidden_size"), table, (group,), RMS_NORM, before)


def _attention(config: Config, heads: int, causal: bool) -> Attention:
    return Attention(
        heads,
        heads,
        config.size("head_dim"),
        dropout=config.number("dropout_rate", 0.0, maximum=1.0),
        causal=causal,
        rotary_share=0.0,
        names=("q", "k", "v", "o"),
    )


def _feed_forward(config: Config) -> DenseFeedForward:
    projection = config.text("feed_forward_proj", "relu")
    gated = projection.startswith("gated-")
    return DenseFeedForward(
        config.size("d_ff"),
        gated,
        # `gated-gelu` is the tanh form, written in Python (`T5Config.__post_init__`).
        "gelu_new" if projection == "gated-gelu" else projection.removeprefix("gated-"),
        # `wo` is kept in fp32 (`_keep_in_fp32_modules`), so 4-bit loaders leave it alone.
        down_linear="subclass",
        names=("wi_0", "wi_1" if gated else "wi", "wo"),
    )
