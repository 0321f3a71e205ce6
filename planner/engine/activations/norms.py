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


@dataclass(slots=True)
class NormWeights:
    """The weights of one norm, and how its class computes it."""

    norm: Norm
    weight: Tensor | None
    bias: Tensor | None

    def tensors(self) -> list[Tensor]:
        return [tensor for tensor in (self.weight, self.bias) if tensor is not None]


def make_norm(t: Tape, recipe: Recipe, norm: Norm, dims: Dims = ("hidden",)) -> NormWeights:
    """The weights of a norm over `dims`."""
    full = recipe.lora is None
    weight = t.parameter(dims, recipe.weight_dtype, trainable=full) if norm.weight else None
    bias = t.parameter(dims, recipe.weight_dtype, trainable=full) if norm.bias else None
    return NormWeights(norm, weight, bias)


def normalise(t: Tape, weights: NormWeights, x: Tensor, name: str) -> Tensor:
    """One norm of a layer."""
    with t.module(name, TORCH):
        return layer_norm(t, x, weights.weight, weights.bias)


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
