"""DeBERTa v1: queries, keys and values in one matrix, with biases of their own for queries and values."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.deberta import position_attention
from planner.model.readers.encoder import (
    dense,
    encoder_layer,
    encoder_model,
    encoder_stack,
    label_head,
    masked_head,
    no_head,
)
from planner.model.readers.tasks import task_of
from planner.model.spec import Attention, Head, LayerGroup, ModelSpec, NormPart, Part, Table, Task, Tensor

MODEL_TYPES = ("deberta",)


def read(config: Config, task: str | None) -> ModelSpec:
    """A DeBERTa v1 encoder with the head of its task."""
    kind = task_of(config, task, "masked-lm")
    hidden = config.size("hidden_size")
    before: list[Part] = []
    if config.flag("position_biased_input", True):
        before.append(Table("position_embeddings", config.size("max_position_embeddings"), hidden))
    if config.count("type_vocab_size"):
        before.append(Table("token_type_embeddings", config.size("type_vocab_size"), hidden))
    before.append(NormPart("LayerNorm", hidden))
    after: list[Part] = []
    if config.flag("relative_attention"):
        longest = config.raw("max_relative_positions", -1)
        rows = longest if isinstance(longest, int) and longest > 0 else config.size("max_position_embeddings")
        after.append(Table("rel_embeddings", 2 * rows, hidden))
    if kind == "sequence-classification":
        after.append(dense("pooler", config.size("pooler_hidden_size", hidden)))
    stack = encoder_stack(config, _layers(config, hidden), before, after)
    return encoder_model(config, kind, stack, _head(config, kind, hidden))


def _layers(config: Config, hidden: int) -> LayerGroup:
    extra: list[Part] = [Tensor("q_bias", (hidden,)), Tensor("v_bias", (hidden,))]
    if config.flag("relative_attention"):
        looks = position_attention(config)
        if "c2p" in looks:
            extra.append(dense("pos_proj", hidden, bias=False))
        if "p2c" in looks:
            extra.append(dense("pos_q_proj", hidden))
    group = encoder_layer(config)
    assert isinstance(group.mixer, Attention)
    mixer = replace(group.mixer, qkv_bias=False, fused=True, names=("in_proj", "", "", "dense"))
    return replace(group, mixer=mixer, extra=tuple(extra))


def _head(config: Config, task: Task, hidden: int) -> Head | None:
    if task == "feature-extraction":
        return None
    if task == "masked-lm":
        return masked_head(config, (dense("dense", hidden), NormPart("LayerNorm", hidden)), hidden)
    if task in ("sequence-classification", "token-classification", "question-answering"):
        return label_head(config, task)
    raise no_head(config, task)
