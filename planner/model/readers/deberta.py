"""DeBERTa v2 and v3: attention to relative positions, which have a table of their own."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.encoder import (
    dense,
    encoder_layer,
    encoder_model,
    encoder_stack,
    index_buffers,
    label_head,
    masked_head,
    no_head,
)
from planner.model.readers.tasks import task_of
from planner.model.spec import Convolution, Head, LayerGroup, Linear, ModelSpec, NormPart, Part, Table, Task

MODEL_TYPES = ("deberta-v2",)


def read(config: Config, task: str | None) -> ModelSpec:
    """A DeBERTa v2 or v3 encoder with the head of its task."""
    kind = task_of(config, task, "masked-lm")
    hidden = config.size("hidden_size")
    width = config.size("embedding_size", hidden)
    after = list(_encoder_parts(config, hidden))
    if kind == "sequence-classification":
        after.append(dense("pooler", config.size("pooler_hidden_size", hidden)))
    stack = encoder_stack(
        config,
        _layers(config, hidden),
        _embedding_parts(config, width, hidden),
        after,
        width,
        buffers=index_buffers(config, "position ids"),
    )
    return encoder_model(config, kind, stack, _head(config, kind, hidden, width))


def _layers(config: Config, hidden: int) -> LayerGroup:
    extra: list[Part] = []
    if config.flag("relative_attention") and not config.flag("share_att_key"):
        looks = position_attention(config)
        if "c2p" in looks:
            extra.append(dense("pos_key_proj", hidden))
        if "p2c" in looks:
            extra.append(dense("pos_query_proj", hidden))
    group = encoder_layer(config, ("query_proj", "key_proj", "value_proj", "dense"))
    return replace(group, extra=tuple(extra))


def position_attention(config: Config) -> tuple[str, ...]:
    """A list, or in early files one text such as `p2c|c2p`."""
    stated = config.raw("pos_att_type")
    if isinstance(stated, str):
        return tuple(part.strip() for part in stated.lower().split("|"))
    return config.texts("pos_att_type") or ()


def _embedding_parts(config: Config, width: int, hidden: int) -> list[Part]:
    parts: list[Part] = []
    if config.flag("position_biased_input"):
        parts.append(Table("position_embeddings", config.size("max_position_embeddings"), width))
    if config.count("type_vocab_size"):
        parts.append(Table("token_type_embeddings", config.size("type_vocab_size"), width))
    if width != hidden:
        parts.append(Linear("embed_proj", width, hidden))
    return [*parts, NormPart("LayerNorm", hidden)]


def _encoder_parts(config: Config, hidden: int) -> list[Part]:
    parts: list[Part] = []
    if config.flag("relative_attention"):
        buckets = config.raw("position_buckets", -1)
        longest = config.raw("max_relative_positions", -1)
        if isinstance(buckets, int) and buckets > 0:
            rows = buckets
        elif isinstance(longest, int) and longest > 0:
            rows = longest
        else:
            rows = config.size("max_position_embeddings")
        parts.append(Table("rel_embeddings", 2 * rows, hidden))
    if "layer_norm" in str(config.raw("norm_rel_ebd", "none")):
        parts.append(NormPart("LayerNorm", hidden))
    if config.count("conv_kernel_size"):
        kernel, groups = config.size("conv_kernel_size"), config.size("conv_groups", 1)
        parts += [Convolution("conv", hidden, hidden, (kernel,), groups=groups), NormPart("LayerNorm", hidden)]
    return parts


def _head(config: Config, task: Task, hidden: int, width: int) -> Head | None:
    if task == "feature-extraction":
        return None
    if task == "masked-lm":
        narrow = width if config.flag("legacy") else hidden
        return masked_head(config, (dense("dense", hidden, narrow), NormPart("LayerNorm", narrow)), narrow)
    if task in ("sequence-classification", "token-classification", "question-answering"):
        return label_head(config, task)
    raise no_head(config, task)
