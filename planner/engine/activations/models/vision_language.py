"""Vision-language models: a language model that reads the features of a vision tower among its tokens.

Sources: transformers 5.24, `models/llava/modeling_llava.py: LlavaModel.forward`,
`models/qwen2_5_vl/modeling_qwen2_5_vl.py: Qwen2_5_VLModel.forward`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from planner.engine.activations.blocks import token_ids
from planner.engine.activations.decoders import attention_shape, attention_symbols
from planner.engine.activations.encoders import EncoderShape, encoder_shape, encoder_symbols, is_plain
from planner.engine.activations.families import candidates
from planner.engine.activations.images import image_symbols, learned_tokens, patch_shape, patch_symbols
from planner.engine.activations.plain_tower import UNREAD, VISION, PlainTowerShape
from planner.engine.activations.projectors import FEATURES, IMAGES, WIDTH, projector_shape, scatter_features
from planner.engine.activations.qwen_tower import QwenTowerShape
from planner.engine.activations.recipe import Body, Model, Recipe
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor, Number
from planner.model.spec import (
    LAYER_NORM,
    Attention,
    Convolution,
    DenseFeedForward,
    ImageInput,
    LayerGroup,
    ModelSpec,
    NormPart,
    Stack,
    Table,
)
from planner.model.spec import Tensor as TensorPart

CLASS_TOKEN = {"class_embedding", "pre_layrnorm"}
ONE_LAYER_CAST = "Masks that autocast copies for a language model behind one projecting layer are not all counted."
HEAD_CAST = "Autocast's copies of the pooling head's weights, whose output nobody reads, are not counted."
POOLED_REENTRANT = "Reentrant checkpointing of a tower whose patches are averaged is counted roughly."
FRAMES_EAGER = "Eager attention in fp32 over patches that span frames is counted roughly."
FRAMES = 3
"""Dimensions of a patch that spans frames."""


class Tower(Protocol):
    """The weights of a recorded tower with what projects its output."""

    def pixels(self, t: Tape) -> Tensor: ...

    def features(self, t: Tape, pixels: Tensor) -> tuple[Tensor, list[Tensor]]: ...


@dataclass(frozen=True, slots=True)
class VisionLanguageBody:
    """A body of the language model, and the tower whose features it reads."""

    language: Body
    tower: PlainTowerShape | QwenTowerShape
    token_types: bool
    """The batch says which tokens are of images."""

    def build(self, t: Tape, recipe: Recipe) -> "VisionLanguage":
        book = WeightBook(t, recipe)
        language = self.language.build(t, recipe)
        return VisionLanguage(self, recipe, language, book, self.tower.build(book, recipe))


@dataclass(slots=True)
class VisionLanguage:
    """The weights of the recorded model."""

    body: VisionLanguageBody
    recipe: Recipe
    language: Model
    book: WeightBook
    tower: Tower
    held: list[Tensor] = field(default_factory=list)
    """What the outputs of the whole model refer to."""

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = self.language.inputs(t) | {"pixels": self.tower.pixels(t)}
        return held | ({"types": token_ids(t, "types of tokens")} if self.body.token_types else {})

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        self._look_at(t, inputs["pixels"])
        loss, kept = self.language.train(t, inputs)
        if self.recipe.keeps_outputs:
            kept = (kept, *self.held)
        self._look_away(t)
        return loss, kept

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        if not self.recipe.cache_filled:
            self._look_at(t, inputs["pixels"])
        outputs = (self.language.infer(t, inputs), *self.held)
        self._look_away(t)
        return outputs

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        yield from self.language.weights()
        yield from self.book.places

    def image_weights(self) -> list[Tensor]:
        """Those of the tower and its projector."""
        return [weight for _, _, weight in self.book.places]

    def _look_at(self, t: Tape, pixels: Tensor) -> None:
        def with_features(t: Tape, embedded: Tensor) -> Tensor:
            features, held = self.tower.features(t, pixels)
            self.held += held
            return scatter_features(t, embedded, features)

        t.images = with_features
        # Qwen-VL counts rows and columns of each image (`get_rope_index`).
        t.own_positions = isinstance(self.body.tower, QwenTowerShape)

    def _look_away(self, t: Tape) -> None:
        t.images = None
        self.held.clear()


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A language model whose family is told, beside a tower that is."""
    if len(spec.stacks) != 2 or spec.stacks[1].image is None or setting.tensor_parallel > 1:
        return None
    stack = spec.stacks[1]
    assert stack.image is not None
    alone = replace(spec, stacks=spec.stacks[:1], task="causal-lm")
    masked = replace(setting, needs_mask=setting.needs_mask or stack.image.mutual)
    unmasked = replace(setting, needs_mask=False)
    tower = _plain(spec, stack, unmasked) or _qwen(stack, unmasked)
    language = next((answer for find in candidates() if (answer := find(alone, masked)) is not None), None)
    if tower is None or language is None:
        return None
    shape, symbols, layers = tower
    body = VisionLanguageBody(language.body, shape, token_types=stack.image.mutual)

    def derived(loads: Loads) -> tuple[Factor, ...]:
        own = language.derived(loads) if language.derived is not None else ()
        return (*own, *_image_dims(stack, loads))

    widths = (Factor(WIDTH, stack.hidden_size), *patch_symbols(stack))
    return Found(
        body,
        (*language.symbols, *symbols, *widths),
        {**language.layers, **layers},
        derived,
        _doubts(stack, body, setting),
    )


