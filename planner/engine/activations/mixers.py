"""Mixers with a state of fixed size, whichever they are: their shapes, weights, caches and sizes."""

from collections.abc import Callable, Sequence

from planner.engine.activations.delta_rule import CHUNK, DeltaShape, delta_mixer, make_delta
from planner.engine.activations.models.mamba import (
    mamba_shape,
    mamba_symbols,
    scan_dims,
    state_cache,
    state_shape,
    state_symbols,
)
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.selective_scan import MambaShape, make_mamba, mamba_mixer
from planner.engine.activations.setting import Loads, Setting, divided
from planner.engine.activations.short_convolution import (
    ShortConvolutionShape,
    make_short_convolution,
    short_convolution,
)
from planner.engine.activations.state_space import Mamba2Shape, StateCache, StateWeights, make_mamba2, mamba2_mixer
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.term import Factor
from planner.model.spec import GatedDeltaNet, Mamba, Mamba2, ShortConvolution

StateMixer = Mamba | Mamba2 | GatedDeltaNet | ShortConvolution
"""What the readers tell of them."""
StateShape = MambaShape | Mamba2Shape | DeltaShape | ShortConvolutionShape
"""What is recorded of them."""


def shape_of(name: str, mixer: StateMixer, setting: Setting) -> StateShape:
    """The operators of one kind of layer's mixer, without sizes."""
    if isinstance(mixer, GatedDeltaNet):
        return DeltaShape(name, mixer.fused, groups=mixer.key_heads != mixer.value_heads)
    if isinstance(mixer, ShortConvolution):
        return ShortConvolutionShape(name, mixer.bias)
    return state_shape(name, mixer, setting) if isinstance(mixer, Mamba2) else mamba_shape(name, mixer, setting)


def symbols_of(name: str, mixer: StateMixer, setting: Setting) -> list[Factor]:
    """The sizes of one kind of layer's mixer."""
    if isinstance(mixer, Mamba2):
        return state_symbols(name, mixer, setting)
    if isinstance(mixer, Mamba):
        return mamba_symbols(name, mixer, setting)
    if isinstance(mixer, ShortConvolution):
        return [Factor(f"{name}conv kernel", mixer.kernel)]
    parts = setting.tensor_parallel
    return [
        divided(f"{name}key heads", mixer.key_heads, parts),
        divided(f"{name}value heads", mixer.value_heads, parts),
        Factor(f"{name}key head dim", mixer.key_head_dim),
        Factor(f"{name}value head dim", mixer.value_head_dim),
        divided(f"{name}q, k, v and z", mixer.conv_size + mixer.value_size, parts),
        divided(f"{name}conv channels", mixer.conv_size, parts),
        Factor(f"{name}conv kernel", mixer.kernel),
    ]


def lengths_of(mixers: Sequence[StateMixer]) -> Callable[[Loads], tuple[Factor, ...]]:
    """Dimensions that follow from the sequence: what the convolution adds, and what the scan cuts it into."""
    first = mixers[0]

    def derived(loads: Loads) -> tuple[Factor, ...]:
        longer = Factor("length with convolution padding", loads.sequence + first.kernel - 1)
        if isinstance(first, ShortConvolution):
            return (longer,)
        if not isinstance(first, GatedDeltaNet):
            return scan_dims(first, loads)
        chunks = (loads.sequence + CHUNK - 1) // CHUNK
        return (
            longer,
            Factor("delta chunks", chunks, f"tokens in chunks of {CHUNK}"),
            Factor("further delta chunks", chunks - 1),
        )

    return derived


def make_state(t: Tape, recipe: Recipe, state: StateShape) -> StateWeights:
    """The weights of one mixer."""
    if isinstance(state, DeltaShape):
        return make_delta(t, recipe, state)
    if isinstance(state, ShortConvolutionShape):
        return make_short_convolution(t, recipe, state)
    return make_mamba(t, recipe, state) if isinstance(state, MambaShape) else make_mamba2(t, recipe, state)


def make_past(t: Tape, recipe: Recipe, state: StateShape | None, slot: str) -> StateCache | None:
    """What a layer keeps of the past, where it is told."""
    if isinstance(state, Mamba2Shape):
        return state_cache(t, recipe, state, slot)
    if not isinstance(state, DeltaShape | ShortConvolutionShape) or not recipe.use_cache:
        return None
    if not recipe.cache_filled:
        return StateCache()
    dtype = t.autocast or recipe.weight_dtype
    if isinstance(state, ShortConvolutionShape):
        with t.layer(slot):
            kept = ("batch", "hidden", state.dim("conv kernel"))
            return StateCache(t.new(kept, dtype, "convolution state", "kv cache"))
    recurrent = ("batch", *(state.dim(name) for name in ("value heads", "key head dim", "value head dim")))
    convolution = ("batch", state.dim("conv channels"), state.dim("conv kernel"))
    with t.layer(slot):
        return StateCache(
            t.new(convolution, dtype, "convolution state", "kv cache"),
            t.new(recurrent, "fp32", "recurrent state", "kv cache"),
        )


def run_state(
    t: Tape, state: StateShape, weights: StateWeights, hidden_states: Tensor, past: StateCache | None
) -> Tensor:
    """The mixer's forward pass."""
    if isinstance(state, MambaShape):
        return mamba_mixer(t, state, weights, hidden_states)
    if isinstance(state, DeltaShape):
        return delta_mixer(t, state, weights, hidden_states, past)
    if isinstance(state, ShortConvolutionShape):
        return short_convolution(t, state, weights, hidden_states, past)
    return mamba2_mixer(t, state, weights, hidden_states, past)
