"""Encoders of text and images: from a stack's structure to what is recorded of it, and the attention they share."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import Linear, layer_dims, linear, slots_of
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import attention_shape, attention_symbols
from planner.engine.activations.eager import eager_attention
from planner.engine.activations.functions import activate, drop_path
from planner.engine.activations.kernels import kernel
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import reshape
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, Norm

LayerForward = Callable[[Tape, "EncoderLayer", Tensor, Tensor | None], Tensor]
"""One layer: its input and the mask."""

MASKS = "transformers 5.24, masking_utils.py: create_bidirectional_mask"


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """One kind of layer of an encoder, or of a decoder that looks at one."""

    layer: LayerShape
    width: Dim
    norm: Norm
    key_bias: bool
    dropout: bool
    """Dropout after attention and after the feed-forward, in training."""
    drops_paths: bool = False
    """Stochastic depth after both, in training."""
    mixer_drops: bool = True
    """False: no dropout after attention (DistilBERT)."""
    relative: bool = False
    """A bias of relative positions, in the place of a mask, is added over the scores (MPNet)."""
    wide_softmax: bool = False
    """Eager attention computes its softmax in fp32 (CLIP, ViT)."""


@dataclass(slots=True)
class EncoderLayer:
    """The weights of one recorded layer and the slot it stands for."""

    slot: str
    shape: EncoderShape
    linears: dict[str, Linear]
    norms: dict[str, NormWeights]
    tensors: dict[str, Tensor]


def encoder_shape(
    name: str,
    group: LayerGroup,
    setting: Setting,
    *,
    width: Dim = "hidden",
    implementation: str | None = None,
    causal: bool = False,
    masks: bool = True,
    window: int | None = None,
) -> EncoderShape:
    """The shape of a kind of layer that looks at all tokens; `name` stands before the names of its dimensions.

    A mask is passed on only where it hides something, in eager mode too. `causal`: eager mode hides later tokens;
    `masks`: the batch's mask reaches this attention; `window`: how far it looks, which a longer sequence's mask says.
    """
    mixer = group.mixer
    assert isinstance(mixer, Attention)
    chosen = implementation or setting.attention
    beyond = window is not None and setting.longest_sequence > window and chosen != "flash_attention_2"
    masked = (masks and setting.needs_mask and setting.passes_mask) or (causal and chosen == "eager") or beyond
    picked = kernel(
        chosen,
        setting.compute_dtype,
        masked=masked,
        grouped_queries=False,
        single_kv_head=False,
        head_dim=mixer.head_dim,
    )
    shape = replace(attention_shape(0, group, setting), name=name, masked=masked, kernel=picked)
    key_bias = mixer.qkv_bias if mixer.key_bias is None else mixer.key_bias
    training = setting.training
    return EncoderShape(
        shape,
        width,
        group.norm,
        key_bias,
        training and group.dropout > 0,
        training and group.drop_path > 0,
        group.mixer_drops,
    )


def encoder_symbols(shape: EncoderShape, group: LayerGroup, setting: Setting) -> tuple[Factor, ...]:
    return attention_symbols(shape.layer, group, setting)


def is_plain(group: LayerGroup) -> bool:
    """Attention of equal heads without rotation beside a dense feed-forward in two steps."""
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and mixer.heads == mixer.kv_heads
        and mixer.rotary_share == 0
        and not (mixer.fused or feed_forward.gated or mixer.window or mixer.qk_norm)
        and group.weight_sets is None
    )


def make_attention(
    book: WeightBook, shape: EncoderShape, prefix: str = "", width: Dim | None = None
) -> dict[str, Linear]:
    """The four projections; `width`: of the states that keys and values are made of."""
    layer = shape.layer
    inner = (layer_dims(layer, "heads"), layer_dims(layer, "head dim"))
    own, other = (shape.width,), (shape.width if width is None else width,)
    return {
        f"{prefix}q_proj": book.linear("q_proj", own, inner, layer.qkv_bias),
        f"{prefix}k_proj": book.linear("k_proj", other, inner, shape.key_bias),
        f"{prefix}v_proj": book.linear("v_proj", other, inner, layer.qkv_bias),
        f"{prefix}o_proj": book.linear("o_proj", inner, own, layer.output_bias),
    }


def make_feed_forward(book: WeightBook, shape: EncoderShape) -> dict[str, Linear]:
    ffn = (layer_dims(shape.layer, "ffn"),)
    gate = {"gate_proj": book.linear("gate_proj", (shape.width,), ffn, shape.layer.mlp_bias)}
    return (gate if shape.layer.gated else {}) | {
        "up_proj": book.linear("up_proj", (shape.width,), ffn, shape.layer.mlp_bias),
        "down_proj": book.linear("down_proj", ffn, (shape.width,), shape.layer.mlp_bias),
    }


def make_encoder(
    book: WeightBook,
    kind: str | int,
    shape: EncoderShape,
    norms: tuple[str, ...],
    tensors: tuple[str, ...] = (),
    *,
    shared: bool = False,
) -> list[EncoderLayer]:
    """The recorded layers of one kind: attention, feed-forward, norms and loose vectors of the layer's width.

    `shared`: all layers have the same weights (ALBERT).
    """
    if shared:
        linears = make_attention(book, shape) | make_feed_forward(book, shape)
        own = {name: book.norm(name, (shape.width,), shape.norm) for name in norms}
        return [EncoderLayer(slot, shape, linears, own, {}) for slot in slots_of(kind, shape.layer.copies)]
    made: list[EncoderLayer] = []
    for slot in slots_of(kind, shape.layer.copies):
        with book.layer(slot):
            linears = make_attention(book, shape) | make_feed_forward(book, shape)
            made.append(
                EncoderLayer(
                    slot,
                    shape,
                    linears,
                    {name: book.norm(name, (shape.width,), shape.norm) for name in norms},
                    {name: book.tensor(name, (shape.width,)) for name in tensors},
                )
            )
    return made


def attention(
    t: Tape,
    shape: EncoderShape,
    linears: dict[str, Linear],
    hidden_states: Tensor,
    mask: Tensor | None,
    *,
    prefix: str = "",
    key_value_states: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Projections and attention; the output is still to be projected. Eager mode also gives its weights."""
    states = hidden_states if key_value_states is None else key_value_states
    layer = shape.layer
    inner = layer_dims(layer, "heads"), layer_dims(layer, "head dim")

    def project(role: str, x: Tensor) -> Tensor:
        projected = linear(t, linears[prefix + role], x)
        if layer.kernel == "eager":
            return reshape(t, projected, *x.dims[:2], *inner)
        return ops.view(t, projected, *x.dims[:2], *inner)

    query = project("q_proj", hidden_states)
    key = project("k_proj", states)
    value = project("v_proj", states)
    if layer.kernel == "eager":
        output, weights = eager_attention(
            t,
            layer,
            query,
            key,
            value,
            mask,
            joined=False,
            upcast=shape.wide_softmax,
            adds_in_place=shape.relative,
        )
        return output, weights
    return attend(t, layer, query, key, value, mask), None


