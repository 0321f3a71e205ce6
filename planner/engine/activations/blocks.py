"""Building blocks as Hugging Face transformers writes them: linear layers, norms, rotary embedding, MLP."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.dora import decomposed
from planner.engine.activations.float8 import float8_product
from planner.engine.activations.functions import activate
from planner.engine.activations.quantized import quantized_product
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Accumulate, Dims, Tape, Tensor
from planner.engine.activations.tiles import tiled

LLAMA = "transformers 5.24, models/llama/modeling_llama.py"
PEFT = "peft 0.21, tuners/lora/layer.py: Linear.forward"

ATTENTION_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj")


@dataclass(slots=True)
class Linear:
    """A linear layer, with its adapter where there is one. `inputs` and `outputs` are the weight's dimensions."""

    role: str
    inputs: Dims
    outputs: Dims
    weight: Tensor
    bias: Tensor | None = None
    adapter: "tuple[Tensor, Tensor] | None" = None
    adapter_dropout: bool = False
    quantized: bool = False
    """The weight is held in 4 or 8 bits and made whole for each product."""
    magnitude: Tensor | None = None
    """DoRA's trained length of each output's weights."""


@dataclass(slots=True)
class LayerWeights:
    """The weights of one recorded layer."""

    linears: dict[str, Linear]
    norms: dict[str, Tensor] = field(default_factory=dict)
    others: dict[str, Tensor] = field(default_factory=dict)
    """Parameters of no linear layer: routers, experts, vectors."""


def slots_of(kind: int | str, copies: int) -> tuple[str, ...]:
    """Names of the recorded layers of one kind; only `middle` stands for several."""
    return tuple(f"{kind}/{name}" for name in ("first", "middle", "last")[:copies])


def token_ids(t: Tape, name: str) -> Tensor:
    """A batch of token ids or labels."""
    return t.new(("batch", "sequence"), "int64", name)


def linear_weights(layer: Linear) -> list[Tensor]:
    """Weight, bias and adapters of a linear layer."""
    loose = [each for each in (layer.bias, layer.magnitude) if each is not None]
    return [layer.weight, *loose, *(layer.adapter or ())]


def layer_dims(shape: LayerShape, name: str) -> str:
    """The symbol of a dimension that may differ between kinds of layer."""
    return f"{shape.name}{name}"


def make_layer(t: Tape, recipe: Recipe, shape: LayerShape) -> LayerWeights:
    """Allocates the (uncounted) weights of one layer."""
    heads, kv_heads, head_dim = (layer_dims(shape, name) for name in ("heads", "kv heads", "head dim"))
    hidden, ffn = ("hidden",), (layer_dims(shape, "ffn"),)
    query, key = (heads, head_dim), (kv_heads, head_dim)
    plan = _mlp_linears(shape, hidden, ffn)
    if shape.latent is None:
        plan += [
            ("q_proj", hidden, (2, *query) if shape.gated_queries else query, shape.qkv_bias),
            ("k_proj", hidden, key, shape.qkv_bias),
            ("v_proj", hidden, key, shape.qkv_bias),
            ("o_proj", query, hidden, shape.output_bias),
        ]
    full = recipe.lora is None
    norms = {name: t.parameter(hidden, recipe.weight_dtype, trainable=full) for name in ("input", "post_attention")}
    if shape.qk_norm:
        sizes = {"q": query, "k": key} if shape.whole_qk_norm else dict.fromkeys(("q", "k"), (head_dim,))
        norms |= {name: t.parameter(dims, recipe.weight_dtype, trainable=full) for name, dims in sizes.items()}
    return LayerWeights({role: make_linear(t, recipe, role, i, o, bias) for role, i, o, bias in plan}, norms)


def _mlp_linears(shape: LayerShape, hidden: Dims, ffn: Dims) -> list[tuple[str, Dims, Dims, bool]]:
    """The dense feed-forward: of every token, or of the experts that every token visits."""
    if shape.experts is not None and not shape.experts.shared:
        return []
    plan = [("gate_proj", hidden, ffn, shape.mlp_bias)] if shape.gated else []
    plan += [("up_proj", hidden, ffn, shape.mlp_bias), ("down_proj", ffn, hidden, shape.mlp_bias)]
    if shape.experts is not None and shape.experts.shared_gate:
        plan.append(("shared_expert_gate", hidden, (1,), False))
    return plan


