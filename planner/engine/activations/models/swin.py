"""Swin: blocks of windowed attention in stages between which four pixels become one."""

from dataclasses import dataclass
from functools import partial
from math import isqrt

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear, slots_of
from planner.engine.activations.checkpoint import checkpointed, checkpointed_stage
from planner.engine.activations.heads import mean_over
from planner.engine.activations.images import USUAL_SIDE
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_conv import convolution
from planner.engine.activations.ops_shape import cat, part
from planner.engine.activations.pyramids import Pyramid, make_classifier, pixel_symbols, resolution
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.versions import checkpoints_layers_of_stages
from planner.engine.activations.weight_book import WeightBook
from planner.engine.activations.windows import SWIN, WindowBlock, WindowShape, make_window_block, run_window_block
from planner.engine.rounding import ceil_div, round_up, smaller
from planner.engine.term import Factor
from planner.model.spec import (
    DOWNSAMPLE,
    LAYER_NORM,
    Attention,
    Block,
    Convolution,
    DenseFeedForward,
    LayerGroup,
    ModelSpec,
    Stack,
)
from planner.model.spec import Tensor as TensorPart

ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class StageShape:
    """Pairs of blocks, plain and shifted, and the merging of pixels after them."""

    kind: int
    copies: int
    """How many pairs are recorded."""
    blocks: WindowShape
    merging: int | None
    """Kind of the merging as a layer; None after the last stage."""
    merged_pixels: str
    merged_width: str


@dataclass(slots=True)
class Pair:
    slot: str
    blocks: tuple[WindowBlock, WindowBlock]


@dataclass(slots=True)
class Stage:
    """The weights of one stage."""

    shape: StageShape
    pairs: list[Pair]
    norm: NormWeights | None
    reduction: Linear | None


@dataclass(frozen=True, slots=True)
class SwinBody:
    """Patches, stages, and a norm before the mean over all pixels."""

    stages: tuple[StageShape, ...]
    dropout: bool
    classifies: bool
    checkpoints_blocks: bool
    """Not only whole stages are checkpointed, but each of their blocks too."""

    def build(self, t: Tape, recipe: Recipe) -> Pyramid:
        book = WeightBook(t, recipe)
        width = self.stages[0].blocks.width
        projection = book.tensor("patch projection", (width, "channels", "pixels of a patch"))
        bias = book.tensor("patch projection", (width,))
        norm = book.norm("embedding norm", (width,))
        stages = [_make_stage(book, shape, first=index == 0) for index, shape in enumerate(self.stages)]
        final = book.norm("layernorm", ("hidden",))
        pixels_of_patches = self.stages[0].blocks.pixels

        def pooled(t: Tape, pixels: Tensor) -> tuple[Tensor, Tensor]:
            with t.module("model", f"{SWIN}: SwinModel.forward"):
                made = convolution(t, pixels, projection, bias, ("batch", width, pixels_of_patches), "patch_embeddings")
                embedding_output = normalise(t, norm, ops.view(t, made, "batch", pixels_of_patches, width), "norm")
                del made
                if self.dropout:
                    embedding_output = ops.dropout(t, embedding_output)
                hidden_states = embedding_output
                how = recipe.checkpointing
                inner = how if self.checkpoints_blocks else "none"
                for stage in stages:
                    run = partial(_run_stage, t, inner, stage)
                    hidden_states, _reshaped, _weights = checkpointed_stage(t, how, run, hidden_states)
                sequence_output = normalise(t, final, hidden_states, "layernorm")
                return mean_over(t, sequence_output, "batch", "hidden"), sequence_output

        return Pyramid(recipe, book, make_classifier(book, self.classifies), pooled)


def _make_stage(book: WeightBook, shape: StageShape, *, first: bool) -> Stage:
    pairs: list[Pair] = []
    drops = shape.blocks.drops_paths
    for slot in slots_of(shape.kind, shape.copies):
        with book.layer(slot):
            # The rate of stochastic depth grows from zero: the first block of all has none.
            plain = make_window_block(
                book, shape.blocks, shifted=False, drops_paths=drops and not (first and not pairs)
            )
            shifted = make_window_block(book, shape.blocks, shifted=True, drops_paths=drops)
            pairs.append(Pair(slot, (plain, shifted)))
    if shape.merging is None:
        return Stage(shape, pairs, None, None)
    with book.layer(f"{shape.merging}/first"):
        merged = shape.blocks.dim("merged channels")
        norm = book.norm("norm", (merged,))
        return Stage(shape, pairs, norm, book.linear("reduction", (merged,), (shape.merged_width,), bias=False))


