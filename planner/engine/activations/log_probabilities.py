"""The log-probability of each chosen token, which preference and reinforcement tuning train with.

Source: TRL 1.10 `trainer/utils.py: selective_log_softmax`, called on the logits of all positions but the last
(`dpo_trainer.py`, `grpo_trainer.py`, `experimental/ppo/ppo_trainer.py`). What torch 2.13 makes was read off a profile
of its allocator, sequence by sequence.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dims, Tape, Tensor

SELECTIVE = "TRL 1.10, trainer/utils.py: selective_log_softmax"
ROW: Dims = ("predicted positions", "vocabulary")
ROWS: Dims = ("batch", *ROW)


def log_probabilities_loss(t: Tape, logits: Tensor) -> Tensor:
    """Log-probabilities of one sequence after the other, and what is made of them, which has no vocabulary.

    Logits in 16 bits: a log-softmax of each sequence, which is kept. In fp32: a log-sum-exp, and the logits are kept.
    Mixed precision makes them fp32 (accelerate `utils/operations.py: convert_outputs_to_fp32`).
    """
    with t.module("log-probabilities", SELECTIVE):
        if t.autocast:
            logits = ops.to(t, logits, "fp32", "logits in fp32")
        if logits.dtype == "fp32":
            return _by_log_sum_exp(t, logits)
        logarithms = t.new(ROWS, logits.dtype, "log-softmax of all sequences")
        t.tick("log-softmax of the last sequence")
        loss = t.new((), logits.dtype, "loss")
        t.tick("loss")
        record(t, "log-probabilities", [logits], [loss], _log_softmax_backward, [logarithms])
        return loss


def _by_log_sum_exp(t: Tape, logits: Tensor) -> Tensor:
    exponentials = t.new(ROW, "fp32", "exponentials of one sequence")
    t.tick("log-sum-exp of one sequence")
    del exponentials
    loss = t.new((), "fp32", "loss")
    t.tick("loss")
    record(t, "log-probabilities", [logits], [loss], _log_sum_exp_backward, [logits])
    return loss


def _log_softmax_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    """A sequence's log-softmax dies as its gradient is made; then the gradients are stacked."""
    dtype = saved[0].dtype
    picked = t.new(ROW, dtype, "gradient of one log-softmax")
    first = t.new(ROW, dtype, "gradient of one sequence")
    t.tick("log-softmax backward, one sequence")
    del picked, first
    assert isinstance(saved, list)
    saved.clear()
    return [_stacked(t, dtype)]


def _log_sum_exp_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    """`grad * (self - result).exp()`: each a tensor of its own, and the logits stay until the last."""
    rows = t.new(ROWS, "fp32", "gradients of the sequences")
    parts = [t.new(ROW, "fp32", name) for name in ("differences of one sequence", "exponentials of one sequence")]
    t.tick("log-sum-exp backward, last sequence")
    del parts
    stacked = t.new(ROWS, "fp32", "gradients stacked")
    t.tick("gradients stacked")
    del rows
    picked = t.new(ROWS, "fp32", "gradient at the chosen tokens")
    t.tick("gradient at the chosen tokens")
    del picked
    assert isinstance(saved, list)
    saved.clear()
    return [_of_all_positions(t, stacked)]


def _stacked(t: Tape, dtype: str) -> Tensor:
    rows = t.new(ROWS, dtype, "gradients of the sequences")
    stacked = t.new(ROWS, dtype, "gradients stacked")
    t.tick("gradients stacked")
    del rows
    return _of_all_positions(t, stacked)


def _of_all_positions(t: Tape, stacked: Tensor) -> Tensor:
    """The last position was cut off, so that the gradient of the whole is a copy."""
    whole = t.new(("batch", "sequence", "vocabulary"), stacked.dtype, "gradient of logits")
    t.tick("gradient of logits")
    return whole
