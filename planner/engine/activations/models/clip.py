"""CLIP: a tower of patches and a tower of text, together under a contrastive loss or each alone."""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear, token_ids
from planner.engine.activations.encoders import (
    EncoderLayer,
    EncoderShape,
    bidirectional_mask,
    encoder_shape,
    encoder_symbols,
    is_plain,
    make_encoder,
    pre_norm_layer,
    run_encoder,
)
from planner.engine.activations.functions import saves_output
from planner.engine.activations.heads import mean_loss
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
from planner.engine.activations.loss import cross_entropy
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import gathered, part
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import Place, WeightBook
from planner.engine.term import Factor
from planner.model.spec import LAYER_NORM, ModelSpec, NormPart, Stack, Table
from planner.model.spec import Linear as LinearPart
from planner.model.spec import Tensor as TensorPart

CLIP = "transformers 5.24, models/clip/modeling_clip.py"
TEXT, VISION = "text", "vision"
NORMS = ("norm1", "norm2")
JOINT = "joint width"


@dataclass(frozen=True, slots=True)
class TowerShape:
    """One tower."""

    layer: EncoderShape
    projected: bool
    patches: PatchShape | None
    """None: it reads text."""


@dataclass(frozen=True, slots=True)
class ClipBody:
    """The towers by name, the one of images first."""

    vision: TowerShape | None
    text: TowerShape | None

    def build(self, t: Tape, recipe: Recipe) -> "Clip":
        book = WeightBook(t, recipe)
        vision = _make_vision(book, self.vision) if self.vision is not None else None
        text = _make_text(book, self.text, kind=0 if vision is None else 1) if self.text is not None else None
        scale = book.tensor("logit_scale", ()) if vision is not None and text is not None else None
        return Clip(recipe, book, vision, text, scale)


@dataclass(slots=True)
class VisionTower:
    patches: PatchWeights
    first_norm: NormWeights
    layers: list[EncoderLayer]
    last_norm: NormWeights
    projection: Linear | None


@dataclass(slots=True)
class TextTower:
    tokens: Tensor
    positions: Tensor
    layers: list[EncoderLayer]
    last_norm: NormWeights
    projection: Linear | None


def _make_vision(book: WeightBook, shape: TowerShape) -> VisionTower:
    assert shape.patches is not None
    width = shape.layer.width
    return VisionTower(
        make_patches(book, shape.patches),
        book.norm("pre_layrnorm", (width,)),
        make_encoder(book, 0, shape.layer, NORMS),
        book.norm("post_layernorm", (width,)),
        _projection(book, "visual_projection", shape),
    )


def _make_text(book: WeightBook, shape: TowerShape, kind: int) -> TextTower:
    width = shape.layer.width
    return TextTower(
        book.tensor("token_embedding", ("text table rows", width)),
        book.tensor("position_embedding", ("text position rows", width)),
        make_encoder(book, kind, shape.layer, NORMS),
        book.norm("final_layer_norm", (width,)),
        _projection(book, "text_projection", shape),
    )


def _projection(book: WeightBook, name: str, shape: TowerShape) -> Linear | None:
    return book.linear(name, (shape.layer.width,), (JOINT,), bias=False) if shape.projected else None


@dataclass(slots=True)
class Clip:
    """The weights of the recorded model."""

    recipe: Recipe
    book: WeightBook
    vision: VisionTower | None
    text: TextTower | None
    scale: Tensor | None

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held: dict[str, Tensor] = {}
        if self.text is not None:
            held["ids"] = token_ids(t, "input ids")
            if self.recipe.passes_mask:
                held["mask"] = token_ids(t, "attention mask of the batch")
        if self.vision is not None:
            held["pixels"] = pixel_values(t, self.recipe.weight_dtype)
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        outputs = _run_towers(t, self, inputs)
        pooled = [output[1] for output in outputs]
        if self.scale is None:
            return mean_loss(t, pooled[0]), outputs if self.recipe.keeps_outputs else None
        similarity = _similarity(t, self.scale, *pooled)
        with t.module("loss", f"{CLIP}: image_text_contrastive_loss"):
            matches = t.new(("batch",), "int64", "labels of the diagonal")
            captions = cross_entropy(t, similarity, matches, smooth=False)
            images = cross_entropy(t, ops.view(t, similarity), matches, smooth=False)
            loss = ops.elementwise(t, ops.add(t, captions, images), "mean of both losses")
        return loss, outputs if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        outputs = _run_towers(t, self, inputs)
        if self.scale is None:
            return outputs
        return outputs, _similarity(t, self.scale, *(output[1] for output in outputs))

    def weights(self) -> list[Place]:
        return self.book.places


