"""`SD3Transformer2DModel` of diffusers: joint blocks of image and text, the last of which drops the text.

Source: diffusers 0.42, `models/transformers/transformer_sd3.py`, `models/attention.py: JointTransformerBlock`, in the
step of `examples/dreambooth/train_dreambooth_lora_sd3.py`. Every block is checkpointed, without reentrance.
"""

from dataclasses import dataclass, replace

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
    TEXT_TOKENS,
    WIDTH,
    contiguous_part,
    feed_forward,
    gated,
    look,
    make_feed_forward,
    make_modulation,
    make_projections,
    modulated,
    norm_without_weight,
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
from planner.engine.activations.models.flux import norm_out, zero_norm
from planner.engine.activations.ops_shape import cat, part
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.unet_blocks import Convolved, convolve
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import Block, LayerGroup, ModelSpec
from planner.model.spec import Linear as LinearPart

SD3 = "diffusers 0.42, models/transformers/transformer_sd3.py: SD3Transformer2DModel.forward"
BLOCK = "diffusers 0.42, models/attention.py: JointTransformerBlock.forward"
PROCESSOR = "diffusers 0.42, models/attention_processor.py: JointAttnProcessor2_0"
LOOKS = ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out")
PARTS = {*LOOKS, "norm1.linear", "norm1_context.linear", "ff.proj", "ff.out"}
TEXT_PARTS = {"to_add_out", "ff_context.proj", "ff_context.out"}
PATCH = "pixels of a patch"
PROMPT_TOKENS = 77 + 77
"""CLIP's positions, and `--max_sequence_length` of T5 in the training script."""


@dataclass(frozen=True, slots=True)
class Sd3Body:
    """How many of the blocks that keep the text are recorded; one more drops it."""

    joint: int
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
        )

        def predict(t: Tape, noisy: Tensor, embeddings: Tensor, others: dict[str, Tensor]) -> Tensor:
            (pooled,) = others.values()
            with t.module("transformer", SD3):
                return _run(t, recipe, self, weights, noisy, embeddings, pooled)

        return Denoiser(recipe, book, conditions, encoder, predict, flows=True)


@dataclass(slots=True)
class BlockWeights:
    slot: str
    norm1: Linear
    norm1_context: Linear
    looks: dict[str, Linear]
    feed_forward: tuple[Linear, Linear]
    context_feed_forward: tuple[Linear, Linear] | None


@dataclass(slots=True)
class Sd3Weights:
    patches: Convolved
    embedders: Embedders
    blocks: list[BlockWeights]
    norm_out: Linear
    proj_out: Linear


def _make(book: WeightBook, body: Sd3Body) -> Sd3Weights:
    weight = book.tensor("pos_embed.proj", (WIDTH, LATENT, PATCH))
    patches = Convolved("pos_embed.proj", weight, book.tensor("pos_embed.proj", (WIDTH,)), WIDTH)
    embedders = make_embedders(book, body.embedders)
    blocks = [_make_block(book, slot, last=False) for slot in slots_of(0, body.joint)]
    blocks += [_make_block(book, slot, last=True) for slot in slots_of(1, 1)]
    out = make_modulation(book, "norm_out.linear", 2)
    return Sd3Weights(patches, embedders, blocks, out, book.linear("proj_out", (WIDTH,), (PACKED,)))


def _make_block(book: WeightBook, slot: str, *, last: bool) -> BlockWeights:
    with book.layer(slot):
        return BlockWeights(
            slot,
            make_modulation(book, "norm1.linear", 6),
            make_modulation(book, "norm1_context.linear", 2 if last else 6),
            make_projections(book, LOOKS if last else (*LOOKS, "to_add_out")),
            make_feed_forward(book, "ff"),
            None if last else make_feed_forward(book, "ff_context"),
        )


