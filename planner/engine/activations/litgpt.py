"""The layers of LitGPT: one fused projection of queries, keys and values, RMSNorm in fp32, LoRA in the weights' dtype.

Source: Lightning-AI/litgpt `litgpt/model.py` and `litgpt/lora.py` (0.5); bitsandbytes 0.41 to 0.42, which it pinned
through 2024, `autograd/_functions.py: MatMul4Bit`. What other versions do is told in `versions`.
"""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import Linear, layer_dims, linear, product
from planner.engine.activations.eager import batched
from planner.engine.activations.functions import saves_output
from planner.engine.activations.norms import NormWeights, layer_norm
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_shape import cat, part, split
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.model.spec import Norm

MODEL = "litgpt 0.5, litgpt/model.py"
LORA = "litgpt 0.5, litgpt/lora.py"
BITSANDBYTES = "bitsandbytes 0.42, autograd/_functions.py: MatMul4Bit keeps its input"


@dataclass(frozen=True, slots=True)
class LitShape:
    """One kind of block."""

    layer: LayerShape
    parallel: bool
    """Attention and feed-forward read the same input and add up."""
    shared_norm: bool
    sandwich: bool
    """Norms after attention and feed-forward too."""
    softcap: bool
    """Scores of attention are capped by a tanh, without SDPA."""
    adapted: frozenset[str]
    """Which of `q`, `k`, `v` the fused projection's adapter concerns."""
    layer_norm: Norm
    keeps_inputs: bool = True
    """4-bit products hold their inputs as long as the graph lives."""
    rounds_first: bool = False
    """RMS norms cast to 16 bits before they multiply by their weight."""


@dataclass(slots=True)
class LitWeights:
    """The weights of one recorded block."""

    linears: dict[str, Linear]
    norms: dict[str, NormWeights]