def _doubts(stack: Stack, body: VisionLanguageBody, setting: Setting) -> Callable[[Recipe], tuple[str, ...]]:
    """Where traces of the classes hold more than what is told."""
    tower = body.tower
    unread_head = any(piece.name == "probe" for piece in stack.after if isinstance(piece, TensorPart))
    kind = tower.projector.kind if isinstance(tower, PlainTowerShape) else None

    def doubts(recipe: Recipe) -> tuple[str, ...]:
        known = (
            (HEAD_CAST, unread_head and recipe.autocast is not None),
            (ONE_LAYER_CAST, kind == "one-layer" and recipe.autocast is not None),
            (POOLED_REENTRANT, kind == "pooled" and recipe.checkpointing == "reentrant"),
            (FRAMES_EAGER, kind is None and recipe.weight_dtype == "fp32" and setting.attention == "eager"),
        )
        return tuple(text for text, holds in known if holds)

    return doubts


FoundTower = tuple[PlainTowerShape | QwenTowerShape, tuple[Factor, ...], dict[str, int]]


def _plain(spec: ModelSpec, stack: Stack, setting: Setting) -> FoundTower | None:
    """One kind of plain layer that normalises first, over patches of a convolution with a table of positions."""
    image, shape = stack.image, projector_shape(stack)
    if image is None or shape is None or not _is_plain_tower(stack):
        return None
    group = replace(stack.groups[0], count=stack.groups[0].count - image.unread_layers)
    layer = encoder_shape("vision ", group, setting, width=WIDTH, masks=False)
    layer = replace(layer, wide_softmax=True)
    tower = PlainTowerShape(
        patch_shape(stack, WIDTH, table=True),
        layer,
        _unread(layer, image.unread_layers),
        first_norm=any(isinstance(piece, NormPart) for piece in stack.before),
        last_norm=shape.kind != "two-layers",
        projector=shape,
        language_norm=spec.stack.groups[0].norm,
    )
    unread = {UNREAD: image.unread_layers} if image.unread_layers else {}
    return tower, encoder_symbols(layer, group, setting), {VISION: group.count, **unread}


def _unread(layer: EncoderShape, count: int) -> EncoderShape | None:
    return replace(layer, layer=replace(layer.layer, copies=min(count, RECORDED))) if count else None


def _is_plain_tower(stack: Stack) -> bool:
    group = stack.groups[0]
    names = {piece.name for piece in stack.before if isinstance(piece, TensorPart | NormPart)}
    kinds = (Convolution, Table, TensorPart, NormPart)
    return (
        len(stack.groups) == 1
        and is_plain(group)
        and group.arrangement == "pre"
        and group.norm == LAYER_NORM
        and not group.extra
        and all(isinstance(piece, kinds) for piece in stack.before)
        and any(isinstance(piece, Table) for piece in stack.before)
        and names in (set(), CLASS_TOKEN)
    )


def _qwen(stack: Stack, setting: Setting) -> FoundTower | None:
    """Layers of fused, rotated attention over patches that span frames; the additions of DeepStack are not told."""
    if not (_spans_frames(stack) and all(_is_qwen_layer(group) for group in stack.groups)):
        return None
    layers: list[tuple[str, LayerGroup]] = []
    shapes = []
    symbols: list[Factor] = []
    for index, group in enumerate(stack.groups):
        kind = f"{VISION} {index + 1}"
        shape = replace(attention_shape(0, group, replace(setting, longest_sequence=0)), name=f"{kind} ")
        shapes.append((kind, shape))
        symbols += attention_symbols(shape, group, setting)
        layers.append((kind, group))
    windows = any(isinstance(group.mixer, Attention) and group.mixer.window for group in stack.groups)
    if windows and setting.attention == "eager":
        # Scores of one window at a time, whose number depends on each image's sides.
        return None
    tower = QwenTowerShape(tuple(shapes), stack.groups[0].norm, sorted=windows)
    return tower, tuple(symbols), {kind: group.count for kind, group in layers}


def _spans_frames(stack: Stack) -> bool:
    if len(stack.before) != 1:
        return False
    projection = stack.before[0]
    return isinstance(projection, Convolution) and len(projection.kernel) == FRAMES


def _is_qwen_layer(group: LayerGroup) -> bool:
    mixer, network = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and mixer.fused
        and isinstance(network, DenseFeedForward)
        and not network.fused
        and group.arrangement == "pre"
        and not group.extra
    )


def _image_dims(stack: Stack, loads: Loads) -> tuple[Factor, ...]:
    """How many images a batch holds, their patches, and how many tokens of the language model each becomes."""
    image = stack.image
    assert image is not None
    merge = image.merge_size**2
    side = image.image_size if loads.image_size is None else loads.image_size
    if side is None:
        # Images of any size, told only by their tokens: one of them in each sequence.
        tokens = loads.image_tokens or 0
        counts, dims = (loads.batch, tokens), _patch_dims(tokens * merge, image)
    else:
        dims = image_symbols(stack, len(learned_tokens(stack)), loads)
        patches = (side // image.patch_size) * (side // image.patch_size)
        each = patches // merge if image.tokens_per_image is None else image.tokens_per_image
        per_sequence = 1 if loads.image_tokens is None else -(-loads.image_tokens // each)
        counts = (loads.batch * per_sequence, each)
    return (
        *dims,
        Factor(IMAGES, counts[0], "images of all sequences"),
        Factor(FEATURES, counts[1]),
        Factor("patches of a token", merge),
        Factor("frames", image.temporal_patch_size),
    )


def _patch_dims(patches: Number, image: ImageInput) -> tuple[Factor, ...]:
    return (
        Factor("patches", patches),
        Factor("patches rounded up to 32", (patches + 31) // 32 * 32),
        Factor("pixels", patches * image.patch_size**2),
    )
