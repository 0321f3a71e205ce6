"""GPT-NeoX and Pythia: layer norms, one projection cut by heads, rotary embedding of a part of each head.

Source: transformers 5.24, `models/gpt_neox/modeling_gpt_neox.py`.
"""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import layer_dims, linear, make_linear, rotary_tables
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
    position_ids,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import embedding_dropout, equal_layers, kinds_of
from planner.engine.activations.eager import eager_attention
from planner.engine.activations.functions import activate
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.ops_shape import reshape, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.rotary import rotate_part
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.model.spec import LAYER_NORM, Attention, DenseFeedForward, ModelSpec

NEOX = "transformers 5.24, models/gpt_neox/modeling_gpt_neox.py"


@dataclass(frozen=True, slots=True)
class NeoxBody:
    """Layers whose halves read the same input (`parallel`) or follow each other."""

    layers: tuple[LayerShape, ...]
    parallel: bool
    embedding_dropout: bool
    tied_embeddings: bool

    def build(self, t: Tape, recipe: Recipe) -> CausalModel:
        embedding = make_table(t, recipe, "table rows")
        return CausalModel(
            recipe,
            embedding,
            make_head(t, recipe, embedding, tied=self.tied_embeddings),
            make_layers(t, recipe, self.layers, _make_layer),
            self.hidden_states,
            {"final_layer_norm": make_norm(t, recipe, LAYER_NORM)},
        )

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """`GPTNeoXModel.forward`."""
        recipe, shape = model.recipe, self.layers[0]
        with t.module("model", f"{NEOX}: GPTNeoXModel.forward"):
            inputs_embeds = embed(t, model, ids)
            positions = position_ids(t)
            mask = causal_mask(t, recipe, shape, inputs_embeds.dtype)
            hidden_states = ops.dropout(t, inputs_embeds) if self.embedding_dropout else inputs_embeds
            cos, sin = rotary_tables(t, layer_dims(shape, "rotated"), hidden_states.dtype)
            for layer in model.layers:
                with t.layer(layer.slot), t.module("layer", f"{NEOX}: GPTNeoXLayer.forward"):
                    hidden_states = self._run_layer(t, recipe, layer, hidden_states, cos, sin, mask)
            result = normalise(t, model.norms["final_layer_norm"], hidden_states, "final_layer_norm")
            del positions, inputs_embeds
            return result

    def _run_layer(
        self,
        t: Tape,
        recipe: Recipe,
        layer: CausalLayer,
        hidden_states: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        run = _parallel_layer if self.parallel else _sequential_layer

        def forward(x: Tensor) -> Tensor:
            return run(t, layer, x, cos, sin, mask)

        return checkpointed(t, recipe.checkpointing, forward, hidden_states)


def _make_layer(t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
    heads, head_dim, ffn = (layer_dims(shape, name) for name in ("heads", "head dim", "ffn"))
    hidden = ("hidden",)
    linears = {
        "query_key_value": make_fused(
            t, recipe, "q_proj", "query_key_value", hidden, (heads, 3, head_dim), shape.qkv_bias
        ),
        "o_proj": make_linear(t, recipe, "o_proj", (heads, head_dim), hidden, shape.output_bias),
        "up_proj": make_linear(t, recipe, "up_proj", hidden, (ffn,), shape.mlp_bias),
        "down_proj": make_linear(t, recipe, "down_proj", (ffn,), hidden, shape.mlp_bias),
    }
    return LayerParts(linears, {name: make_norm(t, recipe, LAYER_NORM) for name in ("input", "post_attention")})


def _parallel_layer(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    attn_output, _weights = _attended(t, layer, hidden_states, cos, sin, mask)
    mlp_output = _mlp(t, layer, normalise(t, layer.parts.norms["post_attention"], hidden_states, "norm"))
    mlp_output = _dropped(t, layer, mlp_output)
    return ops.add(t, ops.add(t, mlp_output, attn_output, "sum of both halves"), hidden_states, "residual sum")


def _sequential_layer(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    attn_output, _weights = _attended(t, layer, hidden_states, cos, sin, mask)
    attn_output = ops.add(t, attn_output, hidden_states, "residual sum")
    mlp_output = _mlp(t, layer, normalise(t, layer.parts.norms["post_attention"], attn_output, "norm"))
    mlp_output = _dropped(t, layer, mlp_output)
    return ops.add(t, mlp_output, attn_output, "residual sum")


def _attended(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    normed = normalise(t, layer.parts.norms["input"], hidden_states, "input_layernorm")
    attn_output, weights = _attention(t, layer, normed, cos, sin, mask)
    del normed
    return _dropped(t, layer, attn_output), weights


def _dropped(t: Tape, layer: CausalLayer, x: Tensor) -> Tensor:
    return ops.dropout(t, x) if layer.shape.hidden_dropout else x


def _attention(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """`GPTNeoXAttention.forward`."""
    with t.module("self_attn", f"{NEOX}: GPTNeoXAttention.forward"):
        shape, linears = layer.shape, layer.parts.linears
        heads, head_dim = layer_dims(shape, "heads"), layer_dims(shape, "head dim")
        dims = ("batch", "sequence", heads, head_dim)
        qkv = reshape(t, linear(t, linears["query_key_value"], hidden_states))
        query, key, value = split(t, qkv, dims, dims, dims)
        query, key = rotate_part(t, shape, query, key, cos, sin)
        if layer.cache is not None:
            key, value = layer.cache.update(t, key, value)
        weights: Tensor | None = None
        if shape.kernel == "eager":
            output, weights = eager_attention(t, shape, query, key, value, mask, joined=layer.cache is not None)
        else:
            output = attend(t, shape, query, key, value, mask)
        output = linear(t, linears["o_proj"], ops.view(t, output))
        del qkv
        return output, weights


def _mlp(t: Tape, layer: CausalLayer, hidden_states: Tensor) -> Tensor:
    """`GPTNeoXMLP.forward`."""
    with t.module("mlp", f"{NEOX}: GPTNeoXMLP.forward"):
        linears = layer.parts.linears
        # The module call holds its argument, so the parameter is not bound again.
        inner = linear(t, linears["up_proj"], hidden_states)
        inner = activate(t, inner, layer.shape.activation)
        return linear(t, linears["down_proj"], inner)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A fused projection of equal heads with rotary embedding, layer norms before both halves."""
    groups = equal_layers(spec)
    if groups is None or spec.stack.before:
        return None
    group = groups[0]
    mixer, feed_forward = group.mixer, group.feed_forward
    if not (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and group.norm == LAYER_NORM == spec.stack.final_norm
        and group.norms == 2
        and group.arrangement in ("pre", "parallel")
        and mixer.fused
        and mixer.linear == "linear"
        and mixer.rotary_share > 0
        and mixer.qk_norm is None
        and mixer.kv_heads == mixer.heads
        and not feed_forward.gated
    ):
        return None
    kinds = kinds_of(groups, setting)
    shapes = tuple(replace(shape, heads_first=True) for shape in kinds.shapes)
    parallel = group.arrangement == "parallel"
    body = NeoxBody(shapes, parallel, embedding_dropout(spec, setting), is_tied(spec))
    return Found(body, kinds.symbols, kinds.layers)
