"""Pyramids whose image shrinks from stage to stage while channels grow: ResNet, ConvNeXt 1 and 2, Swin 1 and 2."""

from collections.abc import Iterator
from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.tasks import task_of
from planner.model.readers.vit import Patches, classifier, patches, two_layers
from planner.model.spec import (
    BATCH_NORM,
    DOWNSAMPLE,
    LAYER_NORM,
    Attention,
    Block,
    Buffer,
    Convolution,
    ImageInput,
    LayerGroup,
    Linear,
    ModelSpec,
    NormPart,
    Part,
    Stack,
    Tensor,
)

_INDICES = "transformers 5.24, SwinRelativePositionBias: one index for each pair of pixels of a window"
MODEL_TYPES = ("resnet", "convnext", "convnextv2", "swin", "swinv2")


def read(config: Config, task: str | None) -> ModelSpec:
    """A pyramid with a classifier over its last stage, or without."""
    kind = task_of(config, task, "image-classification")
    stack = {"resnet": _resnet, "convnext": _convnext, "convnextv2": _convnext}.get(config.model_type, _swin)(config)
    head = classifier(config, kind, stack.hidden_size)
    return ModelSpec(config.model_type, config.model_type, kind, (stack,), head)


def _resnet(config: Config) -> Stack:
    """ResNet as Hugging Face builds it; its stem halves the image twice."""
    sizes, stem = config.sizes("hidden_sizes"), config.size("embedding_size")
    depths = config.sizes("depths", len(sizes))
    channels = config.size("num_channels", 3)
    before: tuple[Part, ...] = (
        Convolution("embedder.convolution", channels, stem, (7, 7), 2, bias=False),
        NormPart("embedder.normalization", stem, BATCH_NORM),
    )
    groups: list[LayerGroup] = []
    inputs, shrunk = stem, 4
    for index, (outputs, depth) in enumerate(zip(sizes, depths, strict=True)):
        stride = 2 if index or config.flag("downsample_in_first_stage") else 1
        shrunk *= stride
        groups.append(_resnet_group(config, 1, inputs, outputs, stride, shrunk))
        if depth > 1:
            groups.append(_resnet_group(config, depth - 1, outputs, outputs, 1, shrunk))
        inputs = outputs
    image = ImageInput(1, channels=channels)
    return Stack(
        "vision", sizes[-1], None, tuple(groups), None, before, image=image, buffers=_statistics(before, groups)
    )


def _statistics(before: tuple[Part, ...], groups: list[LayerGroup]) -> tuple[Buffer, ...]:
    """What batch norms keep: running mean and variance of every channel, and a count of batches."""
    norms = [part.size for part in before if isinstance(part, NormPart)]
    for group in groups:
        parts = group.mixer.parts if isinstance(group.mixer, Block) else ()
        norms += [part.size for part in parts if isinstance(part, NormPart)] * group.count
    source = "torch 2.13, BatchNorm2d: running_mean, running_var, num_batches_tracked"
    return (
        Buffer("running statistics of batch norms", 2 * sum(norms), source=source),
        Buffer("batches counted by batch norms", len(norms), 8, source),
    )


def _resnet_group(config: Config, count: int, inputs: int, outputs: int, stride: int, shrunk: int) -> LayerGroup:
    bottleneck = config.text("layer_type", "bottleneck") == "bottleneck"
    parts: list[Part] = []
    if inputs != outputs or stride != 1:
        parts += _normed("shortcut", inputs, outputs, 1, stride)
    if bottleneck:
        reduced, first = outputs // 4, config.flag("downsample_in_bottleneck")
        parts += _normed("layer.0", inputs, reduced, 1, stride if first else 1)
        parts += _normed("layer.1", reduced, reduced, 3, 1 if first else stride)
        parts += _normed("layer.2", reduced, outputs, 1, 1)
    else:
        parts += _normed("layer.0", inputs, outputs, 3, stride)
        parts += _normed("layer.1", outputs, outputs, 3, 1)
    block = Block("resnet-bottleneck" if bottleneck else "resnet-basic", tuple(parts))
    return LayerGroup(count, block, None, norms=0, width=outputs, downsampling=shrunk)


def _normed(name: str, inputs: int, outputs: int, kernel: int, stride: int) -> Iterator[Part]:
    yield Convolution(f"{name}.convolution", inputs, outputs, (kernel, kernel), stride, bias=False)
    yield NormPart(f"{name}.normalization", outputs, BATCH_NORM)


