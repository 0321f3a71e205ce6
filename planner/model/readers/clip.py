"""CLIP and SigLIP: a vision tower, a text tower, or both side by side."""

from planner.model.readers.config import Config
from planner.model.readers.tasks import architecture_of, task_of
from planner.model.readers.vit import patches, tower_layer
from planner.model.spec import (
    LAYER_NORM,
    Buffer,
    Embedding,
    Linear,
    ModelSpec,
    NormPart,
    Part,
    Stack,
    Table,
    Tensor,
)

MODEL_TYPES = (
    "clip",
    "clip_text_model",
    "clip_vision_model",
    "siglip",
    "siglip_text_model",
    "siglip_vision_model",
)
_IDS = "transformers 5.24, CLIPTextEmbeddings and CLIPVisionEmbeddings: position_ids"
NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")


def vision_tower(config: Config) -> Stack:
    """The vision half; CLIP has a class token and a norm before the layers, SigLIP may pool by attention."""
    hidden, grid = config.size("hidden_size"), patches(config)
    clip = config.model_type.startswith("clip")
    projection = grid.projection(hidden, bias=not clip)
    positions = Table("position_embedding", grid.count + int(clip), hidden)
    before: tuple[Part, ...] = (projection, positions)
    after: tuple[Part, ...] = ()
    if clip:
        before = (Tensor("class_embedding", (hidden,)), *before, NormPart("pre_layrnorm", hidden))
    elif config.flag("vision_use_head", True):
        after = pooling_head(config, hidden)
    group = tower_layer(config, NAMES, dropout="attention_dropout")
    buffers = (Buffer("position ids", positions.rows, 8, _IDS),)
    return Stack("vision", hidden, None, (group,), LAYER_NORM, before, after, grid.image(), buffers)


def pooling_head(config: Config, hidden: int) -> tuple[Part, ...]:
    """`torch.nn.MultiheadAttention` with one learned query; its projections are no plain linear layers."""
    size = config.size("intermediate_size")
    return (
        Tensor("probe", (1, 1, hidden)),
        Tensor("in_proj_weight", (3 * hidden, hidden)),
        Tensor("in_proj_bias", (3 * hidden,)),
        Linear("out_proj", hidden, hidden, bias=True, kind="subclass"),
        NormPart("layernorm", hidden),
        Linear("fc1", hidden, size, bias=True),
        Linear("fc2", size, hidden, bias=True),
    )


def text_tower(config: Config) -> Stack:
    """The text half; SigLIP's ends in a linear layer."""
    hidden = config.size("hidden_size")
    table = Embedding(config.size("vocab_size"), hidden)
    before = (Table("position_embedding", config.size("max_position_embeddings"), hidden),)
    after: tuple[Part, ...] = ()
    if config.model_type.startswith("siglip"):
        after = (Linear("head", hidden, config.size("projection_size", hidden), bias=True),)
    group = tower_layer(config, NAMES, dropout="attention_dropout")
    buffers = (Buffer("position ids", before[0].rows, 8, _IDS),)
    return Stack("text", hidden, table, (group,), LAYER_NORM, before, after, buffers=buffers)


def read(config: Config, task: str | None) -> ModelSpec:
    """One tower or both. Of two, the main stack is CLIP's vision tower, but SigLIP's text tower, whose table is the one
    that transformers calls the model's input embedding."""
    kind = task_of(config, task, "feature-extraction")
    name = config.model_type
    projected = architecture_of(config).endswith("WithProjection")
    if name in ("clip", "siglip"):
        return ModelSpec(name, name, kind, _both(config), None)
    stack = text_tower(config) if "text" in name else vision_tower(config)
    stacks = (_with_after(stack, _projection(config, stack, kept=True)),) if projected else (stack,)
    return ModelSpec(name, name, kind, stacks, None, config.optional_size("max_position_embeddings"))


def _both(config: Config) -> tuple[Stack, ...]:
    vision, text = vision_tower(_half(config, "vision_config")), text_tower(_half(config, "text_config"))
    if config.model_type == "siglip":
        return text, _with_after(vision, (Tensor("logit_scale", (1,)), Tensor("logit_bias", (1,))))
    # The text projection is the last module and has no bias: 4-bit loaders keep it, unlike the visual one.
    visual = (*_projection(config, vision, kept=False), Tensor("logit_scale", ()))
    return _with_after(vision, visual), _with_after(text, _projection(config, text, kept=True))


def _half(config: Config, key: str) -> Config:
    """A half's configuration; files that were made early state it as `text_config_dict` or `vision_config_dict`."""
    early = config.raw(f"{key}_dict")
    return config.with_values(**{key: early}).part(key) if isinstance(early, dict) and early else config.part(key)


def _projection(config: Config, stack: Stack, kept: bool) -> tuple[Part, ...]:
    size = config.size("projection_dim", stack.hidden_size)
    return (Linear("projection", stack.hidden_size, size, kind="subclass" if kept else "linear"),)


def _with_after(stack: Stack, parts: tuple[Part, ...]) -> Stack:
    return Stack(
        stack.name,
        stack.hidden_size,
        stack.embedding,
        stack.groups,
        stack.final_norm,
        stack.before,
        (*stack.after, *parts),
        stack.image,
        stack.buffers,
    )