def run_block(t: Tape, shape: LitShape, weights: LitWeights, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`Block.forward`."""
    normed = norm(t, weights.norms["norm_1"], x, shape.rounds_first)
    mixed = attention(t, shape, weights, normed, cos, sin)
    if shape.sandwich:
        mixed = norm(t, weights.norms["post_attention_norm"], mixed, shape.rounds_first)
    if shape.parallel:
        if not shape.shared_norm:
            normed = norm(t, weights.norms["norm_2"], x, shape.rounds_first)
        x = ops.add(t, mixed, x, "residual sum")
    else:
        x = ops.add(t, mixed, x, "residual sum")
        normed = norm(t, weights.norms["norm_2"], x, shape.rounds_first)
    forward = feed_forward(t, shape, weights, normed)
    if shape.sandwich:
        forward = norm(t, weights.norms["post_mlp_norm"], forward, shape.rounds_first)
    return ops.add(t, forward, x, "residual sum")


def norm(t: Tape, weights: NormWeights, x: Tensor, rounds_first: bool) -> Tensor:
    """`RMSNorm.forward`, which multiplies in fp32 (or, earlier, after a cast); or PyTorch's layer norm."""
    if weights.norm.kind == "layernorm":
        return layer_norm(t, x, weights.weight, weights.bias)
    with t.module("norm", f"{MODEL}: RMSNorm.forward"):
        dtype = x.dtype
        x = ops.to(t, x, "fp32", "input in fp32")
        mean = ops.mean(t, ops.mul(t, x, x, "square"))
        normed = ops.mul(t, x, ops.rsqrt(t, ops.shift(t, mean, "plus epsilon")), "normalised")
        assert weights.weight is not None
        if rounds_first:
            return ops.mul(t, ops.to(t, normed, dtype, "normalised, cast back"), weights.weight, "output")
        weight = ops.to(t, weights.weight, "fp32", "weight in fp32")
        return ops.to(t, ops.mul(t, normed, weight, "weighted"), dtype, "output")


def adapted(t: Tape, layer: Linear, x: Tensor, keeps_inputs: bool) -> Tensor:
    """`LoRALinear.forward`: the frozen product, and dropout, two products and the scale beside it."""
    with t.module(layer.role):
        result = _frozen(t, layer, x, keeps_inputs)
        if layer.adapter is None:
            return result
        a, b = layer.adapter
        with t.module("lora", f"{LORA}: LoRALinear.forward"):
            dropped = ops.dropout(t, x) if layer.adapter_dropout else x
            low = product(t, a, None, dropped, layer.inputs, ("rank",), "lora_A output")
            high = product(t, b, None, low, ("rank",), layer.outputs, "lora_B output")
            scaled = ops.elementwise(t, high, "scaled adapter output")
            del dropped, low, high
            return ops.add(t, result, scaled, "base plus adapter")


def fused_projection(t: Tape, shape: LitShape, layer: Linear, x: Tensor) -> Tensor:
    """`LoRAQKVLinear.forward`: a grouped convolution makes the adapted parts, which are copied between zeros."""
    with t.module(layer.role):
        result = _frozen(t, layer, x, shape.keeps_inputs)
        if layer.adapter is None:
            return result
        a, b = layer.adapter
        with t.module("lora", f"{LORA}: LoRAQKVLinear.forward"):
            dropped = ops.dropout(t, x) if layer.adapter_dropout else x
            low = product(t, a, None, dropped, layer.inputs, a.dims[:-1], "lora_A output")
            del dropped
            high = product(t, b, None, low, a.dims[:-1], ("adapted outputs",), "lora_B output")
            del low
            if len(shape.adapted) < 3:
                high = _between_zeros(t, high, result.dims)
            scaled = ops.elementwise(t, high, "scaled adapter output")
            del high
            return ops.add(t, result, scaled, "base plus adapter")


def _between_zeros(t: Tape, source: Tensor, dims: Dims) -> Tensor:
    """`zero_pad`: `index_copy_` keeps its source."""
    out = t.new(dims, source.dtype, "adapter output between zeros")
    t.tick("adapter output between zeros")
    shape = source.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        found = t.new(shape, source_dtype, "gradient of adapted parts")
        t.tick("gradient of adapted parts")
        return [found]

    source_dtype = source.dtype
    record(t, "index_copy", [source], [out], backward, [source])
    return out


def _frozen(t: Tape, layer: Linear, x: Tensor, keeps_inputs: bool) -> Tensor:
    if not layer.quantized:
        return linear(t, replace(layer, adapter=None), x)
    tokens = x.dims[: len(x.dims) - len(layer.inputs)]
    weight_dims, inputs, dtype = layer.weight.dims, layer.inputs, x.dtype
    with t.module("nf4", BITSANDBYTES):
        whole = [t.new(weight_dims, kind, "dequantized weight") for kind in ("fp16", dtype)]
        t.tick("dequantized weight, and its copy in the compute dtype")
        out = t.new((*tokens, *layer.outputs), dtype, "output")
        t.tick("output")
        del whole

        def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
            whole = [t.new(weight_dims, kind, "dequantized weight") for kind in ("fp16", dtype)]
            t.tick("dequantized weight, and its copy in the compute dtype")
            found = t.new((*tokens, *inputs), dtype, "gradient of input")
            t.tick("gradient of input")
            del whole
            return [found]

        record(t, "4-bit product", [x], [out], backward, [x] if keeps_inputs else [])
        return out


def attention(t: Tape, shape: LitShape, weights: LitWeights, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`CausalSelfAttention.forward`: queries and keys are rotated in fp32 and joined to the rest of each head."""
    layer = shape.layer
    with t.module("attn", f"{MODEL}: CausalSelfAttention.forward"):
        query, key, value = _heads(t, shape, weights, x)
        query, key = (_rotated(t, layer, each, cos, sin) for each in (query, key))
        if layer.grouped_queries:
            key, value = (_repeated(t, layer, each) for each in (key, value))
        if shape.softcap:
            output = _capped(t, layer, query, key, value)
        else:
            output = attend(t, replace(layer, grouped_queries=False), query, key, value, None)
        return adapted(t, weights.linears["o_proj"], ops.view(t, output), shape.keeps_inputs)


def _heads(t: Tape, shape: LitShape, weights: LitWeights, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    layer = shape.layer
    heads, kv_heads, head_dim = (layer_dims(layer, name) for name in ("heads", "kv heads", "head dim"))
    joined = fused_projection(t, shape, weights.linears["qkv"], x)
    few = (*x.dims[:2], kv_heads, head_dim)
    query, key, value = split(t, joined, (*x.dims[:2], heads, head_dim), few, few)
    return query, key, value


def _rotated(t: Tape, shape: LayerShape, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    with t.module("rope", f"{MODEL}: apply_rope"):
        dims = x.dims[:-1]
        turning = part(t, x, *dims, layer_dims(shape, "rotated"))
        half = layer_dims(shape, "half rotated")
        turned = ops.add(t, ops.mul(t, turning, cos), ops.mul(t, ops.cat_halves(t, turning, half), sin), "rotated")
        parts = [ops.to(t, turned, x.dtype, "rotated, cast back")]
        del turned, turning
        if not shape.rotates_all:
            parts.append(part(t, x, *dims, layer_dims(shape, "head dim not rotated")))
        return cat(t, parts, x.dims, "rotated part and rest")


def _repeated(t: Tape, shape: LayerShape, x: Tensor) -> Tensor:
    return ops.repeat(t, x, (*x.dims[:2], layer_dims(shape, "heads"), x.dims[-1]), "repeated to all heads")


def _capped(t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`scaled_dot_product_attention` with a cap on the scores."""
    dims = (query.dims[0], layer_dims(shape, "heads"), query.dims[1], key.dims[1])
    scores = ops.elementwise(t, batched(t, query, key, dims, "scores", True, True), "scaled scores")
    scores = saves_output(t, ops.elementwise(t, scores, "scores over the cap"), "tanh")
    scores = ops.elementwise(t, scores, "capped scores")
    with t.no_grad():
        mask = t.new(dims[2:], query.dtype, "causal mask")
        t.tick("causal mask")
    scores = ops.add(t, scores, mask, "masked scores")
    weights = ops.to(t, ops.softmax(t, scores), query.dtype, "attention weights")
    output = batched(t, weights, value, query.dims, "attention output", False, True)
    return ops.contiguous(t, output, label="attention output, contiguous")


def feed_forward(t: Tape, shape: LitShape, weights: LitWeights, x: Tensor) -> Tensor:
    """`LLaMAMLP.forward`, `GemmaMLP.forward` or `GptNeoxMLP.forward`."""

    def through(role: str, x: Tensor) -> Tensor:
        return adapted(t, weights.linears[role], x, shape.keeps_inputs)

    layer = shape.layer
    with t.module("mlp", f"{MODEL}: MLP.forward"):
        if not layer.gated:
            return through("down_proj", ops.activation(t, through("up_proj", x), layer.activation))
        gate = through("gate_proj", x)
        up = through("up_proj", x)
        return through("down_proj", ops.mul(t, ops.activation(t, gate, layer.activation), up, "gated product"))
