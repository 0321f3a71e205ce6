"""The loss of a language model: over whole logits, in place, or piece by piece with the head.

Sources: transformers 5.24 `loss/loss_utils.py: ForCausalLMLoss`; Liger-Kernel `ops/fused_linear_cross_entropy.py` and
`ops/cross_entropy.py`; torchtune `modules/loss/ce_chunked_output_loss.py`.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.functions import saves_output
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Tape, Tensor

LOSS = "transformers 5.24, loss/loss_utils.py: ForCausalLMLoss"
FUSED_LINEAR = "Liger-Kernel, ops/fused_linear_cross_entropy.py: gradients are made in forward, chunk by chunk"
FUSED = "Liger-Kernel, ops/cross_entropy.py: the gradient overwrites the logits"
CHUNKED = "torchtune, modules/loss/ce_chunked_output_loss.py: fp32 logits of one chunk at a time"


def loss_forward(t: Tape, recipe: Recipe, logits: Tensor, labels: Tensor) -> Tensor:
    """`ForCausalLMLoss`: logits in fp32, labels shifted by one, cross entropy."""
    with t.module("loss", LOSS):
        if recipe.loss_upcast:
            logits = ops.to(t, logits, "fp32", "logits in fp32")
        with t.no_grad():
            padded = t.new(labels.dims, "int64", "padded labels")
            t.tick("padded labels")
            shifted = t.new(labels.dims, "int64", "shifted labels")
            t.tick("shifted labels")
        del padded
        return cross_entropy(t, ops.view(t, logits), shifted)


def cross_entropy(t: Tape, logits: Tensor, labels: Tensor) -> Tensor:
    """`F.cross_entropy`: log-softmax, whose output is kept, and the negative log-likelihood."""
    dtype = "fp32" if t.autocast else logits.dtype
    logits = ops.to(t, logits, dtype, "logits cast by autocast")
    logarithms = t.new(logits.dims, dtype, "log-softmax")
    t.tick("log-softmax")
    record(t, "log-softmax", [logits], [logarithms], _log_softmax_backward, [logarithms])
    loss = t.new((), dtype, "loss")
    t.tick("loss")
    record(t, "nll", [logarithms], [loss], _nll_backward, [logarithms, labels])
    return loss


def _nll_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    out = t.new(saved[0].dims, saved[0].dtype, "gradient of log-softmax output")
    t.tick("loss backward")
    return [out]


def _log_softmax_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    out = t.new(saved[0].dims, saved[0].dtype, "gradient of logits")
    t.tick("log-softmax backward")
    return [out]


def fused_cross_entropy(t: Tape, logits: Tensor) -> Tensor:
    """Cross entropy in one kernel that writes the gradient over the logits: nothing else of their size exists."""
    with t.module("loss", FUSED):
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        record(t, "fused cross entropy", [logits], [loss], _overwritten, [logits])
        return loss


def _overwritten(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    t.tick("loss backward, in place")
    return [saved[0].handle()]


def fused_linear_loss(t: Tape, head: Linear, hidden_states: Tensor) -> Tensor:
    """Head and loss together: only a chunk of logits exists, and forward already makes the gradients of its inputs."""
    with t.module("loss", FUSED_LINEAR):
        weight = head.weight
        made = [t.new(hidden_states.dims, hidden_states.dtype, "gradient of hidden states")]
        if weight.requires_grad:
            made.append(t.new(weight.dims, "fp32" if t.autocast else weight.dtype, "gradient of the head", "gradient"))
        logits = t.new(("loss chunk", "vocabulary"), t.autocast or weight.dtype, "logits of one chunk")
        t.tick("logits of one chunk")
        del logits
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        record(t, "fused linear loss", [hidden_states, weight], [loss], _as_saved, made)
        return loss


def _as_saved(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    t.tick("loss backward")
    found = list(saved)
    return [found[0].handle() if needs[0] else None, found[1].handle() if needs[1] else None]


def chunked_loss(t: Tape, head: Linear, hidden_states: Tensor) -> Tensor:
    """All logits in 16 bits, the fp32 copy and the log-softmax of one chunk after the other; each chunk's is kept."""
    with t.module("loss", CHUNKED):
        logits = linear(t, head, hidden_states)
        copy = t.new(("loss chunk", "vocabulary"), "fp32", "fp32 logits of one chunk")
        logarithms = t.new(("batch", "sequence", "vocabulary"), "fp32", "log-softmax of all chunks")
        t.tick("log-softmax of the last chunk")
        del copy
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        record(t, "chunked loss", [logits], [loss], _chunk_by_chunk, [logarithms])
        return loss


def _chunk_by_chunk(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    whole = t.new(saved[0].dims, "bf16", "gradient of logits")
    chunk = t.new(("loss chunk", "vocabulary"), "fp32", "gradient of one chunk")
    t.tick("loss backward, chunk by chunk")
    del chunk
    return [whole]


def head_logits(t: Tape, recipe: Recipe, head: Linear, hidden_states: Tensor, *, softcap: bool = False) -> Tensor:
    """The output projection, over all positions or the last one only; `softcap`: capped by a tanh, as in Gemma 2."""
    if recipe.logits == "last":
        hidden_states = ops.view(t, hidden_states, "batch", 1, hidden_states.dims[-1])
    logits = linear(t, head, hidden_states)
    if softcap:
        logits = ops.elementwise(t, logits, "logits over the cap")
        logits = saves_output(t, logits, "tanh")
        logits = ops.elementwise(t, logits, "capped logits")
    return logits


def causal_loss(
    t: Tape, recipe: Recipe, head: Linear, hidden_states: Tensor, labels: Tensor, *, softcap: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Head and loss of a language model; the logits too, where they are all made."""
    if recipe.loss == "fused_linear":
        return fused_linear_loss(t, head, hidden_states), None
    if recipe.loss == "chunked":
        return chunked_loss(t, head, hidden_states), None
    logits = head_logits(t, recipe, head, hidden_states, softcap=softcap)
    if recipe.loss == "fused_cross_entropy":
        return fused_cross_entropy(t, logits), logits
    return loss_forward(t, recipe, logits, labels), logits
