"""Images that become tokens: patches through a convolution, class tokens, learned positions."""

from dataclasses import dataclass, field

from planner.engine.activations import ops
from planner.engine.activations.ops_conv import convolution
from planner.engine.activations.ops_shape import cat, part
from planner.engine.activations.setting import Loads
from planner.engine.activations.tape import Dim, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import Convolution, Stack
from planner.model.spec import Tensor as TensorPart

USUAL_SIDE = 224
IMAGE_TOKENS = "image tokens"
PLACED = "tokens with positions"


@dataclass(frozen=True, slots=True)
class PatchShape:
    """How an image becomes a sequence."""

    width: Dim
    bias: bool
    tokens: tuple[str, ...]
    """Names of the learned tokens before the patches."""
    unused: tuple[str, ...] = ()
    """Learned vectors that a plain forward pass does not read."""
    table: bool = False
    """Positions are looked up in a table, not held as one tensor."""
    registers: bool = False
    """Learned registers, without positions, are put between the class token and the patches (DINOv2)."""


@dataclass(slots=True)
class PatchWeights:
    shape: PatchShape
    tokens: list[Tensor]
    weight: Tensor
    bias: Tensor | None
    positions: Tensor
    registers: Tensor | None = None
    unused: list[Tensor] = field(default_factory=list)


def make_patches(book: WeightBook, shape: PatchShape) -> PatchWeights:
    width = shape.width
    tokens = [book.tensor(name, (1, 1, width)) for name in shape.tokens]
    weight = book.tensor("patch projection", (width, "channels", "pixels of a patch"))
    bias = book.tensor("patch projection", (width,)) if shape.bias else None
    positions = book.tensor("position embeddings", (1, PLACED if shape.registers else IMAGE_TOKENS, width))
    registers = book.tensor("registers", (1, "registers", width)) if shape.registers else None
    unused = [book.tensor(name, (1, width)) for name in shape.unused]
    return PatchWeights(shape, tokens, weight, bias, positions, registers, unused)


def embed_patches(t: Tape, weights: PatchWeights, pixels: Tensor) -> Tensor:
    """`ViTEmbeddings.forward`, `CLIPVisionEmbeddings.forward`, without dropout."""
    width, batch = weights.shape.width, pixels.dims[0]
    with t.module("embeddings"):
        pixels = ops.to(t, pixels, weights.weight.dtype)
        made = convolution(t, pixels, weights.weight, weights.bias, (batch, width, "patches"), "patch_embeddings")
        embeddings = ops.view(t, made, batch, "patches", width)
        del made
        placed = IMAGE_TOKENS if weights.registers is None else PLACED
        if weights.tokens:
            tokens = [ops.view(t, token, batch, 1, width) for token in weights.tokens]
            embeddings = cat(t, [*tokens, embeddings], (batch, placed, width), "tokens and patches")
        places = weights.positions
        if weights.shape.table:
            indices = t.parameter((1, IMAGE_TOKENS), "int64", trainable=False)
            places = ops.embedding(t, places, (1, IMAGE_TOKENS, width), indices)
        embeddings = ops.add(t, embeddings, places, "sum of embeddings")
        if weights.registers is not None:
            first, rest = part(t, embeddings, batch, 1, width), part(t, embeddings, batch, "patches", width)
            registers = ops.view(t, weights.registers, batch, "registers", width)
            embeddings = cat(t, [first, registers, rest], (batch, IMAGE_TOKENS, width), "tokens with registers")
        return embeddings


def pixel_values(t: Tape, dtype: str, batch: Dim = "batch") -> Tensor:
    return t.new((batch, "channels", "pixels"), dtype, "pixel values")


def patch_symbols(stack: Stack) -> tuple[Factor, ...]:
    """The dimensions that the model fixes."""
    image = stack.image
    assert image is not None
    return (Factor("channels", image.channels), Factor("pixels of a patch", image.patch_size**2))


def image_symbols(stack: Stack, tokens: int, loads: Loads) -> tuple[Factor, ...]:
    """The dimensions that follow from the size of an image; `tokens` stand before its patches."""
    image = stack.image
    assert image is not None
    side = (image.image_size or USUAL_SIDE) if loads.image_size is None else loads.image_size
    patches = (side // image.patch_size) * (side // image.patch_size)
    registers = registers_of(stack)
    placed = Factor(PLACED, patches + tokens, f"{patches} patches and {tokens} learned tokens")
    tokens = tokens + registers
    return (
        placed,
        Factor("registers", registers),
        Factor("pixels", side * side, f"{side} x {side}"),
        Factor("patches", patches, f"({side} / {image.patch_size}) squared"),
        Factor("patches rounded up to 32", (patches + 31) // 32 * 32, "rows of the kernel's logarithms"),
        Factor(IMAGE_TOKENS, patches + tokens, f"{patches} patches and {tokens} learned tokens"),
        Factor(
            f"{IMAGE_TOKENS} rounded up to 32", (patches + tokens + 31) // 32 * 32, "rows of the kernel's logarithms"
        ),
    )


def learned_tokens(stack: Stack) -> tuple[str, ...]:
    """Learned vectors that stand before the patches: class, distillation and register tokens."""
    return tuple(
        part.name
        for part in stack.before
        if isinstance(part, TensorPart)
        and part.name.endswith(("token", "class_embedding"))
        and part.name != "mask_token"
    )


def registers_of(stack: Stack) -> int:
    """How many registers stand between the class token and the patches."""
    return next(
        (part.shape[1] for part in stack.before if isinstance(part, TensorPart) and part.name == "register_tokens"), 0
    )


def patch_shape(stack: Stack, width: Dim, *, table: bool) -> PatchShape:
    """`table`: whether the positions stand in an embedding table."""
    projection = next(part for part in stack.before if isinstance(part, Convolution))
    unused = tuple(part.name for part in stack.before if isinstance(part, TensorPart) and part.name == "mask_token")
    return PatchShape(width, projection.bias, learned_tokens(stack), unused, table, registers_of(stack) > 0)