def make_linear(
    t: Tape, recipe: Recipe, role: str, inputs: Dims, outputs: Dims, has_bias: bool, rows: Dims | None = None
) -> Linear:
    """`rows`: the weight's own rows where these are not its outputs."""
    full = recipe.lora is None
    if recipe.scores and role == "lm_head":
        rows = None
    weight = t.parameter((*(rows or outputs), *inputs), recipe.weight_dtype, trainable=full)
    bias = t.parameter(outputs, recipe.weight_dtype, trainable=full) if has_bias else None
    layer = Linear(role, inputs, outputs, weight, bias, quantized=recipe.quantized_base and role != "lm_head")
    if recipe.lora is not None and role in recipe.lora.targets:
        layer.adapter = (
            t.parameter(("rank", *inputs), recipe.lora.dtype, trainable=True),
            t.parameter((*outputs, "rank"), recipe.lora.dtype, trainable=True),
        )
        layer.adapter_dropout = recipe.lora.dropout
        if recipe.lora.decomposed:
            layer.magnitude = t.parameter(outputs, recipe.lora.dtype, trainable=True)
    return layer


def linear(t: Tape, layer: Linear, x: Tensor) -> Tensor:
    """`nn.Linear`, or peft's LoRA layer around it."""
    with t.module(layer.role):
        if layer.quantized:
            result = quantized_product(t, layer.weight, x, layer.inputs, layer.outputs)
        else:
            result = product(t, layer.weight, layer.bias, x, layer.inputs, layer.outputs)
        if layer.adapter is None:
            return result
        dtype = result.dtype
        a, b = layer.adapter
        with t.module("lora", PEFT):
            # `x` itself stays alive: the module call holds its arguments.
            cast = ops.to(t, x, a.dtype, "input cast to the adapter's dtype")
            if layer.magnitude is not None:
                found = decomposed(
                    t, product, layer.weight, (a, b), layer.magnitude, cast, result, layer.inputs, layer.outputs,
                    dropout=layer.adapter_dropout, biased=layer.bias is not None,
                )  # fmt: skip
                return ops.to(t, found, dtype, "output in the model's dtype")
            dropped = ops.dropout(t, cast) if layer.adapter_dropout else cast
            low = product(t, a, None, dropped, layer.inputs, ("rank",), "lora_A output")
            del dropped
            high = product(t, b, None, low, ("rank",), layer.outputs, "lora_B output")
            del low
            scaled = ops.elementwise(t, high, "scaled adapter output")
            del high
            result = ops.add(t, result, scaled, "base plus adapter")
            del scaled
            return ops.to(t, result, dtype, "output in the model's dtype")


def product(
    t: Tape, weight: Tensor, bias: Tensor | None, x: Tensor, inputs: Dims, outputs: Dims, label: str = "output"
) -> Tensor:
    """`F.linear`: casts under autocast, then a matrix product over flattened tokens."""
    tokens = x.dims[: len(x.dims) - len(inputs)]
    if t.autocast:
        x = _cast_input(t, x)
        weight = cast_weight(t, weight)
        bias = cast_weight(t, bias) if bias is not None else None
    flat = ops.view(t, x)
    transposed = ops.view(t, weight)
    if t.techniques.fp8 != "none" and t.module_path()[-1:] not in (("lm_head",), ("lora",)):
        return ops.view(t, float8_product(t, flat, transposed, bias, (*tokens, *outputs), label))
    if bias is None:
        made = ops.matmul(t, flat, transposed, (*tokens, *outputs), label)
    else:
        made = ops.addmm(t, bias, flat, transposed, (*tokens, *outputs), label)
    return ops.view(t, made)


def _cast_input(t: Tape, x: Tensor) -> Tensor:
    """Autocast's copy of an input; that of a leaf, such as what a reentrant checkpoint runs again, is cached too."""
    assert t.autocast is not None
    reruns = t.frame is not None and t.frame.is_recomputing
    if isinstance(x.node, Accumulate) and not (x.is_view or reruns):
        return cast_weight(t, x, "input cast by autocast", "")
    return ops.to(t, x, t.autocast, "input cast by autocast")


def cast_weight(t: Tape, weight: Tensor, label: str = "weight cast by autocast", kind: str = "weight copy") -> Tensor:
    """Autocast's 16-bit copy of a weight; only trainable leaves are cached (torch `autocast_mode.cpp: cached_cast`)."""
    assert t.autocast is not None
    if weight.dtype == t.autocast:
        return weight
    cached = t.weight_copies.get(id(weight))
    if cached is not None:
        return cached
    copy = t.new(weight.dims, t.autocast, label, kind)
    t.tick(label)
    if weight.requires_grad:
        with t.with_grad():
            ops.record_cast(t, weight, copy)
        t.weight_copies[id(weight)] = copy
    return copy