def _convnext(config: Config) -> Stack:
    """ConvNeXt (arXiv:2201.03545); version 2 normalises responses instead of scaling layers."""
    sizes = config.sizes("hidden_sizes")
    depths = config.sizes("depths", len(sizes))
    patch, channels = config.size("patch_size"), config.size("num_channels", 3)
    before: tuple[Part, ...] = (
        Convolution("patch_embeddings", channels, sizes[0], (patch, patch), patch),
        NormPart("layernorm", sizes[0]),
    )
    groups: list[LayerGroup] = []
    shrunk = patch
    for index, (width, depth) in enumerate(zip(sizes, depths, strict=True)):
        if index:
            shrunk *= 2
            smaller = Convolution("downsampling_layer", sizes[index - 1], width, (2, 2), 2)
            groups.append(_between((NormPart("downsampling_norm", sizes[index - 1]), smaller), width, shrunk))
        block = Block("convnext", tuple(_convnext_parts(config, width)))
        dropped = config.number("drop_path_rate", 0.0, maximum=1.0)
        groups.append(LayerGroup(depth, block, None, norms=0, width=width, downsampling=shrunk, drop_path=dropped))
    image = ImageInput(patch, config.optional_size("image_size"), channels)
    return Stack("vision", sizes[-1], None, tuple(groups), LAYER_NORM, before, image=image)


def _convnext_parts(config: Config, width: int) -> Iterator[Part]:
    yield Convolution("dwconv", width, width, (7, 7), groups=width)
    yield NormPart("layernorm", width)
    yield Linear("pwconv1", width, 4 * width, bias=True)
    if config.model_type == "convnextv2":
        yield Tensor("grn.weight", (1, 1, 1, 4 * width))
        yield Tensor("grn.bias", (1, 1, 1, 4 * width))
    yield Linear("pwconv2", 4 * width, width, bias=True)
    if config.model_type == "convnext" and config.number("layer_scale_init_value", 1e-6) > 0:
        yield Tensor("layer_scale_parameter", (width,))


def _between(parts: tuple[Part, ...], width: int, shrunk: int) -> LayerGroup:
    return LayerGroup(1, Block(DOWNSAMPLE, parts), None, norms=0, width=width, downsampling=shrunk)


def _swin(config: Config) -> Stack:
    """Swin (arXiv:2103.14030) and Swin 2: attention inside windows, four patches merged between stages."""
    depths = config.sizes("depths")
    heads = config.sizes("num_heads", len(depths))
    first, grid = config.size("embed_dim"), patches(config)
    before: list[Part] = [grid.projection(first), NormPart("norm", first)]
    if config.flag("use_absolute_embeddings"):
        rows = grid.count + int(config.model_type == "swinv2")
        before.append(Tensor("position_embeddings", (1, rows, first)))
    groups: list[LayerGroup] = []
    for index, (depth, own) in enumerate(zip(depths, heads, strict=True)):
        width, shrunk = first * 2**index, grid.patch_size * 2**index
        if own < 1 or width % own:
            raise config.error("num_heads", list(heads), f"divisors of the widths, of which one is {width}")
        groups.append(_swin_group(config, grid, depth, own, width, shrunk))
        if index < len(depths) - 1:
            normed = 2 * width if config.model_type == "swinv2" else 4 * width
            merging = (Linear("reduction", 4 * width, 2 * width), NormPart("norm", normed))
            groups.append(_between(merging, 2 * width, 2 * shrunk))
    hidden = first * 2 ** (len(depths) - 1)
    buffers = (Buffer("indices of relative positions", sum(depths) * config.size("window_size") ** 4, 8, _INDICES),)
    stack = Stack("vision", hidden, None, tuple(groups), LAYER_NORM, tuple(before), image=grid.image())
    return stack if config.model_type == "swinv2" else replace(stack, buffers=buffers)


def _swin_group(config: Config, grid: Patches, depth: int, heads: int, width: int, shrunk: int) -> LayerGroup:
    second = config.model_type == "swinv2"
    window, bias = config.size("window_size"), config.flag("qkv_bias", True)
    extra: tuple[Part, ...] = (Tensor("relative_position_bias_table", ((2 * window - 1) ** 2, heads)),)
    if second:
        extra = (
            Tensor("logit_scale", (heads, 1, 1)),
            Linear("continuous_position_bias_mlp.0", 2, 512, bias=True),
            Linear("continuous_position_bias_mlp.2", 512, heads),
        )
    side = grid.image_size // shrunk
    mixer = Attention(
        heads,
        heads,
        width // heads,
        qkv_bias=bias,
        output_bias=True,
        window=min(window, side) ** 2,
        dropout=config.number("attention_probs_dropout_prob", 0.0, maximum=1.0),
        key_bias=False if second else None,
        causal=False,
        rotary_share=0.0,
        names=("query", "key", "value", "dense") if second else ("q_proj", "k_proj", "v_proj", "o_proj"),
    )
    network = two_layers(config, int(width * config.number("mlp_ratio", 4.0, minimum=0.01)))
    return LayerGroup(
        depth,
        mixer,
        network,
        LAYER_NORM,
        arrangement="post" if second else "pre",
        extra=extra,
        width=width,
        downsampling=shrunk,
        dropout=config.number("hidden_dropout_prob", 0.0, maximum=1.0),
        drop_path=config.number("drop_path_rate", 0.0, maximum=1.0),
    )
