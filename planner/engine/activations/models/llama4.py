"""Llama 4: layers that rotate as complex numbers and layers that do not rotate, dense or with experts.

Source: transformers 5.24, `models/llama4/modeling_llama4.py`.
"""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import LayerWeights, layer_dims, linear, make_linear, mlp
from planner.engine.activations.causal import (
    CausalLayer,
    CausalModel,
    LayerParts,
    causal_mask,
    embed,
    is_tied,
    make_head,
    make_layers,
    make_table,
    position_ids,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import attention_shape, attention_symbols, only_stack
from planner.engine.activations.every_expert import LLAMA_4, every_expert
from planner.engine.activations.experts import make_experts
from planner.engine.activations.latent import complex_table, rotate_complex
from planner.engine.activations.models import llama, moe
from planner.engine.activations.norms import NormWeights, make_norm, normalise
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.term import Factor
from planner.model.spec import RMS_NORM, Attention, DenseFeedForward, LayerGroup, MixtureOfExperts, ModelSpec, Norm

LENGTH_ONE = Norm(weight=False)


@dataclass(frozen=True, slots=True)
class Llama4Body:
    """Kinds of layers, of which those without rotation scale their queries by position."""

    layers: tuple[LayerShape, ...]
    scales: bool
    tied_embeddings: bool

    def build(self, t: Tape, recipe: Recipe) -> CausalModel:
        embedding = make_table(t, recipe, "table rows")
        return CausalModel(
            recipe,
            embedding,
            make_head(t, recipe, embedding, tied=self.tied_embeddings),
            make_layers(t, recipe, self.layers, _make_layer),
            self.hidden_states,
            {"norm": make_norm(t, recipe, RMS_NORM)},
        )

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """`Llama4TextModel.forward`."""
        recipe = model.recipe
        with t.module("model", f"{LLAMA_4}: Llama4TextModel.forward"):
            inputs_embeds = embed(t, model, ids)
            positions = position_ids(t)
            masks = [causal_mask(t, recipe, shape, inputs_embeds.dtype) for shape in self.layers]
            hidden_states = inputs_embeds
            first = self.layers[0]
            table = complex_table(t, layer_dims(first, "head dim"), layer_dims(first, "half head dim"))
            for layer in model.layers:
                mask = masks[self.layers.index(layer.shape)]
                with t.layer(layer.slot), t.module("layer", f"{LLAMA_4}: Llama4TextDecoderLayer.forward"):
                    hidden_states = self._run_layer(t, recipe, layer, hidden_states, table, mask)
            result = normalise(t, model.norms["norm"], hidden_states, "norm")
            del positions, inputs_embeds, masks, table
            return result

    def _run_layer(
        self, t: Tape, recipe: Recipe, layer: CausalLayer, hidden_states: Tensor, table: Tensor, mask: Tensor | None
    ) -> Tensor:
        def forward(x: Tensor) -> Tensor:
            return self._forward(t, layer, x, table, mask)

        return checkpointed(t, recipe.checkpointing, forward, hidden_states)

    def _forward(
        self, t: Tape, layer: CausalLayer, hidden_states: Tensor, table: Tensor, mask: Tensor | None
    ) -> Tensor:
        norms, shape = layer.parts.norms, layer.shape
        residual = hidden_states
        hidden_states = normalise(t, norms["input"], hidden_states, "input_layernorm")
        held: list[Tensor] = []
        attended = self._attention(t, layer, hidden_states, table, mask, held)
        hidden_states = ops.add(t, residual, attended, "residual sum")
        residual = hidden_states
        hidden_states = normalise(t, norms["post_attention"], hidden_states, "post_attention_layernorm")
        if shape.experts is not None:
            hidden_states = every_expert(t, shape, shape.experts, layer.parts, hidden_states)
        else:
            hidden_states = mlp(t, shape, LayerWeights(layer.parts.linears), hidden_states)
        result = ops.add(t, residual, hidden_states, "residual sum")
        del attended
        return result

    def _attention(
        self,
        t: Tape,
        layer: CausalLayer,
        hidden_states: Tensor,
        table: Tensor,
        mask: Tensor | None,
        held: list[Tensor],
    ) -> Tensor:
        """`Llama4TextAttention.forward`."""
        shape, linears = layer.shape, layer.parts.linears
        with t.module("self_attn", f"{LLAMA_4}: Llama4TextAttention.forward"):
            query, key, value = (ops.view(t, linear(t, linears[f"{name}_proj"], hidden_states)) for name in "qkv")
            if shape.rotates:
                query, key = rotate_complex(t, query, key, table)
            if shape.qk_norm:
                query = normalise(t, NormWeights(LENGTH_ONE, None, None), query, "qk_norm")
                key = normalise(t, NormWeights(LENGTH_ONE, None, None), key, "qk_norm")
            if self.scales and not shape.rotates:
                query = _scaled_by_position(t, query)
            if layer.cache is not None:
                key, value = layer.cache.update(t, key, value)
            return linear(t, linears["o_proj"], ops.view(t, attend(t, shape, query, key, value, mask, held)))


def _scaled_by_position(t: Tape, query: Tensor) -> Tensor:
    with t.no_grad():
        scales = t.new((1, query.dims[1], 1, 1), "fp32", "scales of positions")
        t.tick("scales of positions")
    return ops.to(t, ops.mul(t, query, scales, "scaled queries"), query.dtype, "scaled queries, cast back")


def _make_layer(t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
    heads, kv_heads, head_dim = (layer_dims(shape, name) for name in ("heads", "kv heads", "head dim"))
    hidden, ffn = ("hidden",), (layer_dims(shape, "ffn"),)
    plan = [
        ("q_proj", hidden, (heads, head_dim), shape.qkv_bias),
        ("k_proj", hidden, (kv_heads, head_dim), shape.qkv_bias),
        ("v_proj", hidden, (kv_heads, head_dim), shape.qkv_bias),
        ("o_proj", (heads, head_dim), hidden, shape.output_bias),
        ("gate_proj", hidden, ffn, False),
        ("up_proj", hidden, ffn, False),
        ("down_proj", ffn, hidden, False),
    ]
    linears = {role: make_linear(t, recipe, role, i, o, bias) for role, i, o, bias in plan}
    norms = {name: make_norm(t, recipe, RMS_NORM) for name in ("input", "post_attention")}
    others = make_experts(t, recipe, shape, shape.experts) if shape.experts is not None else {}
    return LayerParts(linears, norms, others)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Llama's layers whose heads turn as complex numbers or not at all, with experts that see every token."""
    groups = only_stack(spec)
    if groups is None or spec.stack.before or not all(_is_told(group) for group in groups):
        return None
    mixers = [llama.attention_of(group) for group in groups]
    if not any(mixer.rotary_pairs == "complex" for mixer in mixers):
        return None
    shapes: list[LayerShape] = []
    symbols: list[Factor] = []
    for index, group in enumerate(groups):
        dense = replace(group, feed_forward=llama.feed_forward_of(group))
        shape = replace(attention_shape(index, dense, setting), narrow_softmax=True)
        symbols += attention_symbols(shape, dense, setting)
        if isinstance(group.feed_forward, MixtureOfExperts):
            shape = replace(shape, experts=moe.expert_shape(group.feed_forward, setting), gated=True)
            symbols += moe.expert_symbols(shape.name, group.feed_forward, spec.stack.hidden_size, setting)
        shapes.append(shape)
    scales = any(mixer.scaled_by_position for mixer in mixers)
    body = Llama4Body(tuple(shapes), scales, is_tied(spec))
    return Found(body, tuple(symbols), {str(index): group.count for index, group in enumerate(groups)})


def _is_told(group: LayerGroup) -> bool:
    mixer, network = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and llama.is_llama_shaped(group)
        and not (mixer.fused or mixer.gated or mixer.sinks or mixer.softcap)
        and (mixer.rotary_share == 0 or mixer.rotary_pairs == "complex")
        and mixer.qk_norm in (None, LENGTH_ONE)
        and (isinstance(network, DenseFeedForward) or (isinstance(network, MixtureOfExperts) and network.visits_all))
        and not group.extra
    )
