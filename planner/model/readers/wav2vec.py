"""wav2vec 2.0 and HuBERT as feature extractors: convolutions over the waveform, then an encoder."""

from planner.model.readers.config import Config
from planner.model.readers.encoder import encoder_layer
from planner.model.readers.tasks import task_of
from planner.model.spec import (
    GROUP_NORM,
    LAYER_NORM,
    Convolution,
    LayerGroup,
    Linear,
    ModelSpec,
    NormPart,
    Part,
    Stack,
    Tensor,
)

MODEL_TYPES = ("wav2vec2", "hubert")


def read(config: Config, task: str | None) -> ModelSpec:
    """A speech encoder."""
    kind = task_of(config, task, "feature-extraction")
    for key in ("add_adapter", "conv_pos_batch_norm"):
        if config.flag(key):
            raise config.error(key, True, "false; such speech encoders cannot be read yet")
    hidden = config.size("hidden_size")
    channels = config.sizes("conv_dim")
    before = [*_convolutions(config, channels), NormPart("feature_projection.layer_norm", channels[-1])]
    if config.model_type == "hubert" and not config.flag("feat_proj_layer_norm", True):
        before.pop()
    before.append(Linear("feature_projection.projection", channels[-1], hidden, bias=True))
    before.append(Tensor("masked_spec_embed", (hidden,)))
    width, groups = config.size("num_conv_pos_embeddings"), config.size("num_conv_pos_embedding_groups")
    # A convolution under weight normalisation: a direction, a length for each place of the kernel, and a bias.
    before += [
        Tensor("pos_conv_embed.original0", (1, 1, width)),
        Tensor("pos_conv_embed.original1", (hidden, hidden // groups, width)),
        Tensor("pos_conv_embed.bias", (hidden,)),
    ]
    group = _layers(config)
    stack = Stack("encoder", hidden, None, (group,), LAYER_NORM, tuple(before))
    return ModelSpec(config.model_type, config.model_type, kind, (stack,), None)


def _convolutions(config: Config, channels: tuple[int, ...]) -> list[Part]:
    kernels, strides = config.sizes("conv_kernel", len(channels)), config.sizes("conv_stride", len(channels))
    every = config.text("feat_extract_norm", "group") == "layer"
    parts: list[Part] = []
    inputs = 1
    for index, (outputs, kernel, stride) in enumerate(zip(channels, kernels, strides, strict=True)):
        bias = config.flag("conv_bias")
        parts.append(Convolution(f"conv_layers.{index}", inputs, outputs, (kernel,), stride, bias=bias))
        if every or index == 0:
            parts.append(NormPart("layer_norm", outputs, LAYER_NORM if every else GROUP_NORM))
        inputs = outputs
    return parts


def _layers(config: Config) -> LayerGroup:
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    network = ("", "intermediate_dense", "output_dense")
    return encoder_layer(config, names, network, dropout="attention_dropout", hidden_dropout="hidden_dropout")
