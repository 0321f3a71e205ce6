"""The mixer of Mamba 1 in plain PyTorch, as transformers runs it where the `mamba_ssm` kernels are not installed.

The loop over the sequence is told as one operator: every step keeps its own state, so all states are kept at once.
Source: transformers 5.24, `models/mamba/modeling_mamba.py: MambaMixer.forward`, `mamba_selective_scan`, and
`models/jamba/modeling_jamba.py: JambaMambaMixer.forward`, checked against a run of them.
"""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, keeps_now, record
from planner.engine.activations.blocks import cast_weight, linear, make_linear, rms_norm
from planner.engine.activations.functions import activate, saves_output
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_scan import causal_convolution, softplus
from planner.engine.activations.ops_shape import part, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.state_space import StateWeights
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor
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
    single_sequence: bool = False
    """The batch is one sequence, so that channels and tokens change places without a copy."""

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
        out = causal_convolution(t, x, others["conv1d"], others.get("conv1d bias"), longer)
        x = activate(t, part(t, out, batch, inner, sequence), "silu")
        del out
        selected = linear(t, linears["x_proj"], _swapped(t, mixer, x, batch, sequence, inner, label="input of x_proj"))
        step, b, c = split(
            t, selected, (batch, sequence, mixer.dim("step rank")), (batch, sequence, state), (batch, sequence, state)
        )
        del selected
        if mixer.inner_norms:
            step = rms_norm(t, others["dt norm"], step, "dt_layernorm")
            b = rms_norm(t, others["B norm"], b, "b_layernorm")
            c = rms_norm(t, others["C norm"], c, "c_layernorm")
        if mixer.weightless_norms:
            b, c, step = (
                normalise(t, NormWeights(WEIGHTLESS, None, None), x, f"{name}_layernorm")
                for name, x in (("b", b), ("c", c), ("dt", step))
            )
        weight = linears["dt_proj"].weight
        if t.autocast:
            weight, step = cast_weight(t, weight), ops.to(t, step, t.autocast)
        dt = ops.matmul(t, step, ops.view(t, weight), (batch, sequence, inner), "time step")
        del weight
        del step
        dt = _swapped(t, mixer, dt, batch, inner, sequence, label="time step, channels first")
        output = _scan(t, mixer, x, dt, a, b, c, gate, others["D"], linears["dt_proj"].bias)
        output = ops.to(t, ops.to(t, output, dtype), t.autocast or dtype)
        output = _swapped(t, mixer, output, batch, sequence, inner, label="scan output, tokens first")
        result = linear(t, linears["out_proj"], output)
        del projected, dt
        return result


def _swapped(t: Tape, mixer: MambaShape, x: Tensor, *dims: Dim, label: str) -> Tensor:
    """Channels and tokens in the other order; a product over several sequences copies them."""
    return ops.view(t, x, *dims) if mixer.single_sequence else ops.contiguous(t, x, *dims, label=label)


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
        dt = softplus(t, dt)
        wide = ops.view(t, dt, *dt.dims, 1)
        discrete_a = saves_output(t, _times(t, a, wide, whole, "A dt"), "discrete A")
        discrete_b = _times(t, ops.to(t, b, "fp32", "B in fp32"), wide, whole, "discrete B")
        delta = ops.mul(t, discrete_b, ops.view(t, ops.to(t, x, "fp32", "x in fp32"), *x.dims, 1), "input of states")
        output, loop = _recurrence(t, discrete_a, delta, c, x)
        wide_d = ops.to(t, d, "fp32", "D in fp32")
        output = ops.add(t, output, ops.mul(t, ops.view(t, x), wide_d, "D residual"), "output with D residual")
        output = ops.mul(t, output, ops.activation(t, gate, "silu"), "gated output")
        del discrete_b, delta, loop
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


def _recurrence(t: Tape, discrete_a: Tensor, delta: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """What C reads of each token's state, which is made from the one before; and what the loop's names still hold.

    Those are the outputs token by token and the last state. Backward selects every token's gradient out of zeros of
    the whole.
    """
    dims, narrow, wide = discrete_a.dims, x.dtype, discrete_a.dtype
    of_token, before = (dims[0], dims[1], dims[3]), (*dims[:2], "sequence less one", dims[3])
    start = t.new(of_token, narrow, "state before the first token")
    t.tick("state before the first token")
    kept = [discrete_a, start, c]
    earlier = [t.new((*x.dims[:2], "sequence less one"), narrow, "outputs of all tokens but the last")]
    if keeps_now(t, discrete_a, delta, c):
        kept.append(t.new(before, wide, "states of all tokens but the last"))
        if narrow != wide:
            kept.append(t.new(before, narrow, "16-bit states of all tokens but the last"))
    else:
        # Each token's state replaces the one before it.
        del start, kept[1]
        earlier.append(t.new(of_token, wide, "state of the token before"))
    product = t.new(of_token, wide, "state of the token before, decayed")
    state = t.new(of_token, wide, "state of the last token")
    t.tick("state of the last token")
    del product, earlier[1:]
    # What is read of the last state is its 16-bit copy alone, where there is one.
    read = ops.to(t, state, narrow, "16-bit state of the last token")
    kept.append(read)
    parts = [*earlier, t.new((*x.dims[:2], 1), narrow, "output of the last token")]
    t.tick("output of the last token")
    del read
    if not keeps_now(t, discrete_a, delta, c):
        del kept[1:]
    out = t.new(x.dims, narrow, "stacked outputs")
    t.tick("stacked outputs")

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        made = [t.new(dims, wide, f"gradient of {name}") for name in ("discrete A", "input of states")]
        selected = t.new(dims, wide, "gradient of one token, in zeros of the whole")
        t.tick("gradients of all tokens")
        of_c = t.new(c_dims, narrow, "gradient of C")
        t.tick("gradient of C")
        del selected
        return [*made, of_c]

    c_dims = c.dims
    record(t, "recurrence", [discrete_a, delta, c], [out], backward, kept)
    return out, [*parts, state]
