"""DINOv3 and SigLIP 2 towers: rotary positions and register tokens, or patches of any shape."""

from dataclasses import replace

from planner.model.readers.clip import NAMES, pooling_head
from planner.model.readers.config import Config
from planner.model.readers.tasks import task_of
from planner.model.readers.vit import patches, tower_layer
from planner.model.spec import (
    LAYER_NORM,
    Attention,
    DenseFeedForward,
    ImageInput,
    Linear,
    ModelSpec,
    Part,
    Stack,
    Table,
    Tensor,
)

MODEL_TYPES = ("dinov3_vit", "siglip2_vision_model")


def read(config: Config, task: str | None) -> ModelSpec:
    """A vision tower that extracts features."""
    kind = task_of(config, task, "feature-extraction")
    stack = _dinov3(config) if config.model_type == "dinov3_vit" else _siglip2(config)
    return ModelSpec(config.model_type, config.model_type, kind, (stack,), None)


def _dinov3(config: Config) -> Stack:
    hidden, grid = config.size("hidden_size"), patches(config)
    before: tuple[Part, ...] = (
        Tensor("cls_token", (1, 1, hidden)),
        Tensor("mask_token", (1, 1, hidden)),
        Tensor("register_tokens", (1, config.count("num_register_tokens"), hidden)),
        grid.projection(hidden),
    )
    scales = (Tensor("layer_scale1", (hidden,)), Tensor("layer_scale2", (hidden,)))
    network = DenseFeedForward(
        config.size("intermediate_size"),
        config.flag("use_gated_mlp"),
        config.text("hidden_act", "gelu"),
        config.flag("mlp_bias", True),
    )
    group = tower_layer(config, extra=scales, network=network, dropout="attention_dropout")
    assert isinstance(group.mixer, Attention)
    if config.flag("query_bias", True) != config.flag("value_bias", True):
        raise config.error("value_bias", config.flag("value_bias", True), "the same as “query_bias”")
    mixer = replace(
        group.mixer,
        qkv_bias=config.flag("query_bias", True),
        key_bias=config.flag("key_bias"),
        output_bias=config.flag("proj_bias", True),
        rotary_share=1.0,
    )
    groups = (replace(group, mixer=mixer),)
    return Stack("vision", hidden, None, groups, LAYER_NORM, before, image=grid.image())


def _siglip2(config: Config) -> Stack:
    hidden, patch, channels = config.size("hidden_size"), config.size("patch_size"), config.size("num_channels", 3)
    before = (
        Linear("patch_embedding", channels * patch**2, hidden, bias=True),
        Table("position_embedding", config.size("num_patches"), hidden),
    )
    after = pooling_head(config, hidden) if config.flag("vision_use_head", True) else ()
    group = tower_layer(config, NAMES, dropout="attention_dropout")
    return Stack("vision", hidden, None, (group,), LAYER_NORM, before, after, ImageInput(patch, channels=channels))
