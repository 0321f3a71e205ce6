"""ResNet: residual blocks of convolutions, each followed by a batch norm."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import slots_of
from planner.engine.activations.heads import mean_over
from planner.engine.activations.norms import NormWeights
from planner.engine.activations.ops_conv import add_in_place, batch_norm, convolution, max_pool
from planner.engine.activations.pyramids import Pyramid, make_classifier, pixel_symbols, resolution
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting
from planner.engine.activations.tape import Dim, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import BATCH_NORM, Block, Convolution, LayerGroup, ModelSpec

RESNET = "transformers 5.24, models/resnet/modeling_resnet.py"
BLOCKS = ("resnet-bottleneck", "resnet-basic")
STEM = "stem channels"


@dataclass(frozen=True, slots=True)
class ConvolutionShape:
    """One convolution with its norm."""

    name: str
    inputs: Dim
    outputs: Dim
    kernel: int
    pixels: Dim
    """Resolution of what it makes."""


@dataclass(frozen=True, slots=True)
class BlockShape:
    """One kind of residual block."""

    copies: int
    path: tuple[ConvolutionShape, ...]
    shortcut: ConvolutionShape | None


@dataclass(frozen=True, slots=True)
class ResNetBody:
    """A stem, the blocks of all stages, and the mean over the last map."""

    stem: ConvolutionShape
    pooled_pixels: Dim
    blocks: tuple[BlockShape, ...]
    classifies: bool

    def build(self, t: Tape, recipe: Recipe) -> Pyramid:
        book = WeightBook(t, recipe)
        stem = _make(book, self.stem)
        blocks = [
            _make_block(book, slot, shape)
            for index, shape in enumerate(self.blocks)
            for slot in slots_of(index, shape.copies)
        ]
        training = recipe.training

        def pooled(t: Tape, pixels: Tensor) -> tuple[Tensor, Tensor]:
            with t.module("model", f"{RESNET}: ResNetModel.forward"):
                # The model holds what the encoder reads, and every stage its own input.
                embedding_output = _embed(t, stem, pixels, self.pooled_pixels, training=training)
                hidden_state = stage_input = embedding_output
                for block in blocks:
                    if block.shortcut is not None:
                        stage_input = hidden_state
                    with t.layer(block.slot), t.module("layer"):
                        hidden_state = _run_block(t, block, hidden_state, training=training)
                del stage_input
                mean = mean_over(t, hidden_state, *hidden_state.dims[:2])
                return ops.view(t, mean, "batch", "hidden"), hidden_state

        return Pyramid(recipe, book, make_classifier(book, self.classifies), pooled)


@dataclass(slots=True)
class ConvolutionWeights:
    shape: ConvolutionShape
    weight: Tensor
    norm: NormWeights


@dataclass(slots=True)
class BlockWeights:
    slot: str
    path: list[ConvolutionWeights]
    shortcut: ConvolutionWeights | None


def _make(book: WeightBook, shape: ConvolutionShape) -> ConvolutionWeights:
    weight = book.tensor(shape.name, (shape.outputs, shape.inputs, shape.kernel))
    return ConvolutionWeights(shape, weight, book.norm(f"{shape.name} norm", (shape.outputs,), BATCH_NORM))


def _make_block(book: WeightBook, slot: str, shape: BlockShape) -> BlockWeights:
    with book.layer(slot):
        path = [_make(book, one) for one in shape.path]
        return BlockWeights(slot, path, _make(book, shape.shortcut) if shape.shortcut is not None else None)


def _normed(t: Tape, weights: ConvolutionWeights, x: Tensor, *, training: bool) -> Tensor:
    """A convolution and its batch norm."""
    shape = weights.shape
    made = convolution(t, x, weights.weight, None, ("batch", shape.outputs, shape.pixels), shape.name)
    norm = weights.norm
    assert norm.weight is not None
    assert norm.bias is not None
    with t.module(f"{shape.name} norm"):
        return batch_norm(t, made, norm.weight, norm.bias, training=training)


def _embed(t: Tape, stem: ConvolutionWeights, pixels: Tensor, pooled: Dim, *, training: bool) -> Tensor:
    """`ResNetEmbeddings.forward`."""
    embedding = ops.activation(t, _normed(t, stem, pixels, training=training), "relu")
    return max_pool(t, embedding, ("batch", stem.shape.outputs, pooled))


def _run_block(t: Tape, block: BlockWeights, hidden_state: Tensor, *, training: bool) -> Tensor:
    """`ResNetBottleNeckLayer.forward`, `ResNetBasicLayer.forward`."""
    residual = hidden_state
    for index, one in enumerate(block.path):
        hidden_state = _normed(t, one, hidden_state, training=training)
        if index < len(block.path) - 1:
            hidden_state = ops.activation(t, hidden_state, "relu")
    if block.shortcut is not None:
        residual = _normed(t, block.shortcut, residual, training=training)
    hidden_state = add_in_place(t, hidden_state, residual)
    return ops.activation(t, hidden_state, "relu")


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Residual blocks of convolutions without biases, and nothing else."""
    stack = spec.stack
    groups = stack.groups
    if len(spec.stacks) != 1 or not groups or not all(_is_block(group) for group in groups):
        return None
    stem = stack.before[0]
    assert isinstance(stem, Convolution)
    names = _Channels(STEM)
    shrunk, blocks = 4, list[BlockShape]()
    for group in groups:
        blocks.append(_block(group, names, shrunk))
        shrunk = group.downsampling
    first = ConvolutionShape("stem", "channels", STEM, _area(stem), resolution(2))
    body = ResNetBody(first, resolution(4), tuple(blocks), spec.head is not None)
    symbols = (Factor(STEM, stem.outputs), *names.symbols)
    levels = (2, 4, *(group.downsampling for group in groups))

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return pixel_symbols(stack, loads, *levels)

    return Found(body, symbols, {str(index): group.count for index, group in enumerate(groups)}, derived)


