"""What stands between a vision tower and a language model: projectors, and putting features among the tokens.

Sources: transformers 5.24, `LlavaMultiModalProjector`, `PaliGemmaMultiModalProjector`, `Gemma3MultiModalProjector`,
and `get_placeholder_mask` with `masked_scatter` in `modeling_llava.py`; torch 2.13, `tools/autograd/derivatives.yaml`.
"""

from dataclasses import dataclass
from typing import Literal

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import Linear, cast_weight, linear
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_shape import part
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.model.spec import Linear as LinearPart
from planner.model.spec import Norm, NormPart, Stack
from planner.model.spec import Tensor as TensorPart

PROJECTORS = "transformers 5.24, multi_modal_projector of the model's class"
WIDTH = "vision hidden"
IMAGES = "images"
FEATURES = "tokens of an image"
Kind = Literal["two-layers", "one-layer", "pooled"]


@dataclass(frozen=True, slots=True)
class ProjectorShape:
    """Linear layers (LLaVA, PaliGemma), or patches averaged, normalised and multiplied by a matrix (Gemma 3)."""

    kind: Kind
    bias: bool = True


@dataclass(slots=True)
class Projector:
    shape: ProjectorShape
    linears: list[Linear]
    norm: NormWeights | None
    matrix: Tensor | None


def projector_shape(stack: Stack) -> ProjectorShape | None:
    """The projector among what follows the tower, if it is one of these."""
    linears = {piece.name: piece for piece in stack.after if isinstance(piece, LinearPart)}
    names = {piece.name for piece in stack.after if isinstance(piece, TensorPart | NormPart)}
    if "mm_input_projection_weight" in names:
        return ProjectorShape("pooled")
    if "image_newline" in names or "merging_layer" in linears:
        # Tiles that are put together, or patches that are merged first.
        return None
    two = {"linear_1", "linear_2"} <= set(linears)
    first = linears.get("linear_1" if two else "linear")
    if first is None or first.inputs != stack.hidden_size:
        return None
    return ProjectorShape("two-layers" if two else "one-layer", first.bias)


def make_projector(book: WeightBook, shape: ProjectorShape, norm: Norm) -> Projector:
    hidden: Dims = ("hidden",)
    if shape.kind == "pooled":
        return Projector(
            shape, [], book.norm("mm_soft_emb_norm", (WIDTH,), norm), book.tensor("projection", (WIDTH, *hidden))
        )
    first = book.linear("linear_1", (WIDTH,), hidden, shape.bias)
    if shape.kind == "one-layer":
        return Projector(shape, [first], None, None)
    return Projector(shape, [first, book.linear("linear_2", hidden, hidden, shape.bias)], None, None)


def project(t: Tape, projector: Projector, states: Tensor) -> Tensor:
    """The features of all images, (images, tokens of an image, hidden)."""
    with t.module("multi_modal_projector", PROJECTORS):
        dims: Dims = (IMAGES, FEATURES, WIDTH)
        if projector.norm is not None:
            return _pooled(t, projector, states, dims)
        if states.dims[1] != FEATURES:
            # The class token is cut off, so that the rest has to be copied before a product.
            states = ops.contiguous(t, part(t, states, *dims), label="patches, contiguous")
        features = linear(t, projector.linears[0], states)
        if len(projector.linears) == 1:
            return features
        return linear(t, projector.linears[1], ops.activation(t, features, "gelu"))


def _pooled(t: Tape, projector: Projector, states: Tensor, dims: Dims) -> Tensor:
    """`Gemma3MultiModalProjector.forward`."""
    assert projector.norm is not None
    assert projector.matrix is not None
    pixels = ops.contiguous(t, states, label="patches as pixels, contiguous")
    pooled = _average(t, pixels, dims)
    del pixels
    normed = ops.contiguous(t, normalise(t, projector.norm, pooled, "mm_soft_emb_norm"), label="tokens, contiguous")
    matrix = projector.matrix
    if t.autocast:
        normed, matrix = ops.to(t, normed, t.autocast, "input cast by autocast"), cast_weight(t, matrix)
    features = ops.matmul(t, normed, ops.view(t, matrix), (IMAGES, FEATURES, "hidden"), "projected tokens")
    return ops.to(t, features, states.dtype, "projected tokens in the tower's dtype")


def _average(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """`AvgPool2d`: keeps its input."""
    out = t.new(dims, x.dtype, "averaged patches")
    t.tick("averaged patches")
    whole = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        spread = t.new(whole, gradient.dtype, "gradient of every patch")
        t.tick("gradient of every patch")
        return [spread]

    record(t, "avg_pool2d", [x], [out], backward, [x])
    return out


def scatter_features(t: Tape, embedded: Tensor, features: Tensor) -> Tensor:
    """`masked_scatter`: a new sequence; the mask is kept."""
    with t.no_grad():
        mask = t.new((*embedded.dims[:2], 1), "bool", "mask of image tokens")
        t.tick("mask of image tokens")
    out = t.new(embedded.dims, embedded.dtype, "tokens with images")
    t.tick("tokens with images")
    dims, own = embedded.dims, features.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        made: Gradients = []
        for shape, need, name in zip((dims, own), needs, ("text", "features"), strict=True):
            made.append(t.new(shape, gradient.dtype, f"gradient of {name}") if need else None)
            if need:
                t.tick(f"gradient of {name}")
        return made

    record(t, "masked_scatter", [embedded, features], [out], backward, [mask])
    return out
