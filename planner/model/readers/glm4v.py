"""GLM-4.1V and GLM-4.5V: a tower with a convolution that merges patches, before a GLM-4 language model."""

from planner.model.readers.config import Config
from planner.model.readers.layers import MOST_LAYERS
from planner.model.readers.multimodal import joined, text_model, text_part
from planner.model.spec import (
    RMS_NORM,
    Attention,
    Convolution,
    DenseFeedForward,
    ImageInput,
    LayerGroup,
    Linear,
    ModelSpec,
    NormPart,
    Stack,
    Table,
)

MODEL_TYPES = ("glm4v", "glm4v_moe")


def read(config: Config, task: str | None) -> ModelSpec:
    """A vision-language model of the GLM line."""
    name = config.model_type
    text = text_part(config, f"{name}_text")
    vision = _vision(config.part("vision_config", f"{name}_vision"))
    return joined(config, task, text, text_model(text), (vision,), ties=True)


def _vision(config: Config) -> Stack:
    hidden, heads = config.size("hidden_size"), config.size("num_heads")
    if hidden % heads:
        raise config.error("num_heads", heads, f"a divisor of the hidden size {hidden}")
    mixer = Attention(
        heads,
        heads,
        hidden // heads,
        qkv_bias=config.flag("attention_bias"),
        fused=True,
        causal=False,
        names=("qkv", "", "", "proj"),
    )
    outer, inner = config.size("out_hidden_size"), config.size("intermediate_size")
    network = DenseFeedForward(outer, activation=config.text("hidden_act", "silu"))
    patch, frames, merge = (
        config.size("patch_size"),
        config.size("temporal_patch_size"),
        config.size("spatial_merge_size"),
    )
    channels, image = config.size("in_channels", 3), config.size("image_size")
    before = (
        Convolution("patch_embed", channels, hidden, (frames, patch, patch), patch),
        NormPart("post_conv_layernorm", hidden, RMS_NORM),
        Table("position_embedding", (image // patch) ** 2, hidden),
    )
    after = (
        Convolution("downsample", hidden, outer, (merge, merge), merge),
        Linear("merger.proj", outer, outer),
        NormPart("merger.post_projection_norm", outer),
        Linear("merger.gate_proj", outer, inner),
        Linear("merger.up_proj", outer, inner),
        Linear("merger.down_proj", inner, outer),
    )
    group = LayerGroup(config.size("depth", maximum=MOST_LAYERS), mixer, network, RMS_NORM)
    entrance = ImageInput(patch, image, channels, frames, merge)
    return Stack("vision", hidden, None, (group,), RMS_NORM, before, after, entrance)
