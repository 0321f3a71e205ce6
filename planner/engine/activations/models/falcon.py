"""Falcon with rotary embedding: both halves side by side, one key and value head or a few, no bias in the kernels.

Source: transformers 5.24, `models/falcon/modeling_falcon.py`. Its causal mask is always made, so SDPA can never run
FlashAttention; with a single key head it even has to compute step by step.
"""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import Linear, layer_dims, linear, make_linear, rotary_tables
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
from planner.engine.activations.decoders import equal_layers, kinds_of
from planner.engine.activations.functions import activate
from planner.engine.activations.kernels import FLASH_HEAD_DIM
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.ops_shape import add_in_place, gathered, part
from planner.engine.activations.recipe import Kernel, Recipe
from planner.engine.activations.rotary import turned
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.single_head import eager_scores, math_attention
from planner.engine.activations.tape import Tape, Tensor
from planner.model.spec import LAYER_NORM, Attention, DenseFeedForward, LayerGroup, ModelSpec

FALCON = "transformers 5.24, models/falcon/modeling_falcon.py"


@dataclass(frozen=True, slots=True)
class FalconBody:
    """`repeats`: keys and values are repeated to all heads at once (the new architecture)."""

    layers: tuple[LayerShape, ...]
    norms: int
    parallel: bool
    repeats: bool
    tied_embeddings: bool

    def build(self, t: Tape, recipe: Recipe) -> CausalModel:
        embedding = make_table(t, recipe, "table rows")
        return CausalModel(
            recipe,
            embedding,
            make_head(t, recipe, embedding, tied=self.tied_embeddings),
            make_layers(t, recipe, self.layers, self._make_layer),
            self.hidden_states,
            {"ln_f": make_norm(t, recipe, LAYER_NORM)},
        )

    def _make_layer(self, t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
        heads, head_dim, ffn = (layer_dims(shape, name) for name in ("heads", "head dim", "ffn"))
        hidden, qkv = ("hidden",), (layer_dims(shape, "all heads"), head_dim)
        linears = {
            "query_key_value": make_fused(t, recipe, "q_proj", "query_key_value", hidden, qkv, shape.qkv_bias),
            "o_proj": make_linear(t, recipe, "o_proj", (heads, head_dim), hidden, shape.output_bias),
            "up_proj": make_linear(t, recipe, "up_proj", hidden, (ffn,), shape.mlp_bias),
            "down_proj": make_linear(t, recipe, "down_proj", (ffn,), hidden, shape.mlp_bias),
        }
        for each in linears.values():
            # Loaders of 4-bit weights convert plain linear layers only.
            each.quantized = False
        return LayerParts(linears, {str(place): make_norm(t, recipe, LAYER_NORM) for place in range(self.norms)})

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """`FalconModel.forward`."""
        recipe, shape = model.recipe, self.layers[0]
        with t.module("model", f"{FALCON}: FalconModel.forward"):
            inputs_embeds = embed(t, model, ids)
            positions = position_ids(t)
            mask = causal_mask(t, recipe, shape, inputs_embeds.dtype)
            hidden_states = inputs_embeds
            cos, sin = rotary_tables(t, layer_dims(shape, "head dim"), hidden_states.dtype)
            outputs: tuple[Tensor, Tensor | None] | None = None
            for layer in model.layers:
                with t.layer(layer.slot), t.module("layer", f"{FALCON}: FalconDecoderLayer.forward"):
                    outputs = self._run_layer(t, recipe, layer, hidden_states, cos, sin, mask)
                hidden_states = outputs[0]
            result = normalise(t, model.norms["ln_f"], hidden_states, "ln_f")
            del positions, inputs_embeds, outputs
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
    ) -> tuple[Tensor, Tensor | None]:
        def forward(x: Tensor) -> tuple[Tensor, Tensor | None]:
            return self._layer(t, layer, x, cos, sin, mask)

        return checkpointed(t, recipe.checkpointing, forward, hidden_states)

    def _layer(
        self, t: Tape, layer: CausalLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        norms, shape = layer.parts.norms, layer.shape
        residual = hidden_states
        attention_input = normalise(t, norms["0"], hidden_states, "ln_attn")
        mlp_input = attention_input
        if self.parallel and self.norms > 1:
            mlp_input = normalise(t, norms["1"], hidden_states, "ln_mlp")
        attention_output, scores = self._attention(t, layer, attention_input, cos, sin, mask)
        if not self.parallel:
            residual = ops.add(t, residual, _dropped(t, shape.attention_dropout, attention_output), "residual sum")
            mlp_input = normalise(t, norms["1"], residual, "post_attention_layernorm")
        mlp_output = _mlp(t, layer, mlp_input)
        if self.parallel:
            mlp_output = add_in_place(t, mlp_output, attention_output)
        dropped = _dropped(t, shape.hidden_dropout, mlp_output)
        return ops.add(t, residual, dropped, "residual sum"), scores

    def _attention(
        self, t: Tape, layer: CausalLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """`FalconAttention.forward`."""
        with t.module("self_attn", f"{FALCON}: FalconAttention.forward"):
            shape, linears = layer.shape, layer.parts.linears
            fused_qkv = _falcon_linear(t, linears["query_key_value"], hidden_states)
            query, key, value = self._split_heads(t, shape, fused_qkv)
            query, key = turned(t, shape, query, cos, sin), turned(t, shape, key, cos, sin)
            if layer.cache is not None:
                key, value = layer.cache.update(t, key, value)
            scores: Tensor | None = None
            if shape.kernel == "eager":
                output, scores = eager_scores(t, shape, query, key, value, mask, hidden_states.dtype)
            elif shape.kernel == "math":
                output = math_attention(t, shape, query, key, value, mask)
            else:
                output = attend(t, shape, query, key, value, mask)
            if shape.kernel in ("eager", "math"):
                output = ops.contiguous(t, output, label="attention output, contiguous")
            output = _falcon_linear(t, linears["o_proj"], output)
            del fused_qkv
            return output, scores

    def _split_heads(self, t: Tape, shape: LayerShape, fused_qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries as a slice, keys and values by a list of indices, which copies them."""
        heads, kv_heads, head_dim = (layer_dims(shape, name) for name in ("heads", "kv heads", "head dim"))
        tokens = ("batch", "sequence")
        whole = ops.view(t, fused_qkv)
        if not self.repeats and not shape.grouped_queries:
            key, value = part(t, whole, *tokens, kv_heads, head_dim), part(t, whole, *tokens, kv_heads, head_dim)
            return part(t, whole, *tokens, heads, head_dim), key, value
        query = part(t, whole, *tokens, heads, head_dim)
        key = gathered(t, whole, *tokens, kv_heads, head_dim, label="keys")
        value = gathered(t, whole, *tokens, kv_heads, head_dim, label="values")
        if not self.repeats:
            return query, key, value
        dims = (*tokens, heads, head_dim)
        every = [
            ops.contiguous(t, query, label="queries, flattened"),
            ops.repeat(t, key, dims, "keys repeated to all heads"),
            ops.repeat(t, value, dims, "values repeated to all heads"),
        ]
        query, key, value = every
        return query, key, value


def _dropped(t: Tape, drops: bool, x: Tensor) -> Tensor:
    return ops.dropout(t, x) if drops else x


def _falcon_linear(t: Tape, layer: Linear, x: Tensor) -> Tensor:
    """`FalconLinear.forward`: the bias is added by an operator of its own.

    It multiplies by `weight.T`, and autocast, which caches leaves alone, casts that view anew for every product.
    """
    if t.autocast and not layer.quantized and layer.magnitude is None:
        with t.module(layer.role):
            layer = replace(layer, weight=ops.to(t, layer.weight, t.autocast, "weight cast by autocast"))
    if layer.bias is None:
        return linear(t, layer, x)
    product = linear(t, replace(layer, bias=None), x)
    with t.module(layer.role):
        return ops.add(t, product, layer.bias, "product plus bias")


def _mlp(t: Tape, layer: CausalLayer, x: Tensor) -> Tensor:
    """`FalconMLP.forward`."""
    with t.module("mlp", f"{FALCON}: FalconMLP.forward"):
        linears = layer.parts.linears
        inner = activate(t, _falcon_linear(t, linears["up_proj"], x), layer.shape.activation)
        return _falcon_linear(t, linears["down_proj"], inner)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Linear layers of a class of their own, a fused projection with rotary embedding, layer norms."""
    groups = equal_layers(spec)
    if groups is None or spec.stack.before or not _is_falcon_layer(groups[0]):
        return None
    group = groups[0]
    mixer = group.mixer
    assert isinstance(mixer, Attention)
    repeats = mixer.cache_heads is not None
    kinds = kinds_of(groups, setting)
    shapes = tuple(_falcon_shape(shape, mixer, setting, repeats) for shape in kinds.shapes)
    body = FalconBody(shapes, group.norms, group.arrangement == "parallel", repeats, is_tied(spec))
    return Found(body, kinds.symbols, kinds.layers)


def _falcon_shape(shape: LayerShape, mixer: Attention, setting: Setting, repeats: bool) -> LayerShape:
    if setting.attention == "sdpa":
        single = shape.grouped_queries and not repeats
        kernel: Kernel = "math" if single or mixer.head_dim > FLASH_HEAD_DIM else "efficient"
        shape = replace(shape, kernel=kernel, masked=True)
    return replace(shape, grouped_queries=False) if repeats else shape


def _is_falcon_layer(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and group.norm == LAYER_NORM
        and mixer.fused
        and mixer.linear == "subclass"
        and mixer.rotary_share == 1.0
        and mixer.qk_norm is None
        and not feed_forward.gated
    )
