"""A decoder-only language model of transformers: embedding, layers, final norm and head."""

from collections.abc import Iterable
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.attention import Cache, self_attention
from planner.engine.activations.blocks import (
    LLAMA,
    LayerWeights,
    Linear,
    layer_dims,
    linear_weights,
    make_layer,
    make_linear,
    mlp,
    rms_norm,
    rotary_tables,
    slots_of,
    token_ids,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.experts import make_experts, mixture
from planner.engine.activations.kernels import kernel
from planner.engine.activations.latent import cache_dims, complex_table, latent_attention, make_latent
from planner.engine.activations.loss import causal_loss, head_logits, loss_forward
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import RECORDED, Found, Setting, divided
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.tensor_parallel import gather, scatter, whole_table
from planner.engine.activations.virtual import hold_prompt
from planner.engine.term import Factor
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, ModelSpec, Norm, NormPart


@dataclass(slots=True)
class RecordedLayer:
    """One layer of the recording and the slot it stands for."""

    slot: str
    shape: LayerShape
    weights: LayerWeights
    cache: Cache | None


@dataclass(frozen=True, slots=True)
class DecoderBody:
    """A stack of decoder layers between an embedding and a head."""

    layers: tuple[LayerShape, ...]
    tied_embeddings: bool
    tensor_parallel: bool = False
    sequence_parallel: bool = False

    @property
    def masked(self) -> tuple[LayerShape, ...]:
        """One kind of layer for each mask there is."""
        return tuple({shape.windowed: shape for shape in self.layers if shape.masked}.values())

    def build(self, t: Tape, recipe: Recipe) -> "Decoder":
        full = recipe.lora is None
        embedding = t.parameter(("table rows", "hidden"), recipe.weight_dtype, trainable=full)
        head = make_linear(t, recipe, "lm_head", ("hidden",), ("vocabulary",), False, rows=("table rows",))
        if self.tied_embeddings:
            head.weight = embedding
        layers = [
            RecordedLayer(slot, shape, _weights(t, recipe.for_kind(index), shape), _cache(t, recipe, shape, slot))
            for index, shape in enumerate(self.layers)
            for slot in slots_of(index, shape.copies)
        ]
        norm = t.parameter(("hidden",), recipe.weight_dtype, trainable=full)
        return Decoder(self, recipe, embedding, layers, norm, head)


@dataclass(slots=True)
class Decoder:
    """The weights of the recorded model."""

    body: DecoderBody
    recipe: Recipe
    embedding: Tensor
    layers: list[RecordedLayer]
    norm: Tensor
    head: Linear

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids")}
        if self.recipe.cache_filled:
            held["context"] = t.new(("batch", "context"), "int64", "ids of the context")
        if self.recipe.passes_mask:
            held["mask"] = token_ids(t, "attention mask of the batch")
        if self.recipe.loss != "none":
            held["labels"] = token_ids(t, "labels")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        ids, labels = inputs["ids"], inputs["labels"]
        loss, logits = causal_loss(t, self.recipe, self.head, run_model(t, self, ids), labels)
        kept = (logits, [layer.cache for layer in self.layers]) if self.recipe.keeps_outputs else None
        for layer in self.layers:
            layer.cache = None
        return loss, kept

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        labels = inputs.get("labels")
        hidden_states = run_model(t, self, inputs["ids"])
        logits = head_logits(t, self.recipe, self.head, hidden_states)
        loss = loss_forward(t, self.recipe, logits, labels) if labels is not None else None
        return hidden_states, logits, loss

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        yield from (("", "embed_tokens", self.embedding), ("", "norm", self.norm))
        yield from (("", self.head.role, weight) for weight in linear_weights(self.head))
        for layer in self.layers:
            for role, each in layer.weights.linears.items():
                yield from ((layer.slot, role, weight) for weight in linear_weights(each))
            yield from ((layer.slot, f"{name} norm", weight) for name, weight in layer.weights.norms.items())
            yield from ((layer.slot, name, weight) for name, weight in layer.weights.others.items())


def _weights(t: Tape, recipe: Recipe, shape: LayerShape) -> LayerWeights:
    made = make_layer(t, recipe, shape)
    if shape.experts is not None:
        made.others |= make_experts(t, recipe, shape, shape.experts)
    if shape.latent is not None:
        linears, norms = make_latent(t, recipe, shape, shape.latent)
        made.linears |= linears
        made.norms |= norms
    return made


def _cache(t: Tape, recipe: Recipe, shape: LayerShape, slot: str) -> Cache | None:
    if not recipe.use_cache:
        return None
    if not recipe.cache_filled:
        return Cache(None)
    per_head = (layer_dims(shape, "kv heads"), layer_dims(shape, "head dim"))
    keys, values = (per_head, per_head) if shape.latent is None else cache_dims(shape)
    dims: Dims = ("batch", "context")
    with t.layer(slot):
        dtype = t.autocast or recipe.weight_dtype
        return Cache(
            (
                t.new((*dims, *keys), dtype, "cached keys", "kv cache"),
                t.new((*dims, *values), dtype, "cached values", "kv cache"),
            )
        )


def run_model(t: Tape, model: Decoder, ids: Tensor) -> Tensor:
    """`LlamaModel.forward`: the hidden states after the final norm."""
    recipe, split = model.recipe, model.body.sequence_parallel
    with t.module("model", f"{LLAMA}: LlamaModel.forward"):
        table = whole_table(model.embedding) if model.body.tensor_parallel else model.embedding
        inputs_embeds = scatter(
            t, ops.embedding(t, table, ("batch", "sequence", "hidden"), ids), sequence_parallel=split
        )
        hold_prompt(t, inputs_embeds)
        inputs_embeds = t.with_images(inputs_embeds)
        if recipe.needs_input_gradient(inputs_embeds.requires_grad):
            # Reentrant checkpoints need an input that requires a gradient (`enable_input_require_grads`).
            inputs_embeds = t.leaf(inputs_embeds)
        positions = t.new((1, "sequence"), "int64", "position ids")
        t.tick("position ids")
        masks = {shape.windowed: _mask(t, shape, inputs_embeds) for shape in model.body.masked}
        first = model.layers[0].shape
        cos, sin = _rotations(t, first, inputs_embeds.dtype)
        hidden_states = inputs_embeds
        for layer in model.layers:
            with t.layer(layer.slot), t.module("layer", f"{LLAMA}: LlamaDecoderLayer.forward"):
                mask = masks.get(layer.shape.windowed) if layer.shape.masked else None
                hidden_states = _run_layer(t, model, layer, hidden_states, cos, sin, mask)
        result = gather(t, rms_norm(t, model.norm, hidden_states, "norm"), sequence_parallel=split)
        del positions, inputs_embeds, masks
        return result


def _rotations(t: Tape, shape: LayerShape, dtype: str) -> tuple[Tensor, Tensor]:
    """Cosines and sines, or one table of complex numbers in the place of both."""
    if shape.latent is None:
        return rotary_tables(t, layer_dims(shape, "head dim" if shape.rotates_all else "rotated"), dtype)
    rope_dim = layer_dims(shape, "rope dim")
    if shape.latent.rotary != "complex":
        return rotary_tables(t, rope_dim, dtype)
    table = complex_table(t, rope_dim, layer_dims(shape, "half rope dim"))
    return table, table


def _mask(t: Tape, shape: LayerShape, hidden_states: Tensor) -> Tensor:
    keys = "prefix and sequence" if t.techniques.virtual_tokens == "prefix" else "sequence"
    dims = ("batch", 1, "sequence", keys)
    with t.module("mask", "transformers 5.24, masking_utils.py"), t.no_grad():
        boolean = t.new((1, *dims[1:]) if shape.shared_mask else dims, "bool", "boolean mask")
        t.tick("boolean mask")
        if shape.kernel != "eager":
            return ops.view(t, boolean, *dims)
        bias = t.new(dims, hidden_states.dtype, "attention mask")
        t.tick("attention mask")
        return bias


def _run_layer(
    t: Tape, model: Decoder, layer: RecordedLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    def forward(x: Tensor) -> Tensor:
        return decoder_layer(t, layer, x, cos, sin, mask, split=model.body.sequence_parallel)

    return checkpointed(t, model.recipe.checkpointing, forward, hidden_states)


def decoder_layer(
    t: Tape,
    layer: RecordedLayer,
    hidden_states: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor | None,
    *,
    split: bool = False,
) -> Tensor:
    """`LlamaDecoderLayer.forward`; `split`: norms and sums see a part of the sequence."""
    norms = layer.weights.norms
    residual = hidden_states
    hidden_states = rms_norm(t, norms["input"], hidden_states, "input_layernorm")
    hidden_states = gather(t, hidden_states, sequence_parallel=split)
    held: list[Tensor] = []
    hidden_states = _mix(t, layer, hidden_states, cos, sin, mask, held)
    hidden_states = scatter(t, hidden_states, sequence_parallel=split)
    hidden_states = ops.add(t, residual, hidden_states, "residual sum")
    residual = hidden_states
    hidden_states = rms_norm(t, norms["post_attention"], hidden_states, "post_attention_layernorm")
    hidden_states = gather(t, hidden_states, sequence_parallel=split)
    hidden_states = _feed_forward(t, layer.shape, layer.weights, hidden_states)
    hidden_states = scatter(t, hidden_states, sequence_parallel=split)
    return ops.add(t, residual, hidden_states, "residual sum")


def _mix(
    t: Tape,
    layer: RecordedLayer,
    hidden_states: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor | None,
    held: list[Tensor],
) -> Tensor:
    shape, weights, cache = layer.shape, layer.weights, layer.cache
    if shape.latent is not None:
        return latent_attention(t, shape, shape.latent, weights, hidden_states, cos, sin, mask, cache, held)
    return self_attention(t, shape, weights, hidden_states, cos, sin, mask, cache, held)


def _feed_forward(t: Tape, shape: LayerShape, weights: LayerWeights, hidden_states: Tensor) -> Tensor:
    if shape.experts is not None:
        return mixture(t, shape, shape.experts, weights, hidden_states)
    return mlp(t, shape, weights, hidden_states)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """The body of a Llama-shaped model: RMSNorm before each half, rotary attention, a dense feed-forward."""
    exact = len(spec.stacks) == 1 and all(
        has_llama_attention(group) and has_dense_feed_forward(group) and not _has_inner_norms(group)
        for group in spec.stack.groups
    )
    return approximate(spec, setting) if exact else None


def approximate(spec: ModelSpec, setting: Setting) -> Found:
    """Any model as if its layers were Llama-shaped, with the heads and the width they have."""
    groups = spec.stack.groups
    shapes = tuple(_shape(index, group, setting) for index, group in enumerate(groups))
    symbols: list[Factor] = []
    for shape, group in zip(shapes, groups, strict=True):
        mixer, feed_forward = attention_of(group), feed_forward_of(group)
        symbols += [
            divided(f"{shape.name}heads", mixer.heads, setting.tensor_parallel),
            divided(f"{shape.name}kv heads", mixer.kv_heads, setting.tensor_parallel),
            Factor(f"{shape.name}head dim", mixer.head_dim),
            Factor(f"{shape.name}half head dim", mixer.head_dim // 2),
            divided(f"{shape.name}ffn", feed_forward.size, setting.tensor_parallel),
        ]
    tied = spec.head is not None and spec.head.tied
    layers = {str(index): group.count for index, group in enumerate(groups)}
    split = setting.tensor_parallel > 1
    body = DecoderBody(shapes, tied, split, split and setting.sequence_parallel)
    return Found(body, tuple(symbols), layers)


def _shape(index: int, group: LayerGroup, setting: Setting) -> LayerShape:
    mixer, feed_forward = attention_of(group), feed_forward_of(group)
    grouped = mixer.kv_heads != mixer.heads
    masked = setting.masks(mixer.window)
    return LayerShape(
        name=f"kind {index + 1} " if index else "",
        copies=min(group.count, RECORDED),
        grouped_queries=grouped,
        kernel=kernel(
            setting.attention,
            setting.compute_dtype,
            masked=masked,
            grouped_queries=grouped,
            single_kv_head=mixer.kv_heads == 1,
            head_dim=mixer.head_dim,
        ),
        masked=masked,
        windowed=mixer.window is not None,
        qkv_bias=mixer.qkv_bias,
        output_bias=mixer.output_bias,
        qk_norm=mixer.qk_norm is not None,
        qk_norm_rotated=mixer.qk_norm_rotated,
        shared_mask=not setting.needs_mask,
        attention_dropout=mixer.dropout > 0,
        gated=feed_forward.gated,
        activation=feed_forward.activation,
        mlp_bias=feed_forward.bias,
    )


def attention_of(group: LayerGroup) -> Attention:
    """The group's attention; a mixer of another kind is taken as attention of the layer's width."""
    mixer = group.mixer
    if isinstance(mixer, Attention):
        return mixer
    heads = getattr(mixer, "heads", None) or 1
    return Attention(heads=heads, kv_heads=heads, head_dim=getattr(mixer, "head_dim", 128))


def feed_forward_of(group: LayerGroup) -> DenseFeedForward:
    """The group's dense feed-forward; experts are taken as one of the size that a token visits."""
    feed_forward = group.feed_forward
    if isinstance(feed_forward, DenseFeedForward):
        return feed_forward
    size = getattr(feed_forward, "size", 1) * getattr(feed_forward, "experts_per_token", 1)
    shared = getattr(feed_forward, "shared", None)
    return DenseFeedForward(size + (shared.size if shared is not None else 0))


def has_llama_attention(group: LayerGroup) -> bool:
    """Whether norms and attention of a layer are those of Llama, Qwen2 or Qwen3."""
    mixer = group.mixer
    return (
        isinstance(mixer, Attention)
        and is_llama_shaped(group)
        and not (mixer.fused or mixer.gated or mixer.sinks or mixer.softcap)
        and mixer.rotary_share == 1.0
        and mixer.rotary_pairs == "halves"
        and mixer.rotary_upcast == "none"
        and not mixer.scaled_by_position
        and (mixer.qk_norm is None or _is_llamas(mixer.qk_norm, mixer.qk_norm_scope))
    )


def _has_inner_norms(group: LayerGroup) -> bool:
    """Norms before the last projections (BitNet)."""
    return any(isinstance(part, NormPart) for part in group.extra)


def _is_llamas(norm: Norm, scope: str) -> bool:
    return (norm.computed, norm.weight, scope) == ("weight-after-cast", True, "head")


def is_llama_shaped(group: LayerGroup) -> bool:
    """Whether a layer is two halves with an RMS norm before each."""
    return (
        group.norm.computed == "weight-after-cast"
        and group.norm.weight
        and group.arrangement == "pre"
        and group.cross_attention is None
        and not (group.residual_scaled or group.dropout)
    )


def has_dense_feed_forward(group: LayerGroup) -> bool:
    """Whether the second half is a dense feed-forward of separate linear layers."""
    return isinstance(group.feed_forward, DenseFeedForward) and not group.feed_forward.fused
