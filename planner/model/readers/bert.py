"""BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, DistilBERT, MPNet and ALBERT with their heads."""

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
    tables,
)
from planner.model.readers.tasks import task_of
from planner.model.spec import Buffer, Head, ModelSpec, NormPart, Part, Table, Task

POSITIONS_OF_TOKENS = ("roberta", "xlm-roberta", "camembert", "mpnet")
MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert", "mpnet", "electra", "distilbert", "albert")


def read(config: Config, task: str | None) -> ModelSpec:
    """A BERT-shaped encoder with the head of its task."""
    kind = task_of(config, task, "masked-lm")
    if config.model_type == "distilbert":
        return _distilbert(config, kind)
    hidden = config.size("hidden_size")
    width = config.size("embedding_size", hidden) if config.model_type in ("electra", "albert") else hidden
    before = tables(config, width, types=config.model_type != "mpnet")
    if width != hidden or config.model_type == "albert":
        before.append(dense("embeddings_project", width, hidden))
    group = encoder_layer(config)
    if config.model_type == "mpnet":
        group = encoder_layer(config, ("q", "k", "v", "o"))
        before.append(Table("relative_attention_bias", config.size("relative_attention_num_buckets"), _heads(config)))
    if config.model_type == "albert":
        group = replace(group, weight_sets=config.size("num_hidden_groups") * config.size("inner_group_num"))
    after: tuple[Part, ...] = (dense("pooler", hidden),) if _pooled(config, kind) else ()
    stack = encoder_stack(
        config,
        group,
        before,
        after,
        width,
        positions_of_tokens=config.model_type in POSITIONS_OF_TOKENS,
        buffers=_buffers(config),
    )
    return encoder_model(config, kind, stack, _head(config, kind, hidden, width))


def _buffers(config: Config) -> tuple[Buffer, ...]:
    if config.model_type == "mpnet":
        return index_buffers(config, "position ids")
    return index_buffers(config, "position ids", "token types")


def _heads(config: Config) -> int:
    return config.size("num_attention_heads")


def _pooled(config: Config, task: Task) -> bool:
    """Whether the class of this task builds the pooler over the first token."""
    if config.model_type == "electra":
        return False
    own_heads = ("bert", "albert")
    return task == "feature-extraction" or (task == "sequence-classification" and config.model_type in own_heads)


def _head(config: Config, task: Task, hidden: int, width: int) -> Head | None:
    if task == "feature-extraction":
        return None
    if task == "masked-lm":
        narrow = width if config.model_type in ("electra", "albert") else hidden
        return masked_head(config, (dense("dense", hidden, narrow), NormPart("LayerNorm", narrow)), narrow)
    if task == "sequence-classification" and config.model_type not in ("bert", "albert"):
        activation = "gelu" if config.model_type == "electra" else "tanh"
        return label_head(config, task, (dense("dense", hidden),), "out_proj", activation=activation)
    if task in ("sequence-classification", "token-classification", "question-answering"):
        return label_head(config, task)
    raise no_head(config, task)


def _distilbert(config: Config, task: Task) -> ModelSpec:
    hidden = config.size("hidden_size")
    group = encoder_layer(
        config,
        ("q_lin", "k_lin", "v_lin", "out_lin"),
        ("", "lin1", "lin2"),
        "hidden_dim",
        "activation",
        "attention_dropout",
        "dropout",
    )
    group = replace(group, mixer_drops=False)
    stack = encoder_stack(
        config, group, tables(config, hidden, types=False), buffers=index_buffers(config, "position ids")
    )
    head: Head | None = None
    if task == "masked-lm":
        transform = (dense("vocab_transform", hidden), NormPart("vocab_layer_norm", hidden))
        head = masked_head(config, transform, hidden, "vocab_projector")
    elif task in ("sequence-classification", "token-classification", "question-answering"):
        head = label_head(
            config,
            task,
            (dense("pre_classifier", hidden),),
            activation="relu",
            dropout="seq_classif_dropout" if task == "sequence-classification" else "dropout",
        )
    elif task != "feature-extraction":
        raise no_head(config, task)
    return encoder_model(config, task, stack, head)
