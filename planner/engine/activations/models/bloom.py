"""BLOOM: a norm after the embedding, ALiBi added by the product itself, eager attention only, its own GELU.

Source: transformers 5.24, `models/bloom/modeling_bloom.py`.
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
    key_length,
    make_fused,
    make_head,
    make_layers,
    make_table,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import equal_layers, kinds_of
from planner.engine.activations.eager import softmax_to
from planner.engine.activations.functions import saves_output
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.ops_shape import part
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.model.spec import LAYER_NORM, Attention, DenseFeedForward, LayerGroup, ModelSpec, NormPart

BLOOM = "transformers 5.24, models/bloom/modeling_bloom.py"


@dataclass(frozen=True, slots=True)
class BloomBody:
    """Layers between a normalised embedding and a final layer norm."""

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
            {name: make_norm(t, recipe, LAYER_NORM) for name in ("word_embeddings_layernorm", "ln_f")},
        )

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """`BloomModel.forward`."""
        recipe, shape = model.recipe, self.layers[0]
        with t.module("model", f"{BLOOM}: BloomModel.forward"):
            inputs_embeds = embed(t, model, ids)
            norm = model.norms["word_embeddings_layernorm"]
            hidden_states = normalise(t, norm, inputs_embeds, "word_embeddings_layernorm")
            alibi = _alibi(t, recipe, shape, hidden_states.dtype)
            mask = causal_mask(t, recipe, shape, inputs_embeds.dtype)
            outputs: tuple[Tensor, Tensor | None] | None = None
            for layer in model.layers:
                with t.layer(layer.slot), t.module("layer", f"{BLOOM}: BloomBlock.forward"):
                    outputs = _run_layer(t, recipe, layer, hidden_states, alibi, mask)
                hidden_states = outputs[0]
            result = normalise(t, model.norms["ln_f"], hidden_states, "ln_f")
            del inputs_embeds, outputs, alibi
            return result


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


def _alibi(t: Tape, recipe: Recipe, shape: LayerShape, dtype: str) -> Tensor:
    """The distance bias, one row per head and sequence."""
    heads, keys = layer_dims(shape, "heads"), key_length(recipe)
    with t.module("alibi", f"{BLOOM}: BloomModel.forward"), t.no_grad():
        one = t.new((heads, 1, keys), "fp32", "slopes times positions")
        t.tick("slopes times positions")
        repeated = t.new(("batch", heads, 1, keys), "fp32", "alibi of all sequences")
        t.tick("alibi of all sequences")
        del one
        return ops.to(t, repeated, dtype, "alibi")


def _run_layer(
    t: Tape, recipe: Recipe, layer: CausalLayer, hidden_states: Tensor, alibi: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    def forward(x: Tensor) -> tuple[Tensor, Tensor | None]:
        return _block(t, layer, x, alibi, mask)

    return checkpointed(t, recipe.checkpointing, forward, hidden_states)


def _block(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, alibi: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    norms = layer.parts.norms
    layernorm_output = normalise(t, norms["input"], hidden_states, "input_layernorm")
    residual = hidden_states
    attention_output, weights = _attention(t, layer, layernorm_output, residual, alibi, mask)
    layernorm_output = normalise(t, norms["post_attention"], attention_output, "post_attention_layernorm")
    residual = attention_output
    return _mlp(t, layer, layernorm_output, residual), weights


def _attention(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, residual: Tensor, alibi: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`BloomAttention.forward`."""
    with t.module("self_attn", f"{BLOOM}: BloomAttention.forward"):
        shape, linears = layer.shape, layer.parts.linears
        heads, head_dim = layer_dims(shape, "heads"), layer_dims(shape, "head dim")
        dims = ("batch", "sequence", heads, head_dim)
        fused_qkv = ops.view(t, linear(t, linears["query_key_value"], hidden_states))
        query, key, value = part(t, fused_qkv, *dims), part(t, fused_qkv, *dims), part(t, fused_qkv, *dims)
        if layer.cache is not None:
            key, value = layer.cache.update(t, key, value)
        copies = not shape.single_sequence
        query = _matrices(t, query, copies=copies, label="queries, contiguous")
        key = _matrices(t, key, copies=copies and layer.cache is None, label="keys, contiguous")
        value = _matrices(t, value, copies=copies and layer.cache is None, label="values, contiguous")
        dtype = query.dtype
        scores_dims = ("batch", heads, "sequence", key.dims[1])
        scores = _baddbmm(t, alibi, query, key, scores_dims)
        weights = scores if mask is None else ops.add(t, scores, mask, "masked scores")
        probabilities = softmax_to(t, weights, dtype, upcast=True)
        if shape.attention_dropout:
            probabilities = ops.dropout(t, probabilities)
        context = ops.matmul(t, ops.view(t, probabilities), value, dims, "context")
        context = ops.contiguous(t, context, label="context, heads merged")
        output = linear(t, linears["o_proj"], context)
        output = _dropout_add(t, shape, output, residual)
        del fused_qkv, scores, weights
        return output, probabilities