def feed_forward(t: Tape, layer: EncoderLayer, hidden_states: Tensor) -> Tensor:
    """The two projections with the activation between them."""
    return linear(t, layer.linears["down_proj"], intermediate(t, layer, hidden_states))


def intermediate(t: Tape, layer: EncoderLayer, hidden_states: Tensor) -> Tensor:
    """The first projection and the activation, which may gate another projection."""
    linears, activation = layer.linears, layer.shape.layer.activation
    if not layer.shape.layer.gated:
        return activate(t, linear(t, linears["up_proj"], hidden_states), activation)
    gate = activate(t, linear(t, linears["gate_proj"], hidden_states), activation)
    return ops.mul(t, gate, linear(t, linears["up_proj"], hidden_states), "gated product")


def bidirectional_mask(t: Tape, shape: EncoderShape, hidden_states: Tensor) -> Tensor | None:
    """Every token against every other, for a batch that holds padding."""
    if not shape.layer.masked:
        return None
    dims: Dims = (hidden_states.dims[0], 1, hidden_states.dims[1], hidden_states.dims[1])
    with t.module("mask", MASKS), t.no_grad():
        boolean = t.new(dims, "bool", "boolean mask")
        t.tick("boolean mask")
        if shape.layer.kernel != "eager":
            return boolean
        bias = t.new(dims, hidden_states.dtype, "attention mask")
        t.tick("attention mask")
        return bias


def pre_norm_layer(t: Tape, layer: EncoderLayer, hidden_states: Tensor, mask: Tensor | None) -> Tensor:
    """`ViTLayer.forward`, `CLIPEncoderLayer.forward`: a norm before each half, and a scale after it in DINOv2.

    The attention weights of eager mode are held until the end.
    """
    residual = hidden_states
    hidden_states = normalise(t, layer.norms["norm1"], hidden_states, "norm1")
    hidden_states, _weights = _projected_attention(t, layer, hidden_states, mask)
    hidden_states = _scaled(t, layer, hidden_states, "layer_scale1")
    hidden_states = ops.add(t, _left(t, layer, hidden_states), residual, "residual sum")
    residual = hidden_states
    hidden_states = normalise(t, layer.norms["norm2"], hidden_states, "norm2")
    with t.module("mlp"):
        hidden_states = feed_forward(t, layer, hidden_states)
    hidden_states = _scaled(t, layer, hidden_states, "layer_scale2")
    return ops.add(t, _left(t, layer, hidden_states), residual, "residual sum")


def _projected_attention(
    t: Tape, layer: EncoderLayer, hidden_states: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    with t.module("attention"):
        output, weights = attention(t, layer.shape, layer.linears, hidden_states, mask)
        return linear(t, layer.linears["o_proj"], output), weights


def _scaled(t: Tape, layer: EncoderLayer, hidden_states: Tensor, name: str) -> Tensor:
    """What one half gives, times a learned vector where the model has one, and dropped."""
    if name in layer.tensors:
        hidden_states = ops.mul(t, hidden_states, layer.tensors[name], "scaled output")
    return ops.dropout(t, hidden_states) if layer.shape.dropout else hidden_states


def _left(t: Tape, layer: EncoderLayer, hidden_states: Tensor) -> Tensor:
    return drop_path(t, hidden_states) if layer.shape.drops_paths else hidden_states


def run_encoder(
    t: Tape, recipe: Recipe, layers: list[EncoderLayer], run: LayerForward, hidden_states: Tensor, mask: Tensor | None
) -> Tensor:
    """All layers one after the other, each of them a checkpointed region where the recipe asks for it."""
    for layer in layers:
        with t.layer(layer.slot), t.module("layer"):
            hidden_states = _checkpointed_layer(t, recipe, layer, run, hidden_states, mask)
    return hidden_states


def _checkpointed_layer(
    t: Tape, recipe: Recipe, layer: EncoderLayer, run: LayerForward, hidden_states: Tensor, mask: Tensor | None
) -> Tensor:
    def forward(x: Tensor) -> Tensor:
        return run(t, layer, x, mask)

    return checkpointed(t, recipe.checkpointing, forward, hidden_states)
