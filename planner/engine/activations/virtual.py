"""Prompt and prefix tuning: trained tokens in front of the sequence, or of each layer's keys and values.

Source: peft 0.21, `peft_model.py: PeftModelForCausalLM.forward`, `tuners/prefix_tuning/model.py`.
"""

from planner.engine.activations.autograd import Backward, Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dims, Tape, Tensor

PEFT_PROMPT = "peft 0.21, peft_model.py: PeftModelForCausalLM.forward"
PEFT_PREFIX = "peft 0.21, tuners/prefix_tuning/model.py: trained keys and values of each layer"


def hold_prompt(t: Tape, embedded: Tensor) -> None:
    """peft's forward holds the trained tokens and the joined sequence while the model runs."""
    if t.techniques.virtual_tokens != "prompt":
        return
    with t.module("prompt", PEFT_PROMPT):
        batch, _, width = embedded.dims
        t.held += [embedded.handle(), t.new((batch, "virtual tokens", width), embedded.dtype, "trained tokens")]
        t.tick("trained tokens")


def with_prefix(t: Tape, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values behind trained ones, in a cache that peft's forward holds while the model runs."""
    with t.module("prefix", PEFT_PREFIX):
        found = [_joined(t, x, name) for x, name in ((keys, "keys"), (values, "values"))]
        if not t.in_backward:
            t.held += [x.handle() for x in found]
        return found[0], found[1]


def _joined(t: Tape, x: Tensor, name: str) -> Tensor:
    batch, _, *rest = x.dims
    prefix = t.trained(f"prefix of {name}", ("virtual tokens", *rest), "fp32")
    own: Dims = (batch, "virtual tokens", *rest)
    # The prefix comes in the dtype of the weights, which autocast leaves in fp32.
    dtype = "fp32" if t.autocast else x.dtype
    copy = t.new(own, dtype, f"{name} of the prefix")
    t.tick(f"{name} of the prefix")
    record(t, "prefix", [prefix], [copy], _whole(own))
    joined = t.new((batch, "prefix and sequence", *rest), dtype, f"prefix and {name}")
    t.tick(f"prefix and {name}")
    record(t, "cat", [copy, x], [joined], _parts(own, x.dims))
    return joined


def _whole(dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(dims)]

    return backward


def _parts(*dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(part, view=True) if need else None for part, need in zip(dims, needs, strict=True)]

    return backward
