"""What one step of a diffusion denoiser works with: all that is alive at the fullest point of its forward pass.

The counts are those of diffusers 0.42 run operator by operator without gradients and with fused attention: within
0.3 % for the UNets of Stable Diffusion 1.5 and XL at 512 to 1024 pixels and 1 to 4 images, 2 % for FLUX.1 and SD3.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.model.spec import DOWNSAMPLE, Attention, Block, LayerGroup, Stack

FEED_FORWARD_WIDTHS = 21
"""GEGLU: eight widths before, four of the gate after its activation, four of the product; the layer's states, their
norm, what attention added and what the layer was given; and the residual around the transformer
(models/attention.py BasicTransformerBlock, models/transformers/transformer_2d.py)."""
RESIDUAL_WIDTHS = 3
"""A residual block's input, its norm and the activation of that (models/resnet.py ResnetBlock2D)."""
SINGLE_WIDTHS = 17
"""Single-stream blocks: queries, keys, values, four widths of the feed-forward before and after its activation, and
both joined, beside the residual (models/transformers/transformer_flux.py FluxSingleTransformerBlock)."""
JOINT_IMAGE_WIDTHS, JOINT_TEXT_WIDTHS = 13, 6
"""Joint blocks: the image's feed-forward beside what waits of the text (models/attention.py JointTransformerBlock)."""
ATTENDS = "projections"
UNET_BLOCK = "resnet"


@dataclass(frozen=True, slots=True)
class Skip:
    """A state of the way down that waits for the way up: channels, and by how much its sides are shorter."""

    channels: int
    shrunk: int

    def elements(self, pixels: int) -> int:
        return self.channels * pixels // self.shrunk**2


def is_pyramid(stack: Stack) -> bool:
    """Whether a denoiser goes down in resolution and up again."""
    return any(_kind(group) == DOWNSAMPLE for group in stack.groups)


def unet_elements(stack: Stack, latent_pixels: int) -> int:
    """Elements alive at the fullest point of one pass over one latent.

    On the way up a block holds its own three skips until it is done, the state that it was given, and the skips of the
    levels above it, beside what its layers work with.
    """
    skips = [Skip(stack.hidden_size, 1), *_down(stack)]
    fullest = 0
    given = Skip(skips[-1].channels, skips[-1].shrunk)
    for layers in _up(stack, len(skips)):
        own = [skips.pop() for _ in layers]
        shrunk, width = own[0].shrunk, layers[-1].channels
        waiting = sum(skip.elements(latent_pixels) for skip in (*own, *skips))
        at_this_size = Skip(given.channels, shrunk).elements(latent_pixels)
        for index, (layer, skip) in enumerate(zip(layers, own, strict=True)):
            inputs = (given.channels if index == 0 else width) + skip.channels
            works = max(RESIDUAL_WIDTHS * inputs, FEED_FORWARD_WIDTHS * width if layer.attends else 0)
            fullest = max(fullest, waiting + at_this_size + Skip(works, shrunk).elements(latent_pixels))
        given = Skip(width, shrunk)
    return fullest


@dataclass(frozen=True, slots=True)
class Layer:
    """One residual block of the UNet, with its transformer if it has one."""

    channels: int
    shrunk: int
    attends: bool


def _layers(groups: tuple[LayerGroup, ...]) -> Iterator[Layer | None]:
    """Residual blocks in order; None where the resolution changes."""
    for index, group in enumerate(groups):
        kind = _kind(group)
        if kind == DOWNSAMPLE:
            yield None
        elif kind.endswith(UNET_BLOCK):
            after = _kind(groups[index + 1]) if index + 1 < len(groups) else ""
            yield Layer(group.width or 0, group.downsampling, after.endswith(ATTENDS))


def _down(stack: Stack) -> Iterator[Skip]:
    """What each layer and each reduction of the way down leaves for the way up."""
    layers = tuple(_layers(stack.groups))
    reductions = sum(layer is None for layer in layers) // 2
    blocks = sum(layer is not None for layer in layers)
    # The way up has a block for every skip: the first convolution's, one per block and one per reduction.
    middle = 1 if (blocks - 2 - reductions) % 2 == 0 else 2
    left = (blocks - middle - 1 - reductions) // 2
    before: Layer | None = None
    for layer in layers:
        if layer is None and before is not None and reductions:
            reductions -= 1
            yield Skip(before.channels, 2 * before.shrunk)
        elif layer is not None and left:
            left -= 1
            before = layer
            yield Skip(layer.channels, layer.shrunk)


def _up(stack: Stack, blocks: int) -> Iterator[list[Layer]]:
    """The last `blocks` residual blocks, level by level."""
    found = [layer for layer in _layers(stack.groups) if layer is not None][-blocks:]
    level: list[Layer] = []
    for layer in found:
        if level and layer.shrunk != level[0].shrunk:
            yield level
            level = []
        level.append(layer)
    if level:
        yield level


def widest_attention(stack: Stack, latent_pixels: int) -> tuple[int, int]:
    """Heads and tokens of the self-attention of a UNet whose scores are largest; none for other denoisers."""
    found = [
        (group.mixer.heads, latent_pixels // group.downsampling**2)
        for group in stack.groups
        if isinstance(group.mixer, Attention)
    ]
    return max(found, key=lambda pair: pair[0] * pair[1] ** 2, default=(0, 0)) if is_pyramid(stack) else (0, 0)


def transformer_elements(stack: Stack, image_tokens: int, text_tokens: int) -> int:
    """Elements alive at the fullest point of a diffusion transformer, for one image."""
    if any(_kind(group).endswith("single") or isinstance(group.mixer, Attention) for group in stack.groups):
        return SINGLE_WIDTHS * stack.hidden_size * (image_tokens + text_tokens)
    return stack.hidden_size * (JOINT_IMAGE_WIDTHS * image_tokens + JOINT_TEXT_WIDTHS * text_tokens)


def _kind(group: LayerGroup) -> str:
    return group.mixer.kind if isinstance(group.mixer, Block) else ""