def _run(
    t: Tape, recipe: Recipe, body: Sd3Body, weights: Sd3Weights, noisy: Tensor, context: Tensor, pooled: Tensor
) -> Tensor:
    """`SD3Transformer2DModel.forward`."""
    again = recipe.checkpointing != "none"
    hidden_states = ops.contiguous(t, _patches(t, recipe, weights.patches, noisy), label="tokens, contiguous")
    temb = conditioning(t, weights.embedders, pooled, hidden_states.dtype)
    encoder_hidden_states = linear(t, weights.embedders.context, context)
    text: Tensor | None = None
    for block in weights.blocks:
        with t.layer(block.slot), t.module("transformer_blocks", BLOCK):

            def joint(
                x: Tensor, text: Tensor, temb: Tensor, block: BlockWeights = block
            ) -> tuple[Tensor, Tensor | None]:
                return _block(t, body, block, x, text, temb)

            if again:
                hidden_states, text = checkpoint(t, joint, hidden_states, encoder_hidden_states, temb)
            else:
                hidden_states, text = joint(hidden_states, encoder_hidden_states, temb)
            if text is not None:
                encoder_hidden_states = text
    del text, encoder_hidden_states
    hidden_states = norm_out(t, weights.norm_out, hidden_states, temb)
    hidden_states = linear(t, weights.proj_out, hidden_states)
    return ops.contiguous(t, hidden_states, *noisy.dims, label="patches put together")


def _patches(t: Tape, recipe: Recipe, weights: Convolved, latent: Tensor) -> Tensor:
    """`PatchEmbed.forward`: a part of its table of positions is copied and added."""
    with t.module("pos_embed", "diffusers 0.42, models/embeddings.py: PatchEmbed.forward"):
        latent = ops.view(t, convolve(t, weights, latent, IMAGE_TOKENS), "batch", IMAGE_TOKENS, WIDTH)
        positions = t.new((1, IMAGE_TOKENS, WIDTH), recipe.weight_dtype, "positions of the image")
        t.tick("positions of the image")
        return ops.to(t, ops.add(t, latent, positions, "with positions"), latent.dtype)


def _block(
    t: Tape, body: Sd3Body, weights: BlockWeights, hidden_states: Tensor, encoder_hidden_states: Tensor, temb: Tensor
) -> tuple[Tensor, Tensor | None]:
    """`JointTransformerBlock.forward`: what goes on of image and text."""
    norm_hidden_states, gate_msa, shift_mlp, scale_mlp, gate_mlp = zero_norm(
        t, weights.norm1, hidden_states, temb, "norm1"
    )
    rest: list[Tensor] = []
    if weights.context_feed_forward is None:
        norm_encoder_hidden_states = norm_out(t, weights.norm1_context, encoder_hidden_states, temb)
    else:
        norm_encoder_hidden_states, *rest = zero_norm(
            t, weights.norm1_context, encoder_hidden_states, temb, "norm1_context"
        )
    attn_output, context_attn_output = _attention(t, body, weights, norm_hidden_states, norm_encoder_hidden_states)
    attn_output = gated(t, gate_msa, attn_output)
    hidden_states = ops.add(t, hidden_states, attn_output, "with attention")
    norm_hidden_states = norm_without_weight(t, hidden_states, "norm2")
    norm_hidden_states = modulated(t, norm_hidden_states, scale_mlp, shift_mlp)
    ff_output = feed_forward(t, weights.feed_forward, norm_hidden_states, "ff")
    ff_output = gated(t, gate_mlp, ff_output)
    hidden_states = ops.add(t, hidden_states, ff_output, "with the feed-forward")
    if weights.context_feed_forward is None:
        return hidden_states, None
    c_gate_msa, c_shift_mlp, c_scale_mlp, c_gate_mlp = rest
    context_attn_output = gated(t, c_gate_msa, context_attn_output)
    encoder_hidden_states = ops.add(t, encoder_hidden_states, context_attn_output, "with attention")
    norm_encoder_hidden_states = norm_without_weight(t, encoder_hidden_states, "norm2_context")
    norm_encoder_hidden_states = modulated(t, norm_encoder_hidden_states, c_scale_mlp, c_shift_mlp)
    context_ff_output = feed_forward(t, weights.context_feed_forward, norm_encoder_hidden_states, "ff_context")
    encoder_hidden_states = ops.add(
        t, encoder_hidden_states, gated(t, c_gate_mlp, context_ff_output), "with the feed-forward"
    )
    return hidden_states, encoder_hidden_states


