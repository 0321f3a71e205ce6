"""The mixer of Mamba 1 in plain PyTorch, as transformers runs it where the `mamba_ssm` kernels are not installed.

The loop over the sequence is told as one operator: every step keeps its own state, so all states are kept at once.
Source: transformers 5.24, `models/mamba/modeling_mamba.py: MambaMixer.forward`, `mamba_selective_scan`, and
`models/jamba/modeling_jamba.py: JambaMambaMixer.forward`, checked against a run of them.
"""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, keeps_now, record
from planner.engine.activations.blocks import linear, make_linear, rms_norm
from planner.engine.activations.functions import activate, saves_output
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_scan import convolution
from planner.engine.activations.ops_shape import part, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.state_space import StateWeights
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.model.spec import Norm

WEIGHTLESS = Norm(weight=False)
MAMBA = "transformers 5.24, models/mamba/modeling_mamba.py"


@dataclass(frozen=True, slots=True)
class MambaShape:
    """The mixer of one kind of layer, without sizes."""

    name: str
    """Prefix of its dimensions, as in `LayerShape`."""
    bias: bool
    conv_bias: bool
    inner_norms: bool
    """The time step, B and C are normalised (Jamba)."""
    weightless_norms: bool = False
    """They are, by norms without weights (Falcon-Mamba)."""

    def dim(self, name: str) -> str:
        return f"{self.name}{name}"


def make_mamba(t: Tape, recipe: Recipe, mixer: MambaShape) -> StateWeights:
    inner, rank = mixer.dim("inner"), mixer.dim("step rank")
    hidden: Dims = ("hidden",)
    plan: list[tuple[str, Dims, Dims, bool]] = [
        ("in_proj", hidden, (2, inner), mixer.bias),
        ("x_proj", (inner,), (mixer.dim("step, B and C"),), False),
        ("dt_proj", (rank,), (inner,), True),
        ("out_proj", (inner,), hidden, mixer.bias),
    ]
    linears = {role: make_linear(t, recipe, role, i, o, bias) for role, i, o, bias in plan}
    shapes: dict[str, Dims] = {
        "conv1d": (inner, mixer.dim("conv kernel")),
        "A_log": (inner, mixer.dim("state")),
        "D": (inner,),
    }
    if mixer.conv_bias:
        shapes["conv1d bias"] = (inner,)
    if mixer.inner_norms:
        shapes |= {"dt norm": (rank,), "B norm": (mixer.dim("state"),), "C norm": (mixer.dim("state"),)}
    full = recipe.lora is None
    return StateWeights(
        linears, {name: t.parameter(dims, recipe.weight_dtype, trainable=full) for name, dims in shapes.items()}
    )


def mamba_mixer(t: Tape, mixer: MambaShape, weights: StateWeights, hidden_states: Tensor) -> Tensor:
    """`MambaMixer.forward` over a whole sequence."""
    with t.module("mixer", f"{MAMBA}: MambaMixer.forward"):
        dtype = hidden_states.dtype
        batch, sequence = hidden_states.dims[:2]
        linears, others = weights.linears, weights.others
        inner, state = mixer.dim("inner"), mixer.dim("state")
        projected = linear(t, linears["in_proj"], hidden_states)
        a_log = ops.to(t, others["A_log"], "fp32", "A_log in fp32")
        a = ops.elementwise(t, saves_output(t, a_log, "exp of A_log"), "A")
        del a_log
        x, gate = split(t, projected, (batch, inner, sequence), (batch, inner, sequence))
        longer: Dims = (batch, inner, "length with convolution padding")
        out = convolution(t, x, others["conv1d"], others.get("conv1d bias"), longer)
        x = activate(t, part(t, out, batch, inner, sequence), "silu")
        del out
        tokens = ops.contiguous(t, x, batch, sequence, inner, label="input of x_proj")
        selected = linear(t, linears["x_proj"], tokens)
        del tokens
        step, b, c = split(
            t, selected, (batch, sequence, mixer.dim("step rank")), (batch, sequence, state), (batch, sequence, state)
        )
        if mixer.inner_norms:
            step = rms_norm(t, others["dt norm"], step, "dt_layernorm")
            b = rms_norm(t, others["B norm"], b, "b_layernorm")
            c = rms_norm(t, others["C norm"], c, "c_layernorm")
        if mixer.weightless_norms:
            b, c, step = (
                normalise(t, NormWeights(WEIGHTLESS, None, None), x, f"{name}_layernorm")
                for name, x in (("b", b), ("c", c), ("dt", step))
            )
        dt = ops.matmul(t, step, ops.view(t, linears["dt_proj"].weight), (batch, sequence, inner), "time step")
        dt = ops.contiguous(t, dt, batch, inner, sequence, label="time step, channels first")
        output = _scan(t, mixer, x, dt, a, b, c, gate, others["D"], linears["dt_proj"].bias)
        output = ops.to(t, ops.contiguous(t, output, batch, sequence, inner, label="scan output, tokens first"), dtype)
        result = linear(t, linears["out_proj"], output)
        del selected, projected, dt
        return result