def _matrices(t: Tape, x: Tensor, *, copies: bool, label: str) -> Tensor:
    return ops.contiguous(t, x, label=label) if copies else ops.view(t, x)


def _baddbmm(t: Tape, alibi: Tensor, query: Tensor, key: Tensor, dims: Dims) -> Tensor:
    """`alibi.baddbmm(query, key)`: keeps both matrices; each gradient is a product, and that product scaled."""
    if t.autocast:
        alibi = ops.to(t, alibi, t.autocast, "alibi cast by autocast")
    out = t.new(dims, query.dtype, "scores and alibi")
    t.tick("scores and alibi")

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        made: Gradients = []
        for source in saved:
            product = t.new(source.dims, source.dtype, "gradient, not scaled")
            t.tick("gradient, not scaled")
            made.append(ops.elementwise(t, product, "gradient"))
            del product
        return made

    record(t, "baddbmm", [query, key], [out], backward, [query, key])
    return out


def _dropout_add(t: Tape, shape: LayerShape, x: Tensor, residual: Tensor) -> Tensor:
    return ops.add(t, residual, ops.dropout(t, x) if shape.hidden_dropout else x, "residual sum")


def _mlp(t: Tape, layer: CausalLayer, hidden_states: Tensor, residual: Tensor) -> Tensor:
    """`BloomMLP.forward`."""
    with t.module("mlp", f"{BLOOM}: BloomMLP.forward"):
        linears = layer.parts.linears
        inner = _gelu(t, linear(t, linears["up_proj"], hidden_states))
        return _dropout_add(t, layer.shape, linear(t, linears["down_proj"], inner), residual)


def _gelu(t: Tape, x: Tensor) -> Tensor:
    """`GeLUFunction`: a function of its own that keeps only its input and computes everything again in backward."""
    with t.module("act", f"{BLOOM}: GeLUFunction"):
        with t.no_grad():
            out = ops.mul(t, ops.elementwise(t, x, "0.5 x"), ops.shift(t, _tanh(t, x.handle()), "1 + tanh"), "gelu")
        record(t, "gelu", [x], [out], _gelu_backward, [x])
        return out


def _tanh(t: Tape, x: Tensor) -> Tensor:
    """`tanh(0.798 * x * (1 + 0.0447 * x * x))`."""
    return saves_output(
        t,
        ops.mul(
            t,
            ops.elementwise(t, x, "0.798 x"),
            ops.shift(t, ops.mul(t, ops.elementwise(t, x, "0.0447 x"), x, "0.0447 x ** 2"), "plus one"),
            "argument of tanh",
        ),
        "tanh",
    )


def _gelu_backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
    """`bloom_gelu_back`."""
    gradient, x = gradients[0], saved[0]
    assert gradient is not None
    tanh = _tanh(t, x)
    slope = ops.mul(
        t,
        ops.elementwise(t, x, "0.5 x"),
        ops.mul(
            t,
            ops.shift(t, ops.mul(t, tanh, tanh, "tanh ** 2"), "1 - tanh ** 2"),
            ops.shift(t, ops.mul(t, ops.elementwise(t, x, "0.107 x"), x, "0.107 x ** 2"), "plus 0.798"),
        ),
    )
    rest = ops.elementwise(t, ops.shift(t, tanh, "1 + tanh"), "half of it")
    factor = ops.add(t, slope, rest, "derivative")
    del slope, rest
    return [ops.mul(t, factor, gradient, "gradient of activation")]


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A layer norm after the embedding, a fused projection of equal heads, no rotary embedding."""
    groups = equal_layers(spec)
    if groups is None or len(spec.stack.before) != 1:
        return None
    if not isinstance(spec.stack.before[0], NormPart) or not _is_bloom_layer(groups[0]):
        return None
    kinds = kinds_of(groups, setting, only_eager=True)
    return Found(BloomBody(kinds.shapes, is_tied(spec)), kinds.symbols, kinds.layers)


def _is_bloom_layer(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and group.norm == LAYER_NORM
        and group.norms == 2
        and group.arrangement == "pre"
        and mixer.fused
        and mixer.rotary_share == 0
        and mixer.kv_heads == mixer.heads
        and not feed_forward.gated
    )
