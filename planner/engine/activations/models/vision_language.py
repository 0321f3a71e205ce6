"""Vision-language models: a language model that reads the features of a CLIP or SigLIP tower among its tokens.

Sources: transformers 5.24, `models/llava/modeling_llava.py: LlavaModel.forward`, `get_image_features`, and the same of
PaliGemma and Gemma 3.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from planner.engine.activations.blocks import token_ids
from planner.engine.activations.encoders import (
    EncoderLayer,
    EncoderShape,
    encoder_shape,
    encoder_symbols,
    is_plain,
    make_encoder,
    pre_norm_layer,
    run_encoder,
)
from planner.engine.activations.images import (
    PatchShape,
    PatchWeights,
    embed_patches,
    image_symbols,
    learned_tokens,
    make_patches,
    patch_shape,
    patch_symbols,
    pixel_values,
)
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import cat
from planner.engine.activations.projectors import (
    FEATURES,
    IMAGES,
    WIDTH,
    Projector,
    ProjectorShape,
    make_projector,
    project,
    projector_shape,
    scatter_features,
)
from planner.engine.activations.recipe import Body, Model, Recipe
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import LAYER_NORM, Convolution, ModelSpec, Norm, NormPart, Stack, Table
from planner.model.spec import Tensor as TensorPart

LLAVA = "transformers 5.24, models/llava/modeling_llava.py: LlavaModel.forward"
VISION = "vision"
"""Kind of the tower's layers."""
UNREAD = "vision, unread"
NORMS = ("norm1", "norm2")
CLASS_TOKEN = {"class_embedding", "pre_layrnorm"}


@dataclass(frozen=True, slots=True)
class VisionLanguageBody:
    """A body of the language model, and the tower and projector whose features it reads."""

    language: Body
    patches: PatchShape
    layer: EncoderShape
    first_norm: bool
    last_norm: bool
    projector: ProjectorShape
    language_norm: Norm
    unread: EncoderShape | None
    """Layers at the end of the tower that are run, but whose output nobody reads."""
    token_types: bool
    """The batch says which tokens are of images."""

    def build(self, t: Tape, recipe: Recipe) -> "VisionLanguage":
        book = WeightBook(t, recipe)
        return VisionLanguage(
            self,
            recipe,
            self.language.build(t, recipe),
            book,
            make_patches(book, self.patches),
            book.norm("pre_layrnorm", (WIDTH,)) if self.first_norm else None,
            make_encoder(book, VISION, self.layer, NORMS),
            make_encoder(book, UNREAD, self.unread, NORMS) if self.unread is not None else [],
            book.norm("post_layernorm", (WIDTH,)) if self.last_norm else None,
            make_projector(book, self.projector, self.language_norm),
        )