def _attention(
    t: Tape, body: Sd3Body, weights: BlockWeights, hidden_states: Tensor, encoder_hidden_states: Tensor
) -> tuple[Tensor, Tensor]:
    """`JointAttnProcessor2_0.__call__`: heads of image and text are joined head by head."""
    with t.module("attn", PROCESSOR):
        looks = weights.looks
        query = linear(t, looks["to_q"], hidden_states)
        key = linear(t, looks["to_k"], hidden_states)
        value = linear(t, looks["to_v"], hidden_states)
        text_query = linear(t, looks["add_q_proj"], encoder_hidden_states)
        text_key = linear(t, looks["add_k_proj"], encoder_hidden_states)
        text_value = linear(t, looks["add_v_proj"], encoder_hidden_states)
        joint: Dims = ("batch", JOINT_TOKENS, HEADS, HEAD_DIM)
        query = cat(t, [query, text_query], joint, "joint queries")
        key = cat(t, [key, text_key], joint, "joint keys")
        value = cat(t, [value, text_value], joint, "joint values")
        hidden_states = look(t, body.attention, query, key, value)
        image, text = (
            part(t, hidden_states, "batch", tokens, HEADS, HEAD_DIM) for tokens in (IMAGE_TOKENS, TEXT_TOKENS)
        )
        single = body.single_sequence
        if "to_add_out" in looks:
            text = linear(t, looks["to_add_out"], contiguous_part(t, text, single=single))
        image = linear(t, looks["to_out"], contiguous_part(t, image, single=single))
        return image, text


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Joint blocks without norms over heads, each of which attends once, and a last one that drops the text."""
    stack = spec.stack
    groups = stack.groups
    if spec.task != "diffusion" or len(groups) != 2 or groups[1].count != 1:
        return None
    if [_names(group) for group in groups] != [PARTS | TEXT_PARTS, PARTS]:
        return None
    sizes = {one.name: one for one in stack.before if isinstance(one, LinearPart)}
    image = stack.image
    if image is None or image.image_size is None or sizes["context_embedder"].outputs != stack.hidden_size:
        return None
    embedders = tuple(name.removesuffix(".linear_1") for name in sizes if name.endswith(".linear_1"))
    heads = groups[0].mixer.heads if isinstance(groups[0].mixer, Block) else None
    if heads is None:
        return None
    head_dim = stack.hidden_size // heads
    inside = Widths("autoencoder's ")
    shape = replace(attention_of_blocks(setting, head_dim), heads_first=True)
    body = Sd3Body(
        min(groups[0].count, RECORDED), embedders, shape, setting.single_sequence, encoder_shape(spec, inside)
    )
    symbols = (
        *inside.symbols,
        Factor(PACKED, image.patch_size**2 * image.channels),
        Factor(PATCH, image.patch_size**2),
        Factor(CONTEXT, sizes["context_embedder"].inputs),
        Factor(POOLED, sizes["text_embedder.linear_1"].inputs),
        Factor(TIME_CHANNELS, sizes["timestep_embedder.linear_1"].inputs),
        Factor(HEADS, heads),
        Factor(HEAD_DIM, head_dim),
    )

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return tuple(joint_symbols(spec, loads, patch=image.patch_size, channels=image.channels, text=PROMPT_TOKENS))

    return Found(body, symbols, {str(index): group.count for index, group in enumerate(groups)}, derived)


def _names(group: LayerGroup) -> set[str]:
    return {getattr(one, "name", "") for one in group.mixer.parts} if isinstance(group.mixer, Block) else set()
