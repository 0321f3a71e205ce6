"""`FluxTransformer2DModel` of diffusers: joint blocks of image and text, then blocks over both in one sequence.

Source: diffusers 0.42, `models/transformers/transformer_flux.py`, in the step of
`examples/dreambooth/train_dreambooth_lora_flux.py`. Every block is checkpointed, without reentrance.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from planner.engine.activations import ops
from planner.engine.activations.autoencoder import LATENT, EncoderShape, make_image_encoder
from planner.engine.activations.blocks import Linear, linear, slots_of
from planner.engine.activations.checkpoint import checkpoint
from planner.engine.activations.denoising import Conditions, Denoiser
from planner.engine.activations.joint_blocks import (
    HEAD_DIM,
    HEADS,
    IMAGE_TOKENS,
    JOINT_TOKENS,
    MODULATION,
    TEXT_TOKENS,
    WIDTH,
    contiguous_part,
    feed_forward,
    gated,
    head_norm,
    look,
    make_feed_forward,
    make_modulation,
    make_projections,
    modulated,
    modulation,
    norm_without_weight,
    without_overflow,
)
from planner.engine.activations.joint_models import (
    CONTEXT,
    PACKED,
    POOLED,
    TIME_CHANNELS,
    Embedders,
    attention_of_blocks,
    conditioning,
    joint_symbols,
    make_embedders,
)
from planner.engine.activations.latent_images import Widths, encoder_shape, pixels_at
from planner.engine.activations.ops_parts import apply_rotary
from planner.engine.activations.ops_shape import cat, part, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import RMS_NORM, Block, ModelSpec, NormPart
from planner.model.spec import Linear as LinearPart

FLUX = "diffusers 0.42, models/transformers/transformer_flux.py"
DOUBLE, SINGLE = "flux-double", "flux-single"
LOOKS = ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out", "to_add_out")
PROMPT_TOKENS = 512
"""`--max_sequence_length` of the training script."""


@dataclass(frozen=True, slots=True)
class FluxBody:
    """How many blocks of each kind are recorded, and what the time is embedded with."""

    double: int
    single: int
    embedders: tuple[str, ...]
    attention: LayerShape
    single_sequence: bool
    encoder: EncoderShape | None

    def build(self, t: Tape, recipe: Recipe) -> Denoiser:
        book = WeightBook(t, recipe)
        weights = _make(book, self)
        encoder = None
        if self.encoder is not None and recipe.techniques.encoded_ahead not in ("latents", "everything"):
            encoder = make_image_encoder(t, recipe, self.encoder)
        conditions = Conditions(
            ("batch", LATENT, pixels_at(1)),
            ("batch", TEXT_TOKENS, CONTEXT),
            (("pooled embeddings of prompts", ("batch", POOLED)),),
            ("batch", IMAGE_TOKENS, PACKED),
        )

        def predict(t: Tape, packed: Tensor, embeddings: Tensor, others: dict[str, Tensor]) -> Tensor:
            (pooled,) = others.values()
            with t.module("transformer", f"{FLUX}: FluxTransformer2DModel.forward"):
                return _run(t, recipe, self, weights, packed, embeddings, pooled)

        return Denoiser(recipe, book, conditions, encoder, predict, flows=True)


@dataclass(slots=True)
class DoubleWeights:
    slot: str
    modulations: tuple[Linear, Linear]
    looks: dict[str, Linear]
    norms: dict[str, Tensor]
    feed_forwards: tuple[tuple[Linear, Linear], tuple[Linear, Linear]]


@dataclass(slots=True)
class SingleWeights:
    slot: str
    modulation: Linear
    looks: dict[str, Linear]
    norms: dict[str, Tensor]
    proj_mlp: Linear
    proj_out: Linear


@dataclass(slots=True)
class FluxWeights:
    embedders: Embedders
    x_embedder: Linear
    double: list[DoubleWeights] = field(default_factory=list)
    single: list[SingleWeights] = field(default_factory=list)
    norm_out: Linear | None = None
    proj_out: Linear | None = None


def _make(book: WeightBook, body: FluxBody) -> FluxWeights:
    weights = FluxWeights(make_embedders(book, body.embedders), book.linear("x_embedder", (PACKED,), (WIDTH,)))
    for slot in slots_of(0, body.double):
        with book.layer(slot):
            weights.double.append(_make_double(book, slot))
    for slot in slots_of(1, body.single):
        with book.layer(slot):
            weights.single.append(_make_single(book, slot))
    weights.norm_out = make_modulation(book, "norm_out.linear", 2)
    weights.proj_out = book.linear("proj_out", (WIDTH,), (PACKED,))
    return weights


def _head_norms(book: WeightBook, *names: str) -> dict[str, Tensor]:
    return {name: book.tensor(name, (HEAD_DIM,)) for name in names}


def _make_double(book: WeightBook, slot: str) -> DoubleWeights:
    return DoubleWeights(
        slot,
        (make_modulation(book, "norm1.linear", 6), make_modulation(book, "norm1_context.linear", 6)),
        make_projections(book, LOOKS),
        _head_norms(book, "norm_q", "norm_k", "norm_added_q", "norm_added_k"),
        (make_feed_forward(book, "ff"), make_feed_forward(book, "ff_context")),
    )


def _make_single(book: WeightBook, slot: str) -> SingleWeights:
    return SingleWeights(
        slot,
        make_modulation(book, "norm.linear", 3),
        make_projections(book, LOOKS[:3]),
        _head_norms(book, "norm_q", "norm_k"),
        book.linear("proj_mlp", (WIDTH,), (4, WIDTH)),
        book.linear("proj_out", (5, WIDTH), (WIDTH,)),
    )


@dataclass(slots=True)
class Turn:
    """Cosines and sines of all positions."""

    cos: Tensor
    sin: Tensor


def _run(
    t: Tape, recipe: Recipe, body: FluxBody, weights: FluxWeights, packed: Tensor, context: Tensor, pooled: Tensor
) -> Tensor:
    """`FluxTransformer2DModel.forward`."""
    again = recipe.checkpointing != "none"
    hidden_states = linear(t, weights.x_embedder, packed)
    temb = conditioning(t, weights.embedders, pooled, hidden_states.dtype)
    encoder_hidden_states = linear(t, weights.embedders.context, context)
    turn = Turn(*(t.new((JOINT_TOKENS, HEAD_DIM), "fp32", name) for name in ("cos", "sin")))
    t.tick("pos_embed")
    for block in weights.double:
        with t.layer(block.slot), t.module("transformer_blocks", f"{FLUX}: FluxTransformerBlock.forward"):

            def double(x: Tensor, text: Tensor, temb: Tensor, block: DoubleWeights = block) -> tuple[Tensor, Tensor]:
                return _double(t, body, block, x, text, temb, turn)

            encoder_hidden_states, hidden_states = run_block(
                t, double, hidden_states, encoder_hidden_states, temb, again=again
            )
    for single in weights.single:
        with t.layer(single.slot), t.module("single_transformer_blocks", f"{FLUX}: FluxSingleTransformerBlock.forward"):

            def joined(x: Tensor, text: Tensor, temb: Tensor, block: SingleWeights = single) -> tuple[Tensor, Tensor]:
                return _single(t, body, block, x, text, temb, turn)

            encoder_hidden_states, hidden_states = run_block(
                t, joined, hidden_states, encoder_hidden_states, temb, again=again
            )
    assert weights.norm_out is not None
    assert weights.proj_out is not None
    hidden_states = norm_out(t, weights.norm_out, hidden_states, temb)
    return linear(t, weights.proj_out, hidden_states)


def run_block(
    t: Tape, block: Callable[..., tuple[Tensor, Tensor]], *inputs: Tensor, again: bool
) -> tuple[Tensor, Tensor]:
    """A block over image and text; `again`: checkpointed."""
    if not again:
        return block(*inputs)
    text, image = checkpoint(t, block, *inputs)
    assert image is not None
    return text, image


def norm_out(t: Tape, layer: Linear, x: Tensor, temb: Tensor) -> Tensor:
    """`AdaLayerNormContinuous.forward`."""
    with t.module("norm_out"):
        scale, shift = modulation(t, layer, temb, 2)
        return modulated(t, norm_without_weight(t, x, "norm"), scale, shift)


def zero_norm(t: Tape, layer: Linear, x: Tensor, temb: Tensor, name: str) -> list[Tensor]:
    """`AdaLayerNormZero.forward`: the modulated norm, and what modulates the rest of the block."""
    with t.module(name, MODULATION):
        shift, scale, *rest = modulation(t, layer, temb, 6)
        x = modulated(t, norm_without_weight(t, x, "norm"), scale, shift)
        return [x, *rest]


def _double(
    t: Tape, body: FluxBody, weights: DoubleWeights, hidden_states: Tensor, encoder_hidden_states: Tensor,
    temb: Tensor, turn: Turn,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`FluxTransformerBlock.forward`."""
    first, second = weights.modulations
    norm_hidden_states, gate_msa, shift_mlp, scale_mlp, gate_mlp = zero_norm(t, first, hidden_states, temb, "norm1")
    norm_encoder_hidden_states, c_gate_msa, c_shift_mlp, c_scale_mlp, c_gate_mlp = zero_norm(
        t, second, encoder_hidden_states, temb, "norm1_context"
    )
    attention_outputs = _joint_attention(t, body, weights, norm_hidden_states, norm_encoder_hidden_states, turn)
    attn_output, context_attn_output = attention_outputs
    attn_output = gated(t, gate_msa, attn_output)
    hidden_states = ops.add(t, hidden_states, attn_output, "with attention")
    norm_hidden_states = norm_without_weight(t, hidden_states, "norm2")
    norm_hidden_states = modulated(t, norm_hidden_states, scale_mlp, shift_mlp)
    ff_output = feed_forward(t, weights.feed_forwards[0], norm_hidden_states, "ff")
    ff_output = gated(t, gate_mlp, ff_output)
    hidden_states = ops.add(t, hidden_states, ff_output, "with the feed-forward")
    context_attn_output = gated(t, c_gate_msa, context_attn_output)
    encoder_hidden_states = ops.add(t, encoder_hidden_states, context_attn_output, "with attention")
    norm_encoder_hidden_states = norm_without_weight(t, encoder_hidden_states, "norm2_context")
    norm_encoder_hidden_states = modulated(t, norm_encoder_hidden_states, c_scale_mlp, c_shift_mlp)
    context_ff_output = feed_forward(t, weights.feed_forwards[1], norm_encoder_hidden_states, "ff_context")
    encoder_hidden_states = ops.add(
        t, encoder_hidden_states, gated(t, c_gate_mlp, context_ff_output), "with the feed-forward"
    )
    encoder_hidden_states = without_overflow(t, encoder_hidden_states)
    del attention_outputs
    return encoder_hidden_states, hidden_states


