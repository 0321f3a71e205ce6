"""Layers for multi-token prediction as a model of their own: as a file holds them, and as engines load them."""

from dataclasses import replace

from planner.model.spec import RMS_NORM, Attention, LatentAttention, Linear, ModelSpec, NormPart, Part, Repeated, Stack

HEAD_COPY = "shared_head.head"
"""The copy of the model's head that a module of DeepSeek's or GLM's kind holds."""


def prediction_file(spec: ModelSpec) -> ModelSpec | None:
    """What a published file holds beside the model, copies of token table and head included; None where it has none."""
    return None if spec.prediction is None else _alone(spec, spec.prediction)


def drafting_modules(spec: ModelSpec) -> ModelSpec:
    """What drafts tokens: the prediction layers without copies of token table and head, which are the model's own.

    Where the file's layout is not known, one layer of the model's last kind with attention, a projection of two widths
    to one and three norms.
    """
    stack = spec.prediction
    if stack is None:
        return _alone(spec, _one_like_the_last(spec))
    return _alone(spec, replace(stack, embedding=None, before=tuple(_without_head(part) for part in stack.before)))


def copied_heads(spec: ModelSpec) -> int:
    """How many copies of the model's head the prediction layers of the file hold."""
    parts = () if spec.prediction is None else spec.prediction.before
    return sum(part.count for part in parts if isinstance(part, Repeated) and _without_head(part) != part)


def joined(hidden: int) -> tuple[Part, ...]:
    """What joins the last hidden state with the next token's embedding: a norm of each, and a projection of both.

    Checkpoints in 8 and 4 bits leave the projection in 16 bits, and engines load it so (vLLM, deepseek_mtp.py: a plain
    `nn.Linear`; qwen3_next_mtp.py: "stored as BF16 in NVFP4 checkpoints").
    """
    return (
        Linear("eh_proj", 2 * hidden, hidden, kind="subclass"),
        NormPart("enorm", hidden, RMS_NORM),
        NormPart("hnorm", hidden, RMS_NORM),
    )


def _alone(spec: ModelSpec, stack: Stack) -> ModelSpec:
    return replace(spec, stacks=(stack,), head=None, max_positions=None, prediction=None)


def _without_head(part: Part) -> Part:
    if not isinstance(part, Repeated):
        return part
    return replace(part, parts=tuple(inner for inner in part.parts if getattr(inner, "name", None) != HEAD_COPY))


def _one_like_the_last(spec: ModelSpec) -> Stack:
    stack = spec.stack
    groups = [group for group in stack.groups if isinstance(group.mixer, Attention | LatentAttention)]
    layer = tuple(replace(group, count=1, indices=()) for group in groups[-1:])
    return Stack("prediction", stack.hidden_size, None, layer, stack.final_norm, joined(stack.hidden_size))