def _scan(
    t: Tape,
    mixer: MambaShape,
    x: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    gate: Tensor,
    d: Tensor,
    dt_bias: Tensor | None,
) -> Tensor:
    with t.module("scan", f"{MAMBA}: mamba_selective_scan"):
        whole: Dims = (*x.dims, mixer.dim("state"))
        if dt_bias is not None:
            bias = ops.to(t, ops.to(t, dt_bias, "fp32", "bias in fp32"), dt.dtype, "bias of the step's dtype")
            dt = ops.add(t, dt, ops.view(t, bias, *dt_bias.dims), "dt with bias")
        dt = ops.activation(t, dt, "softplus")
        wide = ops.view(t, dt, *dt.dims, 1)
        discrete_a = saves_output(t, _times(t, a, wide, whole, "A dt"), "discrete A")
        discrete_b = _times(t, ops.to(t, b, "fp32", "B in fp32"), wide, whole, "discrete B")
        delta = ops.mul(t, discrete_b, ops.view(t, ops.to(t, x, "fp32", "x in fp32"), *x.dims, 1), "input of states")
        del discrete_b
        output, parts = _recurrence(t, discrete_a, delta, c, x)
        wide_d = ops.to(t, d, "fp32", "D in fp32")
        output = ops.add(t, output, ops.mul(t, ops.view(t, x), wide_d, "D residual"), "output with D residual")
        output = ops.mul(t, output, ops.activation(t, gate, "silu"), "gated output")
        del delta, parts
        return output


def _times(t: Tape, one: Tensor, other: Tensor, dims: Dims, label: str) -> Tensor:
    """A product whose factors are both spread over `dims`."""
    out = t.new(dims, ops.wider(one.dtype, other.dtype), label)
    t.tick(label)

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        made: Gradients = []
        for need in needs:
            made.append(t.new(dims, gradient.dtype, f"gradient of {label}") if need else None)
            t.tick(f"gradient of {label}")
        return made

    keep = ([one] if other.requires_grad else []) + ([other] if one.requires_grad else [])
    record(t, "mul", [one, other], [out], backward, keep)
    return out


def _recurrence(t: Tape, discrete_a: Tensor, delta: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Each token's state from the one before, and what C reads of it: stacked, and token by token.

    Backward selects every token's gradient out of zeros of the whole.
    """
    dims, narrow = discrete_a.dims, x.dtype
    start = t.new((dims[0], dims[1], dims[3]), narrow, "state before the first token")
    t.tick("state before the first token")
    kept = [discrete_a, start, c]
    if not keeps_now(t, discrete_a, delta, c):
        # Each token's state replaces the one before it.
        kept += [
            t.new((dims[0], dims[1], dims[3]), dtype, "state of one token") for dtype in (discrete_a.dtype, narrow)
        ]
    elif narrow == discrete_a.dtype:
        kept.append(t.new(dims, narrow, "states of all tokens"))
    else:
        # What is read of the last state is its 16-bit copy alone.
        before = (*dims[:2], "sequence less one", dims[3])
        kept.append(t.new(before, discrete_a.dtype, "states of all tokens but the last"))
        kept.append(t.new(dims, narrow, "states of all tokens in 16 bits"))
    parts = t.new(x.dims, narrow, "outputs of each token")
    t.tick("outputs of each token")
    out = t.new(x.dims, narrow, "stacked outputs")
    t.tick("stacked outputs")

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        made = [t.new(dims, discrete_a_dtype, f"gradient of {name}") for name in ("discrete A", "input of states")]
        selected = t.new(dims, discrete_a_dtype, "gradient of one token, in zeros of the whole")
        t.tick("gradients of all tokens")
        of_c = t.new(c_dims, narrow, "gradient of C")
        t.tick("gradient of C")
        del selected
        return [*made, of_c]

    discrete_a_dtype, c_dims = discrete_a.dtype, c.dims
    record(t, "recurrence", [discrete_a, delta, c], [out], backward, kept)
    return out, parts