def _run_towers(t: Tape, model: Clip, inputs: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Last hidden states and pooled output of each tower, images first; the model holds both to its end."""
    outputs = [_run_vision(t, model.recipe, model.vision, inputs["pixels"])] if model.vision is not None else []
    if model.text is not None:
        outputs.append(_run_text(t, model.recipe, model.text, inputs["ids"]))
    return outputs


def _run_vision(t: Tape, recipe: Recipe, tower: VisionTower, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """`CLIPVisionModel.forward` and the projection."""
    with t.module("vision_model", f"{CLIP}: CLIPVisionModel.forward"):
        hidden_states = embed_patches(t, tower.patches, pixels)
        hidden_states = normalise(t, tower.first_norm, hidden_states, "pre_layrnorm")
        last = run_encoder(t, recipe, tower.layers, pre_norm_layer, hidden_states, None)
        del hidden_states
        pooled = normalise(t, tower.last_norm, part(t, last, "batch", last.dims[-1]), "post_layernorm")
    return last, pooled if tower.projection is None else linear(t, tower.projection, pooled)


def _run_text(t: Tape, recipe: Recipe, tower: TextTower, ids: Tensor) -> tuple[Tensor, Tensor]:
    """`CLIPTextModel.forward` and the projection; the state of the end-of-text token is taken out."""
    with t.module("text_model", f"{CLIP}: CLIPTextModel.forward"):
        hidden_states = _embed_text(t, tower, ids)
        mask = bidirectional_mask(t, tower.layers[0].shape, hidden_states)
        hidden_states = run_encoder(t, recipe, tower.layers, pre_norm_layer, hidden_states, mask)
        last = normalise(t, tower.last_norm, hidden_states, "final_layer_norm")
        del hidden_states
        pooled = gathered(t, last, "batch", last.dims[-1], label="state of the last token")
    return last, pooled if tower.projection is None else linear(t, tower.projection, pooled)


def _embed_text(t: Tape, tower: TextTower, ids: Tensor) -> Tensor:
    width = tower.tokens.dims[1]
    places = t.parameter((1, "sequence"), "int64", trainable=False)
    found = ops.embedding(t, tower.tokens, ("batch", "sequence", width), ids)
    return ops.add(t, found, ops.embedding(t, tower.positions, (1, "sequence", width), places), "sum of embeddings")


def _similarity(t: Tape, scale: Tensor, images: Tensor, texts: Tensor) -> Tensor:
    """Cosines of all pairs, scaled."""
    with t.module("similarity", f"{CLIP}: CLIPModel.forward"):
        images, texts = _unit(t, images), _unit(t, texts)
        dtype = t.autocast or images.dtype
        left, right = ops.to(t, texts, dtype), ops.to(t, images, dtype)
        cosines = ops.matmul(t, left, right, ("batch", "batch"), "cosines of all pairs")
        return ops.mul(t, cosines, saves_output(t, scale, "exp"), "scaled cosines")


def _unit(t: Tape, x: Tensor) -> Tensor:
    """Each vector over its length, which autocast computes in fp32."""
    squares = ops.square(t, ops.to(t, x, "fp32") if t.autocast else x)
    return ops.mul(t, x, ops.rsqrt(t, ops.mean(t, squares)), "unit vectors")


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A tower of patches with a class vector and a norm before its layers, a tower of causal text, or both."""
    towers = {stack.name: stack for stack in spec.stacks}
    if spec.head is not None or not set(towers) <= {VISION, TEXT} or not all(map(_is_tower, spec.stacks)):
        return None
    both = len(towers) == 2
    vision, text = towers.get(VISION), towers.get(TEXT)
    symbols: list[Factor] = [Factor(JOINT, _joint(spec))]
    layers: dict[str, int] = {}
    shapes: dict[str, TowerShape] = {}
    for kind, (name, stack) in enumerate((name, towers[name]) for name in (VISION, TEXT) if name in towers):
        prefix, width = ("text ", "text hidden") if name == TEXT and both else ("", "hidden")
        layer = encoder_shape(prefix, stack.groups[0], setting, width=width, causal=name == TEXT)
        layer = replace(layer, wide_softmax=True)
        patches = patch_shape(stack, width, table=True) if name == VISION else None
        shapes[name] = TowerShape(layer, _is_projected(stack), patches)
        symbols += [*encoder_symbols(layer, stack.groups[0], setting), Factor(width, stack.hidden_size)]
        layers[str(kind)] = stack.groups[0].count
    if text is not None:
        symbols += _text_symbols(text)
    if vision is not None:
        symbols += patch_symbols(vision)

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return image_symbols(vision, len(learned_tokens(vision)), loads) if vision is not None else ()

    return Found(ClipBody(shapes.get(VISION), shapes.get(TEXT)), tuple(symbols), layers, derived)


def _is_tower(stack: Stack) -> bool:
    """Whether the stack is one of CLIP's towers: SigLIP's has neither class vector nor first norm."""
    group = stack.groups[0]
    plain = len(stack.groups) == 1 and is_plain(group) and group.arrangement == "pre" and not group.extra
    if not (plain and group.norm == LAYER_NORM == stack.final_norm):
        return False
    if stack.name == TEXT:
        tables = [part for part in stack.before if isinstance(part, Table)]
        return len(tables) == len(stack.before) == 1 and not any(map(_has_bias, stack.after))
    names = {part.name for part in stack.before if isinstance(part, TensorPart | NormPart)}
    return stack.image is not None and {"class_embedding", "pre_layrnorm"} <= names


def _has_bias(piece: object) -> bool:
    return isinstance(piece, LinearPart) and piece.bias


def _is_projected(stack: Stack) -> bool:
    return any(isinstance(piece, LinearPart) for piece in stack.after)


def _joint(spec: ModelSpec) -> int:
    sizes = [piece.outputs for stack in spec.stacks for piece in stack.after if isinstance(piece, LinearPart)]
    return sizes[0] if sizes else spec.stack.hidden_size


def _text_symbols(stack: Stack) -> list[Factor]:
    table, tokens = stack.before[0], stack.embedding
    assert isinstance(table, Table)
    assert tokens is not None
    return [Factor("text table rows", tokens.vocab), Factor("text position rows", table.rows)]
