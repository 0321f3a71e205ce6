"""ConvNeXt: depthwise convolutions with a two-layer network over channels, and reductions between the stages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear, slots_of
from planner.engine.activations.functions import activate, drop_path
from planner.engine.activations.heads import mean_over
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_conv import convolution
from planner.engine.activations.ops_shape import reshape
from planner.engine.activations.pyramids import Pyramid, make_classifier, pixel_symbols, resolution
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting
from planner.engine.activations.tape import Dim, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import DOWNSAMPLE, Block, Convolution, LayerGroup, ModelSpec
from planner.model.spec import Tensor as TensorPart

CONVNEXT = "transformers 5.24, models/convnext/modeling_convnext.py"
KIND = "convnext"
SCALE = "layer_scale_parameter"


@dataclass(frozen=True, slots=True)
class StageShape:
    """The blocks of one stage, and the reduction before them."""

    kind: int
    copies: int
    channels: str
    inputs: str
    """Channels before the reduction, or before the projection of patches in the first stage."""
    pixels: Dim
    kernel: int
    """Elements of the reduction's kernel for one pair of channels."""
    reduction: int | None
    """Kind of the reduction as a layer; None in the first stage, which the patches make."""
    depthwise: int
    scaled: bool
    activation: str
    drops_paths: bool
    """Stochastic depth, in training; the very first block has none."""


@dataclass(slots=True)
class BlockWeights:
    """One recorded block."""

    slot: str
    shape: StageShape
    depthwise: Tensor
    depthwise_bias: Tensor
    norm: NormWeights
    up: Linear
    down: Linear
    scale: Tensor | None
    drops_paths: bool


@dataclass(slots=True)
class ReductionWeights:
    """A norm and a convolution; for the patches, which are normalised after it, in the other order."""

    slot: str
    shape: StageShape
    norm: NormWeights
    weight: Tensor
    bias: Tensor


Weights = TypeVar("Weights", BlockWeights, ReductionWeights)


@dataclass(frozen=True, slots=True)
class ConvNextBody:
    """Patches, stages of blocks, and a norm over the mean of the last map."""

    stages: tuple[StageShape, ...]
    classifies: bool

    def build(self, t: Tape, recipe: Recipe) -> Pyramid:
        book = WeightBook(t, recipe)
        steps: list[Callable[[Tape, Tensor], Tensor]] = []
        for shape in self.stages:
            steps.append(_step(_make_reduction(book, shape), _reduce if shape.reduction is not None else _embed))
            steps += [_step(_make_block(book, slot, shape), _run_block) for slot in slots_of(shape.kind, shape.copies)]
        norm = book.norm("layernorm", ("hidden",))

        def pooled(t: Tape, pixels: Tensor) -> tuple[Tensor, Tensor]:
            with t.module("model", f"{CONVNEXT}: ConvNextModel.forward"):
                embed, *layers = steps
                embedding_output = embed(t, pixels)
                features = embedding_output
                for layer in layers:
                    features = layer(t, features)
                return normalise(t, norm, mean_over(t, features, "batch", "hidden"), "layernorm"), features

        return Pyramid(recipe, book, make_classifier(book, self.classifies), pooled)


def _step(weights: Weights, run: Callable[[Tape, Weights, Tensor], Tensor]) -> Callable[[Tape, Tensor], Tensor]:
    def step(t: Tape, features: Tensor) -> Tensor:
        with t.layer(weights.slot), t.module("layer"):
            return run(t, weights, features)

    return step


def _make_reduction(book: WeightBook, shape: StageShape) -> ReductionWeights:
    slot = "" if shape.reduction is None else f"{shape.reduction}/first"
    with book.layer(slot):
        width = shape.inputs if shape.reduction is not None else shape.channels
        norm = book.norm("norm", (width,))
        weight = book.tensor("convolution", (shape.channels, shape.inputs, shape.kernel))
        return ReductionWeights(slot, shape, norm, weight, book.tensor("convolution", (shape.channels,)))


def _make_block(book: WeightBook, slot: str, shape: StageShape) -> BlockWeights:
    width = (shape.channels,)
    inner = (4, shape.channels)
    with book.layer(slot):
        return BlockWeights(
            slot,
            shape,
            book.tensor("dwconv", (shape.channels, shape.depthwise)),
            book.tensor("dwconv", width),
            book.norm("layernorm", width),
            book.linear("up_proj", width, inner),
            book.linear("down_proj", inner, width),
            book.tensor(SCALE, width) if shape.scaled else None,
            shape.drops_paths and slot != "0/first",
        )