def rms_norm(t: Tape, weight: Tensor, hidden_states: Tensor, name: str) -> Tensor:
    """`LlamaRMSNorm.forward`, over as many dimensions as the weight has."""
    if t.techniques.kernel_norms:
        return kernel_rms_norm(t, weight, hidden_states, name)
    with t.module(name, f"{LLAMA}: LlamaRMSNorm.forward"):
        dtype = hidden_states.dtype
        hidden_states = ops.to(t, hidden_states, "fp32", "input in fp32")
        variance = ops.mean(t, ops.square(t, hidden_states), len(weight.dims))
        hidden_states = ops.mul(t, hidden_states, ops.rsqrt(t, ops.shift(t, variance, "plus epsilon")), "normalised")
        return ops.mul(t, weight, ops.to(t, hidden_states, dtype, "normalised, cast back"), "output")


def kernel_rms_norm(t: Tape, weight: Tensor, x: Tensor, name: str) -> Tensor:
    """`F.rms_norm`: one kernel."""
    with t.module(name, "torch 2.13, aten _fused_rms_norm"):
        out = t.new(x.dims, x.dtype, "output")
        deviation = t.new((*x.dims[: len(x.dims) - len(weight.dims)], 1), "fp32", "reciprocal deviation")
        t.tick("rms norm")
        record(t, "rms norm", [x, weight], [out], _kernel_norm_backward, [x, weight, deviation])
        return out


def _kernel_norm_backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
    made: Gradients = [
        t.new(source.dims, source.dtype, "gradient of norm") if need else None
        for source, need in zip(saved, needs, strict=False)
    ]
    t.tick("rms norm backward")
    return made


def rotary_tables(t: Tape, head_dim: str, dtype: str) -> tuple[Tensor, Tensor]:
    """`LlamaRotaryEmbedding.forward`: cosines and sines, shared by all layers."""
    with t.module("rotary_emb", f"{LLAMA}: LlamaRotaryEmbedding.forward"), t.no_grad():
        angles = t.new(("batch" if t.own_positions else 1, "sequence", head_dim), "fp32", "angles")
        t.tick("angles")
        cos = ops.elementwise(t, ops.elementwise(t, angles, "cos"), "scaled cos")
        sin = ops.elementwise(t, ops.elementwise(t, angles, "sin"), "scaled sin")
        return ops.to(t, cos, dtype, "cos"), ops.to(t, sin, dtype, "sin")


def rotate(t: Tape, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, half: str) -> tuple[Tensor, Tensor]:
    """`apply_rotary_pos_emb`; Liger's kernel rotates in place."""
    if t.techniques.liger:
        return ops.view(t, q), ops.view(t, k)
    with t.module("rotary", f"{LLAMA}: apply_rotary_pos_emb"):
        q_embed = ops.add(t, ops.mul(t, q, cos), ops.mul(t, ops.cat_halves(t, q, half), sin), "rotated q")
        k_embed = ops.add(t, ops.mul(t, k, cos), ops.mul(t, ops.cat_halves(t, k, half), sin), "rotated k")
        return q_embed, k_embed


def mlp(t: Tape, shape: LayerShape, weights: LayerWeights, x: Tensor) -> Tensor:
    """The feed-forward, whole or tile by tile."""
    if not t.techniques.tiled_mlp:
        return _mlp(t, shape, weights, x)
    return tiled(t, lambda tile: _mlp(t, shape, weights, tile), x)


def _mlp(t: Tape, shape: LayerShape, weights: LayerWeights, x: Tensor) -> Tensor:
    """`LlamaMLP.forward`, or the plain two-layer form."""
    with t.module("mlp", f"{LLAMA}: LlamaMLP.forward"):
        linears = weights.linears
        if t.techniques.liger and shape.gated and shape.activation == "silu":
            gate, up = linear(t, linears["gate_proj"], x), linear(t, linears["up_proj"], x)
            return linear(t, linears["down_proj"], _liger_swiglu(t, gate, up))
        trained = linears["up_proj"].weight.requires_grad
        if not shape.gated:
            inner = activate(t, linear(t, linears["up_proj"], x), shape.activation, trained=trained)
            return linear(t, linears["down_proj"], inner)
        return linear(
            t,
            linears["down_proj"],
            ops.mul(
                t,
                activate(t, linear(t, linears["gate_proj"], x), shape.activation, trained=trained),
                linear(t, linears["up_proj"], x),
                "gated product",
            ),
        )


def _liger_swiglu(t: Tape, gate: Tensor, up: Tensor) -> Tensor:
    """`LigerSiLUMulFunction`: keeps both inputs, over which backward writes their gradients."""
    with t.module("swiglu", "Liger-Kernel, ops/swiglu.py"):
        out = t.new(gate.dims, gate.dtype, "gated product")
        t.tick("gated product")

        def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
            t.tick("gated product backward, in place")
            return [saved[0].handle(), saved[1].handle()]

        record(t, "swiglu", [gate, up], [out], backward, [gate, up])
        return out