def _half(tokens: str) -> Dims:
    return ("batch", tokens, HEADS, "half head dim")


def _joint_attention(
    t: Tape, body: FluxBody, weights: DoubleWeights, hidden_states: Tensor, encoder_hidden_states: Tensor, turn: Turn
) -> tuple[Tensor, Tensor]:
    """`FluxAttnProcessor.__call__` over image and text."""
    with t.module("attn", f"{FLUX}: FluxAttnProcessor"):
        looks, norms = weights.looks, weights.norms
        query = linear(t, looks["to_q"], hidden_states)
        key = linear(t, looks["to_k"], hidden_states)
        value = linear(t, looks["to_v"], hidden_states)
        encoder_query = linear(t, looks["add_q_proj"], encoder_hidden_states)
        encoder_key = linear(t, looks["add_k_proj"], encoder_hidden_states)
        encoder_value = linear(t, looks["add_v_proj"], encoder_hidden_states)
        query = head_norm(t, norms["norm_q"], query, "norm_q")
        key = head_norm(t, norms["norm_k"], key, "norm_k")
        encoder_query = head_norm(t, norms["norm_added_q"], encoder_query, "norm_added_q")
        encoder_key = head_norm(t, norms["norm_added_k"], encoder_key, "norm_added_k")
        joint: Dims = ("batch", JOINT_TOKENS, HEADS, HEAD_DIM)
        query = cat(t, [encoder_query, query], joint, "joint queries")
        key = cat(t, [encoder_key, key], joint, "joint keys")
        value = cat(t, [encoder_value, value], joint, "joint values")
        query = apply_rotary(t, query, turn.cos, turn.sin, _half(JOINT_TOKENS))
        key = apply_rotary(t, key, turn.cos, turn.sin, _half(JOINT_TOKENS))
        hidden_states = look(t, body.attention, query, key, value)
        text, image = (("batch", tokens, HEADS, HEAD_DIM) for tokens in (TEXT_TOKENS, IMAGE_TOKENS))
        encoder_hidden_states, hidden_states = split(t, hidden_states, text, image)
        single = body.single_sequence
        hidden_states = linear(t, looks["to_out"], contiguous_part(t, hidden_states, single=single))
        encoder_hidden_states = linear(t, looks["to_add_out"], contiguous_part(t, encoder_hidden_states, single=single))
        return hidden_states, encoder_hidden_states


