"""A decoder-only language model of transformers: embedding, layers, final norm and head."""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.attention import Cache, self_attention
from planner.engine.activations.blocks import (
    LLAMA,
    LayerWeights,
    Linear,
    layer_dims,
    linear,
    make_layer,
    make_linear,
    mlp,
    rms_norm,
    rotary_tables,
)
from planner.engine.activations.checkpoint import checkpoint, reentrant
from planner.engine.activations.recipe import LayerShape, Recipe
from planner.engine.activations.tape import Tape, Tensor


@dataclass(slots=True)
class RecordedLayer:
    """One layer of the recording and the slot it stands for."""

    slot: str
    shape: LayerShape
    weights: LayerWeights
    cache: Cache | None


@dataclass(slots=True)
class Decoder:
    """The weights of the recorded model."""

    embedding: Tensor
    layers: list[RecordedLayer]
    norm: Tensor
    head: Linear


def make_decoder(t: Tape, recipe: Recipe) -> Decoder:
    full = recipe.lora is None
    embedding = t.parameter(("table rows", "hidden"), recipe.weight_dtype, trainable=full)
    head = make_linear(t, recipe, "lm_head", ("hidden",), ("vocabulary",), False, rows=("table rows",))
    if recipe.tied_embeddings:
        head.weight = embedding
    layers = [
        RecordedLayer(slot, shape, make_layer(t, recipe, shape), _cache(t, recipe, shape, slot))
        for index, shape in enumerate(recipe.layers)
        for slot in slots_of(index, shape)
    ]
    return Decoder(embedding, layers, t.parameter(("hidden",), recipe.weight_dtype, trainable=full), head)


def slots_of(index: int, shape: LayerShape) -> tuple[str, ...]:
    """Names of the recorded layers of one kind; only `middle` stands for several."""
    return tuple(f"{index}/{name}" for name in ("first", "middle", "last")[: shape.copies])


def _cache(t: Tape, recipe: Recipe, shape: LayerShape, slot: str) -> Cache | None:
    if not recipe.use_cache:
        return None
    if not recipe.cache_filled:
        return Cache(None)
    dims = ("batch", "context", layer_dims(shape, "kv heads"), layer_dims(shape, "head dim"))
    with t.layer(slot):
        dtype = t.autocast or recipe.weight_dtype
        return Cache((t.new(dims, dtype, "cached keys", "kv cache"), t.new(dims, dtype, "cached values", "kv cache")))


def run_model(t: Tape, recipe: Recipe, model: Decoder, ids: Tensor) -> Tensor:
    """`LlamaModel.forward`: the hidden states after the final norm."""
    with t.module("model", f"{LLAMA}: LlamaModel.forward"):
        inputs_embeds = ops.embedding(t, model.embedding, ("batch", "sequence", "hidden"), ids)
        if recipe.lora is not None and recipe.checkpointing == "reentrant":
            # Reentrant checkpoints need an input that requires a gradient (`enable_input_require_grads`).
            inputs_embeds = t.leaf(inputs_embeds)
        positions = t.new((1, "sequence"), "int64", "position ids")
        t.tick("position ids")
        mask = _mask(t, recipe, inputs_embeds)
        first = model.layers[0].shape
        cos, sin = rotary_tables(t, layer_dims(first, "head dim"), inputs_embeds.dtype)
        hidden_states = inputs_embeds
        for layer in model.layers:
            with t.layer(layer.slot), t.module("layer", f"{LLAMA}: LlamaDecoderLayer.forward"):
                hidden_states = _run_layer(t, recipe, layer, hidden_states, cos, sin, mask)
        result = rms_norm(t, model.norm, hidden_states, "norm")
        del positions, inputs_embeds
        return result


def _mask(t: Tape, recipe: Recipe, hidden_states: Tensor) -> Tensor | None:
    if not recipe.mask:
        return None
    kernel = recipe.layers[0].kernel
    dims = ("batch", 1, "sequence", "sequence")
    with t.module("mask", "transformers 5.24, masking_utils.py"), t.no_grad():
        boolean = t.new(dims, "bool", "boolean mask")
        t.tick("boolean mask")
        if kernel != "eager":
            return boolean
        bias = t.new(dims, hidden_states.dtype, "attention mask")
        t.tick("attention mask")
        return bias


def _run_layer(
    t: Tape, recipe: Recipe, layer: RecordedLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    def forward(x: Tensor) -> Tensor:
        return decoder_layer(t, layer, x, cos, sin, mask)

    if recipe.checkpointing == "none":
        return forward(hidden_states)
    return reentrant(t, forward, hidden_states) if recipe.checkpointing == "reentrant" else checkpoint(
        t, forward, hidden_states
    )


def decoder_layer(
    t: Tape, layer: RecordedLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    """`LlamaDecoderLayer.forward`."""
    norms = layer.weights.norms
    residual = hidden_states
    hidden_states = rms_norm(t, norms["input"], hidden_states, "input_layernorm")
    hidden_states = self_attention(t, layer.shape, layer.weights, hidden_states, cos, sin, mask, layer.cache)
    hidden_states = ops.add(t, residual, hidden_states, "residual sum")
    residual = hidden_states
    hidden_states = rms_norm(t, norms["post_attention"], hidden_states, "post_attention_layernorm")
    hidden_states = mlp(t, layer.shape, layer.weights, hidden_states)
    return ops.add(t, residual, hidden_states, "residual sum")


def head_logits(t: Tape, recipe: Recipe, model: Decoder, hidden_states: Tensor) -> Tensor:
    """The output projection, over all positions or the last one only."""
    if recipe.logits == "last":
        hidden_states = ops.view(t, hidden_states, "batch", 1, "hidden")
    return linear(t, model.head, hidden_states)
