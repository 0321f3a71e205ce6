"""The gated short convolution of LFM2, as transformers runs it where the `causal_conv1d` kernels are not installed.

Source: transformers 5.24, `models/lfm2/modeling_lfm2.py: Lfm2ShortConv.forward`.
"""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import linear, make_linear
from planner.engine.activations.ops_scan import convolution
from planner.engine.activations.ops_shape import part, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.state_space import StateCache, StateWeights
from planner.engine.activations.tape import Dims, Tape, Tensor

LFM2 = "transformers 5.24, models/lfm2/modeling_lfm2.py: Lfm2ShortConv.forward"


@dataclass(frozen=True, slots=True)
class ShortConvolutionShape:
    """The mixer of one kind of layer, without sizes."""

    name: str
    """Prefix of its dimensions, as in `LayerShape`."""
    bias: bool

    def dim(self, name: str) -> str:
        return f"{self.name}{name}"


def make_short_convolution(t: Tape, recipe: Recipe, mixer: ShortConvolutionShape) -> StateWeights:
    hidden: Dims = ("hidden",)
    linears = {
        "in_proj": make_linear(t, recipe, "in_proj", hidden, (3, *hidden), mixer.bias),
        "out_proj": make_linear(t, recipe, "out_proj", hidden, hidden, mixer.bias),
    }
    full = recipe.lora is None
    others = {"conv": t.parameter((*hidden, mixer.dim("conv kernel")), recipe.weight_dtype, trainable=full)}
    if mixer.bias:
        others["conv bias"] = t.parameter(hidden, recipe.weight_dtype, trainable=full)
    return StateWeights(linears, others)


def short_convolution(
    t: Tape, mixer: ShortConvolutionShape, weights: StateWeights, hidden_states: Tensor, cache: StateCache | None
) -> Tensor:
    """One gate before a convolution over the last tokens, one after it."""
    with t.module("conv", LFM2):
        batch, sequence, hidden = whole = hidden_states.dims
        projected = linear(t, weights.linears["in_proj"], hidden_states)
        before, after, x = split(t, projected, whole, whole, whole)
        hidden_states = ops.mul(t, before, x, "gated input")
        longer: Dims = (batch, hidden, "length with convolution padding")
        if cache is not None and cache.convolution is not None:
            hidden_states = t.new(longer, hidden_states.dtype, "state and new token")
            t.tick("state and new token")
            longer = (batch, hidden, sequence)
        elif cache is not None:
            kept = (batch, hidden, mixer.dim("conv kernel"))
            cache.convolution = t.new(kept, hidden_states.dtype, "convolution state", "kv cache")
            t.tick("convolution state")
        others = weights.others
        out = convolution(t, ops.view(t, hidden_states), others["conv"], others.get("conv bias"), longer)
        hidden_states = part(t, out, *whole)
        del out
        result = linear(t, weights.linears["out_proj"], ops.mul(t, after, hidden_states, "gated output"))
        del projected, before, x
        return result
