"""Normalisations as the model classes write them: PyTorch's own layer norm, and RMS norms in Python.

Sources: torch 2.13 `native_layer_norm` (keeps its input and one mean and one reciprocal deviation per row, in fp32);
transformers 5.24 `LlamaRMSNorm`, `Gemma2RMSNorm`, `Olmo2RMSNorm`, `CohereLayerNorm`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.model.spec import Norm

TORCH = "torch 2.13, aten native_layer_norm"
CLASSES = "transformers 5.24, {}.forward"
NAMED = {
    "kernel": TORCH,
    "kernel-in-fp32": CLASSES.format("OlmoLayerNorm"),
    "kernel-one-plus": CLASSES.format("NemotronLayerNorm1P"),
    "weight-after-cast": CLASSES.format("LlamaRMSNorm"),
    "weight-in-fp32": CLASSES.format("Olmo2RMSNorm"),
    "one-plus-weight": CLASSES.format("Gemma2RMSNorm"),
    "centred-in-fp32": CLASSES.format("CohereLayerNorm"),
}


@dataclass(slots=True)
class NormWeights:
    """The weights of one norm, and how its class computes it."""

    norm: Norm
    weight: Tensor | None
    bias: Tensor | None
    spans: int = 1
    """Trailing dimensions that are normalised together."""

    def tensors(self) -> list[Tensor]:
        return [tensor for tensor in (self.weight, self.bias) if tensor is not None]


def make_norm(t: Tape, recipe: Recipe, norm: Norm, dims: Dims = ("hidden",)) -> NormWeights:
    """The weights of a norm over `dims`."""
    full = recipe.lora is None
    weight = t.parameter(dims, recipe.weight_dtype, trainable=full) if norm.weight else None
    bias = t.parameter(dims, recipe.weight_dtype, trainable=full) if norm.bias else None
    together = len(dims) if norm.kind == "rmsnorm" else 1
    return NormWeights(norm, weight, bias, together)


def normalise(t: Tape, weights: NormWeights, x: Tensor, name: str) -> Tensor:
    """One norm of a layer."""
    code = weights.norm.computed
    with t.module(name, NAMED[code]):
        if code == "kernel":
            return layer_norm(t, x, weights.weight, weights.bias)
        if code == "kernel-in-fp32":
            return ops.to(t, layer_norm(t, ops.to(t, x, "fp32", "input in fp32"), None, None), x.dtype, "cast back")
        if code == "kernel-one-plus":
            return _kernel_one_plus(t, weights, x)
        if code == "one-plus-weight":
            return _one_plus_weight(t, weights.weight, x)
        if code == "centred-in-fp32":
            return _centred(t, weights.weight, x)
        return _rms(t, weights, x, weighted_in_fp32=code == "weight-in-fp32")


def _rms(t: Tape, weights: NormWeights, hidden_states: Tensor, *, weighted_in_fp32: bool) -> Tensor:
    """`LlamaRMSNorm` casts back before it multiplies by the weight, `Olmo2RMSNorm` after."""
    weight = weights.weight
    dtype = hidden_states.dtype
    hidden_states = ops.to(t, hidden_states, "fp32", "input in fp32")
    variance = ops.mean(t, ops.square(t, hidden_states), weights.spans)
    hidden_states = ops.mul(t, hidden_states, ops.rsqrt(t, ops.shift(t, variance, "plus epsilon")), "normalised")
    if weight is None:
        return ops.to(t, hidden_states, dtype, "output")
    if weighted_in_fp32:
        return ops.to(t, ops.mul(t, weight, hidden_states, "weighted"), dtype, "output")
    return ops.mul(t, weight, ops.to(t, hidden_states, dtype, "normalised, cast back"), "output")


def _one_plus_weight(t: Tape, weight: Tensor | None, x: Tensor) -> Tensor:
    """`Gemma2RMSNorm`: all in fp32, times one plus the weight, then the cast back."""
    assert weight is not None
    output = _root_mean_square(t, ops.to(t, x, "fp32", "input in fp32"))
    output = ops.mul(t, output, ops.shift(t, ops.to(t, weight, "fp32", "weight in fp32"), "1 + weight"), "weighted")
    return ops.to(t, output, x.dtype, "output")


def _kernel_one_plus(t: Tape, weights: NormWeights, x: Tensor) -> Tensor:
    """`NemotronLayerNorm1P`: what autocast would bring to fp32 is brought to its own dtype, and it is switched off."""
    assert weights.weight is not None
    weight, bias = ops.shift(t, weights.weight, "1 + weight"), weights.bias
    outer, t.autocast = t.autocast, None
    if outer is not None:
        x, weight = ops.to(t, x, outer, "input cast"), ops.to(t, weight, outer, "weight cast")
        bias = ops.to(t, bias, outer, "bias cast") if bias is not None else None
    out = layer_norm(t, x, weight, bias)
    t.autocast = outer
    return out


def _root_mean_square(t: Tape, x: Tensor) -> Tensor:
    variance = ops.shift(t, ops.mean(t, ops.square(t, x)), "plus epsilon")
    return ops.mul(t, x, ops.rsqrt(t, variance), "normalised")


def _centred(t: Tape, weight: Tensor | None, hidden_states: Tensor) -> Tensor:
    """`CohereLayerNorm`: the mean is taken off twice, once for the variance."""
    assert weight is not None
    dtype = hidden_states.dtype
    hidden_states = ops.to(t, hidden_states, "fp32", "input in fp32")
    mean = ops.mean(t, hidden_states)
    variance = ops.mean(t, ops.square(t, ops.add(t, hidden_states, mean, "centred")))
    hidden_states = ops.mul(
        t,
        ops.add(t, hidden_states, mean, "centred"),
        ops.rsqrt(t, ops.shift(t, variance, "plus epsilon")),
        "normalised",
    )
    hidden_states = ops.mul(t, ops.to(t, weight, "fp32", "weight in fp32"), hidden_states, "weighted")
    return ops.to(t, hidden_states, dtype, "output")


def layer_norm(t: Tape, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """`F.layer_norm`; autocast runs it in fp32."""
    if t.autocast:
        x = ops.to(t, x, "fp32", "input cast by autocast")
    out = t.new(x.dims, x.dtype, "output")
    rows = (*x.dims[:-1], 1)
    mean, deviation = t.new(rows, "fp32", "mean"), t.new(rows, "fp32", "reciprocal deviation")
    t.tick("layer norm")
    weights = [tensor for tensor in (weight, bias) if tensor is not None]
    record(t, "layer norm", [x, *weights], [out], _layer_norm_backward, [x, mean, deviation, *weights])
    return out


def _layer_norm_backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
    sources = [saved[0], *saved[3:]]
    made: Gradients = [
        t.new(source.dims, source.dtype, "gradient of input" if source is saved[0] else "gradient of weight")
        if need
        else None
        for source, need in zip(sources, needs, strict=True)
    ]
    t.tick("layer norm backward")
    return made
