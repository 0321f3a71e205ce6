"""MPT: ALiBi of all positions added in fp32, eager attention only, layer norms without bias.

Source: transformers 5.24, `models/mpt/modeling_mpt.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import layer_dims, linear, make_linear
from planner.engine.activations.causal import (
    CausalLayer,
    CausalModel,
    LayerParts,
    causal_mask,
    embed,
    is_tied,
    make_fused,
    make_head,
    make_layers,
    make_table,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import equal_layers, kinds_of
from planner.engine.activations.eager import batched
from planner.engine.activations.functions import activate
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.ops_shape import reshape, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.term import Factor
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, ModelSpec, Norm

MPT = "transformers 5.24, models/mpt/modeling_mpt.py"
NORM = Norm("layernorm")


@dataclass(frozen=True, slots=True)
class MptBody:
    """Layers between an embedding and a final layer norm."""

    layers: tuple[LayerShape, ...]
    tied_embeddings: bool

    def build(self, t: Tape, recipe: Recipe) -> CausalModel:
        embedding = make_table(t, recipe, "table rows")
        return CausalModel(
            recipe,
            embedding,
            make_head(t, recipe, embedding, tied=self.tied_embeddings),
            make_layers(t, recipe, self.layers, _make_layer),
            self.hidden_states,
            {"norm_f": make_norm(t, recipe, NORM)},
        )

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """`MptModel.forward`."""
        recipe, shape = model.recipe, self.layers[0]
        with t.module("model", f"{MPT}: MptModel.forward"):
            inputs_embeds = embed(t, model, ids)
            hidden_states = inputs_embeds
            alibi = t.new((layer_dims(shape, "heads"), "all positions"), "fp32", "alibi of all positions")
            t.tick("alibi of all positions")
            mask = _as_boolean(t, causal_mask(t, recipe, shape, inputs_embeds.dtype))
            outputs: tuple[Tensor, Tensor | None] | None = None
            for layer in model.layers:
                with t.layer(layer.slot), t.module("layer", f"{MPT}: MptBlock.forward"):
                    outputs = _run_layer(t, recipe, layer, hidden_states, alibi, mask)
                hidden_states = outputs[0]
            result = normalise(t, model.norms["norm_f"], hidden_states, "norm_f")
            del inputs_embeds, outputs
            return result


def _make_layer(t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
    heads, head_dim, ffn = (layer_dims(shape, name) for name in ("heads", "head dim", "ffn"))
    hidden = ("hidden",)
    linears = {
        "Wqkv": make_fused(t, recipe, "q_proj", "Wqkv", hidden, (3, heads, head_dim), shape.qkv_bias),
        "o_proj": make_linear(t, recipe, "o_proj", (heads, head_dim), hidden, shape.output_bias),
        "up_proj": make_linear(t, recipe, "up_proj", hidden, (ffn,), shape.mlp_bias),
        "down_proj": make_linear(t, recipe, "down_proj", (ffn,), hidden, shape.mlp_bias),
    }
    return LayerParts(linears, {name: make_norm(t, recipe, NORM) for name in ("norm_1", "norm_2")})


def _as_boolean(t: Tape, bias: Tensor | None) -> Tensor:
    assert bias is not None
    with t.no_grad():
        mask = t.new(bias.dims, "bool", "mask as booleans")
        t.tick("mask as booleans")
        return mask


def _run_layer(
    t: Tape, recipe: Recipe, layer: CausalLayer, hidden_states: Tensor, alibi: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor | None]:
    def forward(x: Tensor) -> tuple[Tensor, Tensor | None]:
        return _block(t, layer, x, alibi, mask)

    return checkpointed(t, recipe.checkpointing, forward, hidden_states)


def _block(t: Tape, layer: CausalLayer, hidden_states: Tensor, alibi: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    norms = layer.parts.norms
    layernorm_output = normalise(t, norms["norm_1"], hidden_states, "norm_1")
    residual = hidden_states
    attn_outputs, weights = _attention(t, layer, layernorm_output, alibi, mask)
    hidden_states = ops.add(t, _dropped(t, layer, attn_outputs), residual, "residual sum")
    layernorm_output = normalise(t, norms["norm_2"], hidden_states, "norm_2")
    residual = hidden_states
    with t.module("mlp", f"{MPT}: MptMLP.forward"):
        linears = layer.parts.linears
        inner = activate(t, linear(t, linears["up_proj"], layernorm_output), layer.shape.activation)
        output = _dropped(t, layer, linear(t, linears["down_proj"], inner))
        return ops.add(t, output, residual, "residual sum"), weights


def _dropped(t: Tape, layer: CausalLayer, x: Tensor) -> Tensor:
    return ops.dropout(t, x) if layer.shape.hidden_dropout else x


def _attention(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, alibi: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """`MptAttention.forward`."""
    with t.module("self_attn", f"{MPT}: MptAttention.forward"):
        shape, linears = layer.shape, layer.parts.linears
        heads, head_dim = layer_dims(shape, "heads"), layer_dims(shape, "head dim")
        dims = ("batch", "sequence", heads, head_dim)
        mixed_qkv = linear(t, linears["Wqkv"], hidden_states)
        query, key, value = split(t, mixed_qkv, dims, dims, dims)
        query, key, value = reshape(t, query), reshape(t, key), reshape(t, value)
        if layer.cache is not None:
            key, value = layer.cache.update(t, key, value)
        copied = not shape.single_sequence
        strided = copied and layer.cache is None
        scores_dims = ("batch", heads, "sequence", key.dims[1])
        scores = ops.elementwise(t, batched(t, query, key, scores_dims, "scores", copied, strided), "scaled scores")
        scores = ops.add(t, scores, alibi.handle((heads, 1, key.dims[1]), view=True), "scores and alibi")
        scores = _masked(t, scores, mask)
        weights = ops.to(t, ops.softmax(t, scores, "fp32"), value.dtype, "attention weights")
        if shape.attention_dropout:
            weights = ops.dropout(t, weights)
        context = batched(t, weights, value, dims, "context", False, strided)
        context = ops.contiguous(t, context, label="context, contiguous")
        output = linear(t, linears["o_proj"], context)
        del mixed_qkv, scores
        return output, weights


def _masked(t: Tape, scores: Tensor, mask: Tensor) -> Tensor:
    """`masked_fill`; so is its gradient."""
    out = t.new(scores.dims, scores.dtype, "masked scores")
    t.tick("masked scores")

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        made = t.new(gradient.dims, gradient.dtype, "gradient of masked scores")
        t.tick("gradient of masked scores")
        return [made]

    record(t, "masked fill", [scores], [out], backward, [mask])
    return out


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A fused projection of equal heads, no rotary embedding, layer norms without bias, nothing before the layers."""
    groups = equal_layers(spec)
    if groups is None or spec.stack.before or spec.max_positions is None or not _is_mpt_layer(groups[0]):
        return None
    kinds = kinds_of(groups, setting, only_eager=True)
    symbols = (*kinds.symbols, Factor("all positions", spec.max_positions))
    return Found(MptBody(kinds.shapes, is_tied(spec)), symbols, kinds.layers)


def _is_mpt_layer(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and group.norm == NORM
        and group.norms == 2
        and group.arrangement == "pre"
        and mixer.fused
        and mixer.rotary_share == 0
        and mixer.kv_heads == mixer.heads
        and not feed_forward.gated
    )
