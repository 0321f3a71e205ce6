"""The dimensions of the current model, as the start of the manual form."""

from typing import Any

from planner.gui.state import State
from planner.model.counts import parameters
from planner.model.spec import (
    Attention,
    DenseFeedForward,
    LatentAttention,
    LayerGroup,
    Mamba2,
    MixtureOfExperts,
    ModelSpec,
)
from planner.scenario.families import CUSTOM, families, has_dimension
from planner.scenario.model_source import Dimensions, DimensionsModel
from planner.units import format_count

_TYPICAL: dict[str, Any] = {
    "layers": 32,
    "hidden_size": 4096,
    "attention_heads": 32,
    "kv_heads": 8,
    "ffn_hidden_size": 14336,
    "vocab_size": 128256,
    "max_positions": 8192,
}


def dimensions_of(state: State) -> Dimensions:
    """What `model.dimensions` would be for the model of `state`, as far as that form can say it."""
    model = state.scenario.model
    if isinstance(model, DimensionsModel):
        return model.dimensions
    spec = state.spec
    if spec is None or not spec.stack.groups or (spec.stack.embedding is None and spec.stack.image is None):
        return Dimensions(**_TYPICAL)
    group = max(spec.stack.groups, key=lambda group: group.count)
    family = next((name for name, known in families().items() if known.model_type == spec.model_type), CUSTOM)
    usual = families()[family].task if family != CUSTOM else "causal-lm"
    values: dict[str, Any] = {
        "family": family,
        "task": None if spec.task == usual else spec.task,
        "layers": spec.stack.layers,
        "hidden_size": spec.stack.hidden_size,
        "vocab_size": None if spec.stack.embedding is None else spec.stack.embedding.vocab,
        **_image(spec),
        "max_positions": spec.max_positions,
        "tied_embeddings": spec.head is not None and spec.head.tied,
        "position_embedding": _positions(spec, group),
        "norm": group.norm.kind,
        "dropout": group.dropout,
        **_heads(group),
        **_feed_forward(spec, group),
        **_windows(spec),
    }
    kept = {key: value for key, value in values.items() if _allowed(key, value) and has_dimension(family, key)}
    return Dimensions(**kept)


def without_others(dimensions: Dimensions) -> Dimensions:
    """Only what means something in the family: another one was chosen after it was typed."""
    stated = {name: getattr(dimensions, name) for name in dimensions.model_fields_set}
    return Dimensions(**{name: value for name, value in stated.items() if has_dimension(dimensions.family, name)})


def what_is_lost(state: State, draft: State) -> str:
    """A sentence where the form, before any edit, gives another model than that of `state`; else an empty text."""
    if state.spec is None or draft.spec is None or isinstance(state.scenario.model, DimensionsModel):
        return ""
    given, became = parameters(state.spec), parameters(draft.spec)
    if given == became:
        return ""
    name = state.spec.name.rpartition("/")[2]
    return (
        f"The form cannot say all of {name}: its {format_count(given)} parameters become {format_count(became)} "
        "with what was taken over."
    )


def _heads(group: LayerGroup) -> dict[str, Any]:
    mixer = group.mixer
    if isinstance(mixer, Attention):
        return {
            "attention_heads": mixer.heads,
            "kv_heads": mixer.kv_heads,
            "head_dim": mixer.head_dim,
            "bias": mixer.qkv_bias and mixer.output_bias,
        }
    if isinstance(mixer, LatentAttention):
        return {
            "attention_heads": mixer.heads,
            "head_dim": mixer.qk_nope_head_dim,
            "value_head_dim": mixer.v_head_dim,
            "rotary_head_dim": mixer.qk_rope_head_dim,
            "kv_rank": mixer.kv_lora_rank,
            "query_rank": mixer.q_lora_rank,
        }
    if isinstance(mixer, Mamba2):
        return {"attention_heads": mixer.heads, "head_dim": mixer.head_dim, "state_size": mixer.state_size}
    return {"attention_heads": 32}


def _windows(spec: ModelSpec) -> dict[str, Any]:
    """The window of the layers that have one, and how often a layer has none."""
    groups = [group for group in spec.stack.groups if isinstance(group.mixer, Attention)]
    sizes = {group.mixer.window for group in groups if isinstance(group.mixer, Attention)} - {None}
    whole = [group for group in groups if isinstance(group.mixer, Attention) and group.mixer.window is None]
    first = whole[0].indices[:1] if sizes and whole else ()
    return {"sliding_window": next(iter(sizes), None), "global_every": first[0] + 1 if first else None}


def _feed_forward(spec: ModelSpec, group: LayerGroup) -> dict[str, Any]:
    """Of the layers that most others are like; the dense layers of a mixture give the plain size."""
    forward = group.feed_forward
    parts = (item.feed_forward for item in spec.stack.groups)
    dense = next((part for part in parts if isinstance(part, DenseFeedForward)), None)
    values: dict[str, Any] = {}
    if dense is not None:
        values["ffn_hidden_size"] = dense.size
    if isinstance(forward, DenseFeedForward | MixtureOfExperts):
        values |= {"gated_mlp": forward.gated, "activation": forward.activation}
    if isinstance(forward, MixtureOfExperts):
        values |= {
            "experts": forward.experts,
            "experts_per_token": forward.experts_per_token,
            "expert_ffn_hidden_size": forward.size,
            "dense_layers": sum(item.count for item in spec.stack.groups if item.feed_forward == dense),
            "shared_experts": 0 if forward.shared is None else forward.shared.size // forward.size,
        }
    return values


def _image(spec: ModelSpec) -> dict[str, Any]:
    image = spec.stack.image
    if image is None:
        return {}
    labels = spec.head.outputs if spec.head is not None and spec.head.kind == "classification" else None
    return {"image_size": image.image_size, "patch_size": image.patch_size, "labels": labels}


def _positions(spec: ModelSpec, group: LayerGroup) -> str:
    if any(getattr(part, "name", "") == "embed_positions" for part in spec.stack.before):
        return "learned"
    rotary = not isinstance(group.mixer, Attention) or group.mixer.rotary_share > 0
    return "rope" if rotary else "none"


def _allowed(key: str, value: object) -> bool:
    """Whether the form has this choice; where it has not, its default stays."""
    choices = next(item.choices for item in Dimensions.declarations() if item.name == key)
    return not choices or value in [choice for choice, _ in choices]