def _is_block(group: LayerGroup) -> bool:
    return isinstance(group.mixer, Block) and group.mixer.kind in BLOCKS


def _area(part: Convolution) -> int:
    return part.kernel[0] * part.kernel[1]


class _Channels:
    """Names of channel counts: a new one for every stage."""

    def __init__(self, inputs: str) -> None:
        self.inputs = inputs
        self.symbols: list[Factor] = []
        self._stage = 0

    def stage(self, reduced: int, outputs: int) -> tuple[str, str]:
        self._stage += 1
        names = f"stage {self._stage} reduced channels", f"stage {self._stage} channels"
        self.symbols += [Factor(names[0], reduced), Factor(names[1], outputs)]
        return names


def _block(group: LayerGroup, names: _Channels, shrunk: int) -> BlockShape:
    """`shrunk` is by how much the sides of the block's input have shrunk."""
    assert isinstance(group.mixer, Block)
    parts = [part for part in group.mixer.parts if isinstance(part, Convolution)]
    path = [part for part in parts if not part.name.startswith("shortcut")]
    reduced, outputs = names.stage(path[0].outputs, path[-1].outputs)
    inputs = names.inputs
    names.inputs = outputs
    return BlockShape(
        min(group.count, RECORDED),
        tuple(_path(path, inputs, reduced, outputs, shrunk)),
        next(
            (
                ConvolutionShape("shortcut", inputs, outputs, _area(part), resolution(group.downsampling))
                for part in parts
                if part.name.startswith("shortcut")
            ),
            None,
        ),
    )


def _path(parts: list[Convolution], inputs: str, reduced: str, outputs: str, shrunk: int) -> Iterator[ConvolutionShape]:
    for index, part in enumerate(parts):
        shrunk *= part.stride
        made = outputs if index == len(parts) - 1 else reduced
        yield ConvolutionShape(f"convolution {index + 1}", inputs, made, _area(part), resolution(shrunk))
        inputs = made