def _single(
    t: Tape, body: FluxBody, weights: SingleWeights, hidden_states: Tensor, encoder_hidden_states: Tensor,
    temb: Tensor, turn: Turn,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`FluxSingleTransformerBlock.forward`."""
    joint: Dims = ("batch", JOINT_TOKENS, WIDTH)
    hidden_states = cat(t, [encoder_hidden_states, hidden_states], joint, "text and image")
    residual = hidden_states
    with t.module("norm", MODULATION):
        shift, scale, gate = modulation(t, weights.modulation, temb, 3)
        norm_hidden_states = modulated(t, norm_without_weight(t, hidden_states, "norm"), scale, shift)
    mlp_hidden_states = ops.activation(t, linear(t, weights.proj_mlp, norm_hidden_states), "gelu")
    attn_output = _self_attention(t, body, weights, norm_hidden_states, turn)
    both = [attn_output, mlp_hidden_states]
    hidden_states = cat(t, both, ("batch", JOINT_TOKENS, 5, WIDTH), "attention and feed-forward")
    del both
    hidden_states = gated(t, gate, linear(t, weights.proj_out, hidden_states))
    hidden_states = ops.add(t, residual, hidden_states, "with both")
    hidden_states = without_overflow(t, hidden_states)
    text, image = (part(t, hidden_states, "batch", tokens, WIDTH) for tokens in (TEXT_TOKENS, IMAGE_TOKENS))
    return text, image


def _self_attention(t: Tape, body: FluxBody, weights: SingleWeights, hidden_states: Tensor, turn: Turn) -> Tensor:
    with t.module("attn", f"{FLUX}: FluxAttnProcessor"):
        looks = weights.looks
        query = linear(t, looks["to_q"], hidden_states)
        key = linear(t, looks["to_k"], hidden_states)
        value = linear(t, looks["to_v"], hidden_states)
        query = head_norm(t, weights.norms["norm_q"], query, "norm_q")
        key = head_norm(t, weights.norms["norm_k"], key, "norm_k")
        query = apply_rotary(t, query, turn.cos, turn.sin, _half(JOINT_TOKENS))
        key = apply_rotary(t, key, turn.cos, turn.sin, _half(JOINT_TOKENS))
        return ops.view(t, look(t, body.attention, query, key, value), "batch", JOINT_TOKENS, WIDTH)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Joint blocks with norms over heads, then blocks where attention and feed-forward run side by side."""
    groups = spec.stack.groups
    kinds = [group.mixer.kind if isinstance(group.mixer, Block) else "" for group in groups]
    if spec.task != "diffusion" or kinds != [DOUBLE, SINGLE] or not _modulates(groups[0].mixer):
        return None
    sizes = {one.name: one for one in spec.stack.before if isinstance(one, LinearPart)}
    embedders = tuple(name.removesuffix(".linear_1") for name in sizes if name.endswith(".linear_1"))
    head_dim = _head_dim(groups[0].mixer)
    shape = attention_of_blocks(setting, head_dim)
    inside = Widths("autoencoder's ")
    body = FluxBody(
        min(groups[0].count, RECORDED), min(groups[1].count, RECORDED), embedders, shape, setting.single_sequence,
        encoder_shape(spec, inside),
    )  # fmt: skip
    packed = sizes["x_embedder"].inputs
    symbols = (
        *inside.symbols,
        Factor(PACKED, packed),
        Factor(CONTEXT, sizes["context_embedder"].inputs),
        Factor(POOLED, sizes["text_embedder.linear_1"].inputs),
        Factor(TIME_CHANNELS, sizes["timestep_embedder.linear_1"].inputs),
        Factor(HEADS, spec.stack.hidden_size // head_dim),
        Factor(HEAD_DIM, head_dim),
        Factor("half head dim", head_dim // 2),
    )

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return tuple(joint_symbols(spec, loads, patch=2, channels=packed // 4, text=PROMPT_TOKENS))

    return Found(body, symbols, {str(index): group.count for index, group in enumerate(groups)}, derived)


def _modulates(mixer: object) -> bool:
    """Whether each block has a modulation of its own, as FLUX.1 has and Chroma has not."""
    assert isinstance(mixer, Block)
    return any(getattr(one, "name", "") == "norm1.linear" for one in mixer.parts)


def _head_dim(mixer: object) -> int:
    assert isinstance(mixer, Block)
    return next(one.size for one in mixer.parts if isinstance(one, NormPart) and one.norm == RMS_NORM)