@dataclass(slots=True)
class VisionLanguage:
    """The weights of the recorded model."""

    body: VisionLanguageBody
    recipe: Recipe
    language: Model
    book: WeightBook
    patches: PatchWeights
    first_norm: NormWeights | None
    layers: list[EncoderLayer]
    unread: list[EncoderLayer]
    last_norm: NormWeights | None
    projector: Projector
    held: list[Tensor] = field(default_factory=list)
    """What the outputs of the whole model refer to."""

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = self.language.inputs(t) | {"pixels": pixel_values(t, self.recipe.weight_dtype, IMAGES)}
        return held | ({"types": token_ids(t, "types of tokens")} if self.body.token_types else {})

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        self._look_at(t, inputs)
        loss, kept = self.language.train(t, inputs)
        if self.recipe.keeps_outputs:
            kept = (kept, *self.held)
        t.images = None
        self.held.clear()
        return loss, kept

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        self._look_at(t, inputs)
        outputs = (self.language.infer(t, inputs), *self.held)
        t.images = None
        self.held.clear()
        return outputs

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        yield from self.language.weights()
        yield from self.book.places

    def _look_at(self, t: Tape, inputs: dict[str, Tensor]) -> None:
        pixels = inputs["pixels"]

        def with_features(t: Tape, embedded: Tensor) -> Tensor:
            return scatter_features(t, embedded, self._features(t, pixels))

        if not self.recipe.cache_filled:
            t.images = with_features

    def _features(self, t: Tape, pixels: Tensor) -> Tensor:
        """`get_image_features`, and the features of all images in one tensor."""
        with t.module("vision_tower", LLAVA):
            hidden_states = embed_patches(t, self.patches, pixels)
            if self.first_norm is not None:
                hidden_states = normalise(t, self.first_norm, hidden_states, "pre_layrnorm")
            states = run_encoder(t, self.recipe, self.layers, pre_norm_layer, hidden_states, None)
            del hidden_states
            if self.unread:
                self.held.append(run_encoder(t, self.recipe, self.unread, pre_norm_layer, states, None))
            if self.last_norm is not None:
                states = normalise(t, self.last_norm, states, "post_layernorm")
        features = project(t, self.projector, states)
        self.held += [states, features]
        if self.body.projector.kind == "two-layers":
            features = cat(t, [features], features.dims, "features of all images")
            self.held.append(features)
        return features


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A language model whose family is told, beside a tower of plain layers and a projector of few linear layers."""
    if len(spec.stacks) != 2 or not _is_tower(spec.stacks[1]) or setting.tensor_parallel > 1:
        return None
    stack = spec.stacks[1]
    image, shape = stack.image, projector_shape(stack)
    language = _language(spec, replace(setting, needs_mask=setting.needs_mask or (image is not None and image.mutual)))
    if image is None or shape is None or language is None:
        return None
    group = stack.groups[0]
    group = replace(group, count=group.count - image.unread_layers)
    layer = encoder_shape("vision ", group, replace(setting, needs_mask=False), width=WIDTH, masks=False)
    layer = replace(layer, wide_softmax=True)
    names = {piece.name for piece in stack.before if isinstance(piece, TensorPart | NormPart)}
    unread = {UNREAD: image.unread_layers} if image.unread_layers else {}
    body = VisionLanguageBody(
        language.body,
        patch_shape(stack, WIDTH, table=True),
        layer,
        first_norm=bool(CLASS_TOKEN & names),
        last_norm=shape.kind != "two-layers",
        projector=shape,
        language_norm=spec.stack.groups[0].norm,
        unread=_unread(layer, image.unread_layers) if unread else None,
        token_types=image.mutual,
    )
    tokens = len(learned_tokens(stack))
    symbols = (
        *language.symbols,
        *encoder_symbols(layer, group, setting),
        *patch_symbols(stack),
        Factor(WIDTH, stack.hidden_size),
    )

    def derived(loads: Loads) -> tuple[Factor, ...]:
        own = language.derived(loads) if language.derived is not None else ()
        return (*own, *image_symbols(stack, tokens, loads), *_image_counts(stack, loads))

    return Found(body, symbols, {**language.layers, VISION: group.count, **unread}, derived)


def _unread(layer: EncoderShape, count: int) -> EncoderShape:
    return replace(layer, layer=replace(layer.layer, copies=min(count, RECORDED)))


def _image_counts(stack: Stack, loads: Loads) -> tuple[Factor, ...]:
    """How many images a batch holds, and how many tokens of the language model each of them becomes."""
    image = stack.image
    assert image is not None
    side = (image.image_size or 1) if loads.image_size is None else loads.image_size
    patches = (side // image.patch_size) * (side // image.patch_size)
    each = patches if image.tokens_per_image is None else image.tokens_per_image
    per_sequence = 1 if loads.image_tokens is None else -(-loads.image_tokens // each)
    return (
        Factor(IMAGES, loads.batch * per_sequence, f"{loads.batch} sequences with {per_sequence} each"),
        Factor(FEATURES, each),
    )


def _language(spec: ModelSpec, setting: Setting) -> Found | None:
    """The language model alone, as its own family tells it."""
    from planner.engine.activations.families import candidates

    alone = replace(spec, stacks=spec.stacks[:1], task="causal-lm")
    return next((answer for find in candidates() if (answer := find(alone, setting)) is not None), None)


def _is_tower(stack: Stack) -> bool:
    """One kind of plain layer that normalises first, over patches of a convolution with a table of positions."""
    if len(stack.groups) != 1 or stack.image is None or stack.name != VISION:
        return False
    group = stack.groups[0]
    names = {piece.name for piece in stack.before if isinstance(piece, TensorPart | NormPart)}
    kinds = (Convolution, Table, TensorPart, NormPart)
    return (
        is_plain(group)
        and group.arrangement == "pre"
        and group.norm == LAYER_NORM
        and not group.extra
        and all(isinstance(piece, kinds) for piece in stack.before)
        and any(isinstance(piece, Table) for piece in stack.before)
        and names in (set(), CLASS_TOKEN)
    )