def _embed(t: Tape, weights: ReductionWeights, pixels: Tensor) -> Tensor:
    """`ConvNextEmbeddings.forward`."""
    shape = weights.shape
    dims = ("batch", shape.channels, shape.pixels)
    embeddings = convolution(t, pixels, weights.weight, weights.bias, dims, "patch_embeddings")
    embeddings = normalise(t, weights.norm, ops.view(t, embeddings, "batch", shape.pixels, shape.channels), "layernorm")
    return ops.view(t, embeddings, *dims)


def _reduce(t: Tape, weights: ReductionWeights, features: Tensor) -> Tensor:
    """The `downsampling_layer` of a stage."""
    shape = weights.shape
    before = features.dims
    features = normalise(t, weights.norm, ops.view(t, features, "batch", before[2], before[1]), "norm")
    features = ops.view(t, features, *before)
    return convolution(
        t, features, weights.weight, weights.bias, ("batch", shape.channels, shape.pixels), "convolution"
    )


def _run_block(t: Tape, block: BlockWeights, features: Tensor) -> Tensor:
    """`ConvNextLayer.forward`."""
    residual = features
    shape = block.shape
    features = convolution(t, features, block.depthwise, block.depthwise_bias, features.dims, "dwconv")
    features = ops.view(t, features, "batch", shape.pixels, shape.channels)
    features = normalise(t, block.norm, features, "layernorm")
    features = linear(t, block.up, features)
    features = activate(t, features, shape.activation)
    features = linear(t, block.down, features)
    features = reshape(t, features)
    if block.scale is not None:
        features = ops.mul(t, block.scale, features, "scaled output")
    features = ops.view(t, features, *residual.dims)
    left = drop_path(t, features) if block.drops_paths else features
    return ops.add(t, residual, left, "residual sum")


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Blocks of a depthwise convolution, a norm and two projections, with reductions between their stages."""
    stack = spec.stack
    if len(spec.stacks) != 1 or not any(_is(group, KIND) for group in stack.groups):
        return None
    if not all(_is(group, KIND, DOWNSAMPLE) and _known(group) for group in stack.groups):
        return None
    stages, symbols = _stages(stack.groups, stack.before[0], training=setting.training)
    layers = {str(index): group.count for index, group in enumerate(stack.groups)}
    levels = [group.downsampling for group in stack.groups]

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return pixel_symbols(stack, loads, *levels)

    return Found(ConvNextBody(stages, spec.head is not None), symbols, layers, derived)


def _is(group: LayerGroup, *kinds: str) -> bool:
    return isinstance(group.mixer, Block) and group.mixer.kind in kinds


def _known(group: LayerGroup) -> bool:
    """Whether a block has no parts but those told here (version 2 normalises responses too)."""
    assert isinstance(group.mixer, Block)
    return all(part.name == SCALE for part in group.mixer.parts if isinstance(part, TensorPart))


def _stages(
    groups: tuple[LayerGroup, ...], patches: object, *, training: bool
) -> tuple[tuple[StageShape, ...], tuple[Factor, ...]]:
    assert isinstance(patches, Convolution)
    stages, symbols = list[StageShape](), list[Factor]()
    inputs, reduction, reducing = "channels", None, patches
    for index, group in enumerate(groups):
        assert isinstance(group.mixer, Block)
        convolutions = [part for part in group.mixer.parts if isinstance(part, Convolution)]
        if _is(group, DOWNSAMPLE):
            reduction, reducing = index, convolutions[0]
            continue
        channels = f"stage {len(stages) + 1} channels"
        symbols.append(Factor(channels, group.width or 0))
        stages.append(
            StageShape(
                kind=index,
                copies=min(group.count, RECORDED),
                channels=channels,
                inputs=inputs,
                pixels=resolution(group.downsampling),
                kernel=reducing.kernel[0] * reducing.kernel[1],
                reduction=reduction,
                depthwise=convolutions[0].kernel[0] * convolutions[0].kernel[1],
                scaled=any(isinstance(part, TensorPart) for part in group.mixer.parts),
                activation="gelu",
                drops_paths=training and group.drop_path > 0,
            )
        )
        inputs = channels
    return tuple(stages), tuple(symbols)