def _run_stage(t: Tape, how: str, stage: Stage, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """`SwinStage.forward`: what it makes, the same as a map, and its last weights of attention, which nothing reads.

    `how`: its blocks are checkpointed.
    """
    weights: Tensor | None = None
    for pair in stage.pairs:
        with t.layer(pair.slot), t.module("layer"):
            for block in pair.blocks:
                hidden_states, weights = checkpointed(t, how, partial(run_window_block, t, block), hidden_states)
    before = hidden_states
    if stage.norm is not None and stage.reduction is not None:
        with t.layer(f"{stage.shape.merging}/first"), t.module("downsample"):
            hidden_states = _merge(t, stage, stage.norm, stage.reduction, before)
    reshaped = ops.contiguous(t, hidden_states, label="map of the stage")
    del before
    return hidden_states, reshaped, weights


def _merge(t: Tape, stage: Stage, norm: NormWeights, reduction: Linear, x: Tensor) -> Tensor:
    """`SwinPatchMerging.forward`: four neighbours side by side, a norm, and half as many channels."""
    shape = stage.shape
    width = shape.blocks.width
    half = shape.blocks.dim("half of the pixels")
    corners = [part(t, part(t, x, "batch", half, width), "batch", shape.merged_pixels, width) for _ in range(4)]
    joined = cat(t, corners, ("batch", shape.merged_pixels, shape.blocks.dim("merged channels")), "neighbours joined")
    del corners
    joined = normalise(t, norm, joined, "norm")
    return linear(t, reduction, joined)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Stages of pairs of windowed attention over an image, with norms before each half."""
    stack = spec.stack
    groups = stack.groups
    if len(spec.stacks) != 1 or stack.image is None or not groups or not _reduces(groups):
        return None
    stages = [group for group in groups if not _is_merging(group)]
    if not all(_is_windowed(group) for group in stages) or any(isinstance(p, TensorPart) for p in stack.before):
        return None
    shapes = _shapes(groups, stack, setting)
    layers = {str(index): 1 if _is_merging(group) else group.count // 2 for index, group in enumerate(groups)}
    body = SwinBody(
        shapes,
        setting.training and stages[0].dropout > 0,
        spec.head is not None,
        checkpoints_layers_of_stages(setting.version),
    )
    fixed = tuple(symbol for number, group in enumerate(stages, 1) for symbol in _fixed(f"stage {number}", group))

    def derived(loads: Loads) -> tuple[Factor, ...]:
        side = _side(stack) if loads.image_size is None else loads.image_size
        found = [
            symbol
            for number, group in enumerate(stages, 1)
            for symbol in _windows(f"stage {number}", _window(group), ceil_div(side, group.downsampling))
        ]
        return (*pixel_symbols(stack, loads, *(group.downsampling for group in groups)), *found)

    patch = stack.image.patch_size
    return Found(body, (Factor("pixels of a patch", patch * patch), *fixed), layers, derived)


def _reduces(groups: tuple[LayerGroup, ...]) -> bool:
    return all(_is_merging(group) == bool(index % 2) for index, group in enumerate(groups))


def _is_merging(group: LayerGroup) -> bool:
    mixer = group.mixer
    return (
        isinstance(mixer, Block)
        and mixer.kind == DOWNSAMPLE
        and not any(isinstance(part, Convolution) for part in mixer.parts)
    )


def _is_windowed(group: LayerGroup) -> bool:
    mixer = group.mixer
    return (
        isinstance(mixer, Attention)
        and isinstance(group.feed_forward, DenseFeedForward)
        and mixer.window is not None
        and group.arrangement == "pre"
        and group.norm == LAYER_NORM
        and group.count % 2 == 0
        and [part.name for part in group.extra if isinstance(part, TensorPart)] == ["relative_position_bias_table"]
    )


def _window(group: LayerGroup) -> int:
    """Side of a full window, from the table of relative positions."""
    table = group.extra[0]
    assert isinstance(table, TensorPart)
    return (isqrt(table.shape[0]) + 1) // 2


def _side(stack: Stack) -> int:
    return (stack.image.image_size if stack.image is not None else None) or USUAL_SIDE


def _shapes(groups: tuple[LayerGroup, ...], stack: Stack, setting: Setting) -> tuple[StageShape, ...]:
    side = setting.image_size or _side(stack)
    shapes: list[StageShape] = []
    for index in range(0, len(groups), 2):
        group, last = groups[index], index == len(groups) - 1
        mixer, feed_forward = group.mixer, group.feed_forward
        assert isinstance(mixer, Attention)
        assert isinstance(feed_forward, DenseFeedForward)
        number = len(shapes) + 1
        own = ceil_div(side, group.downsampling)
        window = min(_window(group), own)
        blocks = WindowShape(
            name=f"stage {number}",
            pixels=resolution(group.downsampling),
            eager=setting.attention == "eager",
            single=own <= _window(group),
            pooled=last,
            aligned=window * window % ALIGNMENT == 0,
            qkv_bias=mixer.qkv_bias,
            attention_dropout=setting.training and mixer.dropout > 0,
            dropout=setting.training and group.dropout > 0,
            drops_paths=setting.training and group.drop_path > 0,
            activation=feed_forward.activation,
        )
        shapes.append(
            StageShape(
                kind=index,
                copies=min(group.count // 2, RECORDED),
                blocks=blocks,
                merging=None if last else index + 1,
                merged_pixels=resolution(group.downsampling * 2),
                merged_width=f"stage {number + 1} channels",
            )
        )
    return tuple(shapes)


def _fixed(name: str, group: LayerGroup) -> tuple[Factor, ...]:
    """The dimensions of a stage that the model fixes."""
    mixer, feed_forward, table = group.mixer, group.feed_forward, group.extra[0]
    assert isinstance(mixer, Attention)
    assert isinstance(feed_forward, DenseFeedForward)
    assert isinstance(table, TensorPart)
    width = group.width or 0
    return (
        Factor(f"{name} channels", width),
        Factor(f"{name} merged channels", 4 * width),
        Factor(f"{name} heads", mixer.heads),
        Factor(f"{name} head dim", mixer.head_dim),
        Factor(f"{name} ffn", feed_forward.size),
        Factor(f"{name} relative positions", table.shape[0]),
    )


def _windows(name: str, window: int, side: int) -> tuple[Factor, ...]:
    """The windows of a map of side `side`, which is padded to whole ones."""
    own = smaller(window, side)
    across = ceil_div(side, own)
    area = own * own
    return (
        Factor(f"{name} windows", across * across, f"({side} / {own}) squared"),
        Factor(f"{name} window area", area),
        Factor(f"{name} window area rounded up to 16", round_up(area, ALIGNMENT)),
        Factor(f"{name} window area rounded up to 32", round_up(area, 32), "rows of the kernel's logarithms"),
        Factor(f"{name} half of the pixels", ceil_div(side, 2) * side),
    )
