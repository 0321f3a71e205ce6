"""A mixture whose experts all compute every token, as transformers runs Llama 4.

Source: transformers 5.24, `models/llama4/modeling_llama4.py: Llama4Router.forward`, `Llama4TextMoe.forward`,
`Llama4TextExperts.forward`.
"""

from planner.engine.activations import ops, ops_experts
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import LayerWeights, cast_weight, layer_dims, mlp
from planner.engine.activations.causal import LayerParts
from planner.engine.activations.functions import activate, saves_output
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_shape import add_in_place, split
from planner.engine.activations.shape import ExpertShape, LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor

LLAMA_4 = "transformers 5.24, models/llama4/modeling_llama4.py"


def every_expert(t: Tape, shape: LayerShape, experts: ExpertShape, parts: LayerParts, hidden_states: Tensor) -> Tensor:
    """`Llama4TextMoe.forward`: as many copies of the tokens as there are experts, and a shared expert."""
    with t.module("feed_forward", f"{LLAMA_4}: Llama4TextMoe.forward"):
        scores, logits = _scores(t, shape, parts, hidden_states)
        own, ffn = layer_dims(shape, "own experts"), layer_dims(shape, "expert ffn")
        copies: Dims = (own, *hidden_states.dims)
        routed = ops.repeat(t, hidden_states, copies, "tokens repeated for every expert")
        weighed = ops.contiguous(t, scores, own, *hidden_states.dims[:-1], label="scores, experts first")
        routed = ops.mul(t, routed, ops.view(t, weighed, *weighed.dims, 1), "weighed tokens of every expert")
        del weighed
        routed_out = _experts(t, experts, parts, routed, (own, *hidden_states.dims[:-1], ffn))
        out = mlp(t, shape, LayerWeights(parts.linears), hidden_states)
        out = add_in_place(t, out, ops_experts.sum_all(t, routed_out, hidden_states.dims), "experts added in place")
        del scores, logits, routed, routed_out
        return out


def _scores(t: Tape, shape: LayerShape, parts: LayerParts, x: Tensor) -> tuple[Tensor, Tensor]:
    """`Llama4Router.forward`: zero for every expert that was not chosen."""
    router, dims = parts.others["router"], (*x.dims[:-1], layer_dims(shape, "experts"))
    if t.autocast:
        x, router = ops.to(t, x, t.autocast, "input cast by autocast"), cast_weight(t, router)
    logits = ops.matmul(t, ops.view(t, x), ops.view(t, router), dims, "router logits")
    chosen, places = ops_experts.top_k(t, logits, layer_dims(shape, "experts per token"))
    scattered = ops_experts.scatter(t, chosen, places, dims, "scores of the chosen among all")
    del chosen, places
    scores = saves_output(t, ops.to(t, scattered, "fp32", "scores in fp32"), "sigmoid")
    return ops.to(t, scores, scattered.dtype, "scores, cast back"), logits


def _experts(t: Tape, experts: ExpertShape, parts: LayerParts, x: Tensor, half: Dims) -> Tensor:
    gate_up = _product(t, x, parts.others["up"], (*half[:-1], 2, half[-1]), "output of experts")
    gate, up = split(t, gate_up, half, half)
    inner = ops.mul(t, up, activate(t, gate, experts.activation), "gated product")
    return _product(t, inner, parts.others["down"], x.dims, "output of experts")


def _product(t: Tape, x: Tensor, weight: Tensor, dims: Dims, label: str) -> Tensor:
    if t.autocast:
        x, weight = ops.to(t, x, t.autocast, "input cast by autocast"), cast_weight(t, weight)
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    keep = ([x] if weight.requires_grad else []) + ([weight] if x.requires_grad else [])
    x_dims, weight_dims = x.dims, weight.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        made: Gradients = []
        for shape, need, name in zip((x_dims, weight_dims), needs, ("input", "weight"), strict=True):
            made.append(t.new(shape, gradient.dtype, f"gradient of {name}") if need else None)
            if need:
                t.tick(f"gradient of {name}")
        return made

    record(t, "bmm", [x, weight], [out], backward, keep)
    return out
