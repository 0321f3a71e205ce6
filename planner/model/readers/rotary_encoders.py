"""Encoders with rotary positions and gated feed-forwards: Nomic BERT and EuroBERT."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, feed_forward
from planner.model.readers.encoder import (
    dense,
    encoder_model,
    encoder_stack,
    label_head,
    masked_head,
    no_head,
)
from planner.model.readers.layers import layer_count
from planner.model.readers.tasks import task_of
from planner.model.spec import LAYER_NORM, RMS_NORM, Head, LayerGroup, ModelSpec, NormPart, Part, Table, Task

MODEL_TYPES = ("nomic_bert", "eurobert")


def read(config: Config, task: str | None) -> ModelSpec:
    """An encoder with the head of its task."""
    kind = task_of(config, task, "masked-lm")
    return _nomic(config, kind) if config.model_type == "nomic_bert" else _euro(config, kind)


def _nomic(config: Config, task: Task) -> ModelSpec:
    hidden, traits = config.size("hidden_size"), Traits(dropout="attention_probs_dropout_prob")
    mixer = replace(attention(config, traits), causal=False)
    group = LayerGroup(layer_count(config), mixer, feed_forward(config, traits), LAYER_NORM, arrangement="post")
    types = Table("token_type_embeddings", config.size("type_vocab_size"), hidden)
    after: tuple[Part, ...] = (dense("pooler", hidden),) if task == "sequence-classification" else ()
    stack = encoder_stack(config, group, (types, NormPart("LayerNorm", hidden)), after)
    head: Head | None = None
    if task == "masked-lm":
        head = masked_head(config, (dense("dense", hidden), NormPart("layer_norm", hidden)), hidden)
    elif task != "feature-extraction":
        head = _labels(config, task)
    return encoder_model(config, task, stack, head)


def _euro(config: Config, task: Task) -> ModelSpec:
    hidden = config.size("hidden_size")
    traits = Traits(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias")
    mixer = replace(attention(config, traits), causal=False)
    group = LayerGroup(layer_count(config), mixer, feed_forward(config, traits))
    stack = replace(encoder_stack(config, group, ()), final_norm=RMS_NORM)
    head: Head | None = None
    if task == "masked-lm":
        head = Head(config.size("vocab_size"), config.flag("tie_word_embeddings"), config.flag("mlp_bias"))
    elif task == "sequence-classification":
        head = replace(_labels(config, task), before=(dense("dense", hidden),))
    elif task != "feature-extraction":
        head = _labels(config, task)
    return encoder_model(config, task, stack, head)


def _labels(config: Config, task: Task) -> Head:
    if task not in ("sequence-classification", "token-classification", "question-answering"):
        raise no_head(config, task)
    return label_head(config, task)
