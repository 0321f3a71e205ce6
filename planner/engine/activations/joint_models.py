"""What transformers with joint attention have around their blocks: embeddings of time and text, and their sizes."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.joint_blocks import IMAGE_TOKENS, JOINT_TOKENS, TEXT_TOKENS, WIDTH
from planner.engine.activations.kernels import kernel
from planner.engine.activations.latent_images import latent_symbols, shrinking, side_of
from planner.engine.activations.setting import Loads, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import ModelSpec

EMBEDDINGS = "diffusers 0.42, models/embeddings.py: CombinedTimestepTextProjEmbeddings.forward"
CONTEXT, PACKED, TIME_CHANNELS = "context width", "channels of a patch", "time channels"
POOLED = "pooled width"


@dataclass(slots=True)
class Embedders:
    """Two linear layers for each of time, guidance and pooled text, and the projection of the prompt."""

    pairs: dict[str, tuple[Linear, Linear]]
    context: Linear


def make_embedders(book: WeightBook, names: tuple[str, ...], context: str = WIDTH) -> Embedders:
    pairs = {
        name: (
            book.linear(f"{name}.linear_1", (POOLED if name == "text_embedder" else TIME_CHANNELS,), (WIDTH,)),
            book.linear(f"{name}.linear_2", (WIDTH,), (WIDTH,)),
        )
        for name in names
    }
    return Embedders(pairs, book.linear("context_embedder", (CONTEXT,), (context,)))


def conditioning(t: Tape, embedders: Embedders, pooled: Tensor, dtype: str) -> Tensor:
    """The sum of the embeddings of time, of guidance where there is one, and of the pooled text."""
    with t.module("time_text_embed", EMBEDDINGS):
        total: Tensor | None = None
        for name, layers in embedders.pairs.items():
            embedded = _embedded(t, layers, pooled if name == "text_embedder" else _waves(t, pooled.dtype))
            total = embedded if total is None else ops.add(t, total, embedded, "sum of embeddings")
        assert total is not None
        return total


def _waves(t: Tape, dtype: str) -> Tensor:
    """`get_timestep_embedding`."""
    waves = t.new(("batch", TIME_CHANNELS), "fp32", "sines and cosines of the time")
    t.tick("time_proj")
    return ops.to(t, waves, dtype)


def _embedded(t: Tape, layers: tuple[Linear, Linear], x: Tensor) -> Tensor:
    inner = linear(t, layers[0], x)
    inner = ops.activation(t, inner, "silu")
    return linear(t, layers[1], inner)


def attention_of_blocks(setting: Setting, head_dim: int) -> LayerShape:
    """Attention of image and text over each other, of all heads, without a mask."""
    chosen = kernel(
        setting.attention, setting.compute_dtype, masked=False, grouped_queries=False, single_kv_head=False,
        head_dim=head_dim,
    )  # fmt: skip
    return LayerShape(
        name="", copies=1, grouped_queries=False, kernel=chosen, masked=False, qkv_bias=True, output_bias=True,
        qk_norm=False, attention_dropout=False, gated=False, activation="gelu", mlp_bias=True,
    )  # fmt: skip


def joint_symbols(spec: ModelSpec, loads: Loads, *, patch: int, channels: int, text: int) -> Iterator[Factor]:
    """Tokens of the image, of the prompt and of both. `patch`: sides of the square of the latent that is a token."""
    yield from latent_symbols(spec, loads, (1,), channels)
    side, by = side_of(spec, loads).value, shrinking(spec)
    tokens = (side // (patch * by)) * (side // (patch * by))
    joint = tokens + text
    yield Factor(IMAGE_TOKENS, tokens, f"({side} / {patch * by}) squared")
    yield Factor(TEXT_TOKENS, text)
    yield Factor(JOINT_TOKENS, joint, f"{tokens} of the image and {text} of the prompt")
    yield Factor(f"{JOINT_TOKENS} rounded up to 32", (joint + 31) // 32 * 32, "rows of logarithms")
    yield Factor(f"{IMAGE_TOKENS} rounded up to 32", (tokens + 31) // 32 * 32, "rows of logarithms")
