"""Label smoothing as transformers' Trainer adds it: a loss of its own on the logits that the model returns.

Source: transformers 5.24 `trainer_pt_utils.py: LabelSmoother.__call__`, for which `trainer.py: compute_loss` takes the
labels away from the model: there is no cast to fp32, and the log-softmax is kept beside its negative.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dims, Tape, Tensor

SMOOTHER = "transformers 5.24, trainer_pt_utils.py: LabelSmoother"
SHIFTED = "predicted positions"


def smoothed_loss(t: Tape, logits: Tensor, *, shifted: bool = False, single_sequence: bool = False) -> Tensor:
    """The loss on `logits`; `shifted`: on all but the last position, which of several sequences is a copy."""
    with t.module("loss", SMOOTHER):
        if shifted:
            logits = _without_last(t, logits, copied=not single_sequence)
        negated = ops.elementwise(t, _log_softmax(t, logits), "negative log-softmax")
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        record(t, "label smoothing", [negated], [loss], _smoothed_backward, [negated])
        return loss


def _without_last(t: Tape, logits: Tensor, *, copied: bool) -> Tensor:
    whole, dtype = logits.dims, logits.dtype
    dims: Dims = (whole[0], SHIFTED, *whole[2:])
    out = t.new(dims, dtype, "shifted logits") if copied else logits.handle(dims, view=True)
    if copied:
        t.tick("shifted logits")

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        made = t.new(whole, dtype, "gradient of logits")
        t.tick("gradient of logits")
        return [made]

    record(t, "shift", [logits], [out], backward)
    return out


def _log_softmax(t: Tape, logits: Tensor) -> Tensor:
    """Autocast runs it in fp32."""
    logits = ops.to(t, logits, "fp32", "logits cast by autocast") if t.autocast else logits
    logarithms = t.new(logits.dims, logits.dtype, "log-softmax")
    t.tick("log-softmax")
    record(t, "log-softmax", [logits], [logarithms], _log_softmax_backward, [logarithms])
    return logarithms


def _log_softmax_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    out = t.new(saved[0].dims, saved[0].dtype, "gradient of logits")
    t.tick("log-softmax backward")
    return [out]


def _smoothed_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    """The sum's gradient is written out where it is cast, the target's is scattered into zeros, and both are added."""
    assert isinstance(saved, list)
    dims, dtype = saved[0].dims, saved[0].dtype
    parts = [] if dtype == "fp32" else [t.new(dims, dtype, "gradient of the sum")]
    zeros = t.new(dims, dtype, "zeros")
    parts.append(t.new(dims, dtype, "gradient of the targets"))
    t.tick("gradient of the targets")
    del zeros
    # The targets' gradient was the last to need what was saved.
    saved.clear()
    total = t.new(dims, dtype, "gradient of the negative")
    t.tick("gradient of the negative")
    parts.clear()
    return [total]
