"""The loss of a language model: over whole logits, in place, or piece by piece with the head.

Sources: transformers 5.24 `loss/loss_utils.py: ForCausalLMLoss`; Liger-Kernel `ops/fused_linear_cross_entropy.py` and
`ops/cross_entropy.py`; torchtune `modules/loss/ce_chunked_output_loss.py`.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.functions import saves_output
from planner.engine.activations.log_probabilities import log_probabilities_loss
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.smoothing import smoothed_loss
from planner.engine.activations.tape import Dim, Tape, Tensor

LOSS = "transformers 5.24, loss/loss_utils.py: ForCausalLMLoss"
FUSED_LINEAR = "Liger-Kernel 0.6, ops/fused_linear_cross_entropy.py: gradients are made in forward, chunk by chunk"
CUT = "apple/ml-cross-entropy d42911f, cut_cross_entropy/cce.py: neither logits nor gradients are made in forward"
FUSED = "Liger-Kernel, ops/cross_entropy.py: the gradient overwrites the logits"
SCORES = "transformers 5.24, modeling_layers.py: GenericForSequenceClassification scores every position"
COMPILED = "torch.compile of the loss: inductor fuses cast, log-softmax and gather (torchtitan pull request 1033)"
CHUNKED = "torchtune, modules/loss/cross_entropy_loss.py, ce_chunked_output_loss.py: one chunk of logits at a time"


def loss_forward(t: Tape, recipe: Recipe, logits: Tensor, labels: Tensor) -> Tensor:
    """`ForCausalLMLoss`: logits in fp32, labels shifted by one, cross entropy."""
    if recipe.loss == "log_probabilities":
        return log_probabilities_loss(t, logits)
    if t.techniques.smoothing == "trainer":
        return smoothed_loss(t, logits, shifted=True, single_sequence=recipe.single_sequence)
    with t.module("loss", LOSS):
        if recipe.loss_upcast:
            logits = ops.to(t, logits, "fp32", "logits in fp32")
        with t.no_grad():
            padded = t.new(labels.dims, "int64", "padded labels")
            t.tick("padded labels")
            if recipe.single_sequence:
                shifted = padded
            else:
                shifted = t.new(labels.dims, "int64", "shifted labels")
                t.tick("shifted labels")
        loss = cross_entropy(t, ops.view(t, logits), shifted)
        del padded
        return loss


def cross_entropy(t: Tape, logits: Tensor, labels: Tensor, *, smooth: bool = True) -> Tensor:
    """`F.cross_entropy`: log-softmax, whose output is kept, and the negative log-likelihood.

    Autocast leaves the first in the logits' dtype, which is asked for, and casts what the second reads to fp32.
    `smooth`: the loss is one whose labels are smoothed where that is asked for.
    """
    if smooth and t.techniques.smoothing == "trainer":
        return smoothed_loss(t, logits)
    if t.techniques.loss_parallel:
        return _parallel_cross_entropy(t, logits)
    logarithms = t.new(logits.dims, logits.dtype, "log-softmax")
    t.tick("log-softmax")
    record(t, "log-softmax", [logits], [logarithms], _log_softmax_backward, [logarithms])
    if t.autocast:
        logarithms = ops.to(t, logarithms, "fp32", "log-softmax cast by autocast")
    loss = t.new((), logarithms.dtype, "loss")
    t.tick("loss")
    smoothed = smooth and t.techniques.smoothing == "loss"
    record(t, "nll", [logarithms], [loss], _smoothed_backward if smoothed else _nll_backward, [logarithms, labels])
    return loss


def _parallel_cross_entropy(t: Tape, logits: Tensor) -> Tensor:
    """torch 2.13, `distributed/tensor/parallel/loss.py`: `_log_softmax`, and one backward of both halves."""
    with t.module("loss parallel"):
        shifted = t.new(logits.dims, logits.dtype, "logits minus their maximum")
        exponentials = t.new(logits.dims, logits.dtype, "exponentials")
        t.tick("exponentials")
        del exponentials
        logarithms = t.new(logits.dims, logits.dtype, "log-softmax")
        t.tick("log-softmax")
        del shifted
        loss = t.new((), logarithms.dtype, "loss")
        t.tick("loss")
        record(t, "loss-parallel cross entropy", [logits], [loss], _parallel_backward, [logarithms])
        return loss


def _parallel_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    """`(grad_input + torch.exp(x)) * grad_output`, each a tensor of its own."""
    dims, dtype = saved[0].dims, saved[0].dtype
    targets = t.new(dims, dtype, "gradient at the targets")
    exponentials = t.new(dims, dtype, "exponentials")
    total = t.new(dims, dtype, "softmax minus the targets")
    t.tick("softmax minus the targets")
    del exponentials
    out = t.new(dims, dtype, "gradient of logits")
    t.tick("loss backward")
    del targets, total
    return [out]


def _nll_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    out = t.new(saved[0].dims, saved[0].dtype, "gradient of log-softmax output")
    t.tick("loss backward")
    return [out]


def _smoothed_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    """`cross_entropy_loss_label_smoothing`: the gradient of the mean over classes is added to that of the targets."""
    picked = t.new(saved[0].dims, saved[0].dtype, "gradient of the targets")
    t.tick("loss backward")
    out = t.new(saved[0].dims, saved[0].dtype, "gradient of log-softmax output")
    t.tick("gradient of log-softmax output")
    del picked
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


def compiled_cross_entropy(t: Tape, logits: Tensor) -> Tensor:
    """Cross entropy compiled by inductor: casts are fused away, the logits and a row of fp32 sums are kept.

    Backward writes the gradient beside the logits, in their dtype.
    """
    with t.module("loss", COMPILED):
        sums = t.new(logits.dims[:-1], "fp32", "log-sum-exp of each row")
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        record(t, "compiled cross entropy", [logits], [loss], _beside, [logits, sums])
        return loss


def _beside(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    out = t.new(saved[0].dims, saved[0].dtype, "gradient of logits")
    t.tick("loss backward")
    return [out]


def score_loss(t: Tape, scores: Tensor) -> Tensor:
    """The loss over the scores of a decoder, (b, s, outputs): nothing of a vocabulary's size exists."""
    with t.module("loss", SCORES):
        loss = t.new((), scores.dtype, "loss")
        t.tick("loss")
        record(t, "loss over scores", [scores], [loss], _beside, [scores])
        return loss


def fused_linear_loss(t: Tape, head: Linear, hidden_states: Tensor) -> Tensor:
    """Head and loss together: only a chunk of logits exists, and forward already makes the gradients of its inputs."""
    with t.module("loss", FUSED_LINEAR):
        weight = head.weight
        made = [t.new(hidden_states.dims, hidden_states.dtype, "gradient of hidden states")]
        if weight.requires_grad:
            made.append(t.new(weight.dims, "fp32" if t.autocast else weight.dtype, "gradient of the head", "gradient"))
        logits = t.new(("loss chunk", "vocabulary"), t.autocast or weight.dtype, "logits of one chunk")
        t.tick("logits of one chunk")
        if weight.requires_grad:
            # `grad_weight += torch.mm(...).float()`
            product = [
                t.new(weight.dims, t.autocast or weight.dtype, "head's gradient of one chunk"),
                t.new(weight.dims, "fp32", "head's gradient of one chunk in fp32"),
            ]
            t.tick("head's gradient of one chunk")
            del product
        del logits
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        record(t, "fused linear loss", [hidden_states, weight], [loss], _as_saved, made)
        return loss


def _as_saved(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    t.tick("loss backward")
    found = list(saved)
    return [found[0].handle() if needs[0] else None, found[1].handle() if needs[1] else None]


def cut_cross_entropy(t: Tape, head: Linear, hidden_states: Tensor) -> Tensor:
    """Head and loss in kernels that never write logits (arXiv:2411.09009); both gradients are made in backward.

    Beside its inputs it keeps a sum for each token, and the mean logit of each class, by which it skips small ones.
    """
    with t.module("loss", CUT):
        states, weight = hidden_states, head.weight
        if t.autocast:
            states, weight = (ops.to(t, x, t.autocast, "cast by autocast") for x in (states, weight))
        kept = [states, weight, t.new(states.dims[:-1], "fp32", "log-sum-exp of each token")]
        kept.append(t.new(weight.dims[:1], "fp32", "mean logit of each class"))
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        record(t, "cut cross entropy", [states, weight], [loss], _cut_backward, kept)
        return loss


def _cut_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    made: Gradients = [
        t.new(source.dims, source.dtype, f"gradient of {name}") if need else None
        for source, name, need in zip(saved, ("hidden states", "weight"), needs, strict=False)
    ]
    t.tick("loss backward")
    return made


def head_and_loss(t: Tape, recipe: Recipe, head: Linear, hidden_states: Tensor) -> Tensor | None:
    """The loss where it is made together with the logits, never holding them all; None where they come first."""
    if recipe.loss == "fused_linear":
        return fused_linear_loss(t, head, hidden_states)
    if recipe.loss == "cut_cross_entropy":
        return cut_cross_entropy(t, head, hidden_states)
    if recipe.loss == "chunked":
        return chunked_loss(t, head, hidden_states, upcast=recipe.loss_upcast)
    return None


def chunked_loss(t: Tape, head: Linear, hidden_states: Tensor, *, upcast: bool = True) -> Tensor:
    """Chunk after chunk: logits, their fp32 copy and the log-softmax, which each chunk keeps for backward.

    Head and loss run together (`LinearCrossEntropyLoss`), or the head has made all logits before, and their list is
    held until backward is done (`CEWithChunkedOutputLoss`, LitGPT).
    """
    with t.module("loss", CHUNKED):
        # Compiled, each chunk keeps its 16-bit logits instead of an fp32 log-softmax, and makes no fp32 copy.
        upcast = upcast and not t.techniques.compiled_loss
        if t.techniques.keeps_logits:
            return over_chunks(t, linear(t, head, hidden_states), upcast=upcast)
        weight, dtype = head.weight, t.autocast or hidden_states.dtype
        chunk = [t.new(("loss chunk", "vocabulary"), dtype, "logits of one chunk")]
        if upcast:
            chunk.append(t.new(("loss chunk", "vocabulary"), "fp32", "fp32 logits of one chunk"))
        kept_dtype = "fp32" if upcast else dtype
        logarithms = t.new(("batch", "sequence", "vocabulary"), kept_dtype, "log-softmax of all chunks")
        t.tick("log-softmax of the last chunk")
        del chunk
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        kept = [logarithms, hidden_states, weight]
        record(t, "chunked head and loss", [hidden_states, weight], [loss], _chunks_of_head, kept)
        return loss


def _chunks_of_head(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    logarithms, hidden_states, weight = saved
    chunk = [t.new(("loss chunk", "vocabulary"), logarithms.dtype, "gradient of one chunk") for _ in range(2)]
    t.tick("loss backward of one chunk")
    chunk.append(t.new(("loss chunk", "vocabulary"), hidden_states.dtype, "gradient of one chunk's logits"))
    t.tick("gradient of one chunk's logits")
    del chunk
    own = t.new(weight.dims, weight.dtype, "gradient of weight") if needs[1] else None
    if needs[1]:
        added = t.new(weight.dims, weight.dtype, "gradient of weight of the next chunk")
        t.tick("gradient of weight of the next chunk")
        del added
    whole = t.new(hidden_states.dims, hidden_states.dtype, "gradient of hidden states")
    t.tick("gradient of hidden states")
    return [whole if needs[0] else None, own]


def over_chunks(t: Tape, logits: Tensor, *, upcast: bool, chunk: Dim = "loss chunk") -> Tensor:
    """Chunk after chunk of logits that are all there already."""
    dtype = "fp32" if upcast else logits.dtype
    copy = t.new((chunk, "vocabulary"), "fp32", "fp32 logits of one chunk") if upcast else None
    logarithms = t.new(logits.dims, dtype, "log-softmax of all chunks")
    t.tick("log-softmax of the last chunk")
    del copy
    loss = t.new((), "fp32", "loss")
    t.tick("loss")
    logits_dtype = logits.dtype

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        dims = saved[0].dims
        first = [t.new((chunk, "vocabulary"), dtype, "gradient of one chunk") for _ in range(2)]
        t.tick("loss backward, first chunk")
        # Chunk by chunk the log-softmax dies and its gradient takes the place.
        assert isinstance(saved, list)
        saved.clear()
        whole = t.new(dims, logits_dtype, "gradient of logits")
        t.tick("loss backward, last chunk")
        del first
        return [whole]

    record(t, "chunked loss", [logits], [loss], backward, [logarithms, logits])
    return loss


def head_logits(
    t: Tape, recipe: Recipe, head: Linear, hidden_states: Tensor, *, softcap: bool = False, scaled: bool = False
) -> Tensor:
    """The output projection, over all positions or the last one only.

    `softcap`: capped by a tanh, as in Gemma 2; `scaled`: multiplied or divided by a constant, as in Cohere and Granite.
    """
    if recipe.logits == "last":
        hidden_states = ops.view(t, hidden_states, "batch", 1, hidden_states.dims[-1])
    logits = linear(t, head, hidden_states)
    if softcap:
        logits = ops.elementwise(t, logits, "logits over the cap")
        logits = saves_output(t, logits, "tanh")
        logits = ops.elementwise(t, logits, "capped logits")
    if scaled:
        logits = ops.elementwise(t, logits, "scaled logits")
    return logits


def causal_loss(
    t: Tape,
    recipe: Recipe,
    head: Linear,
    hidden_states: Tensor,
    labels: Tensor,
    *,
    softcap: bool = False,
    scaled: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Head and loss of a language model; the logits too, where they are all made."""
    if recipe.scores:
        scores = head_logits(t, recipe, head, hidden_states)
        return score_loss(t, scores), scores
    loss = head_and_loss(t, recipe, head, hidden_states)
    if loss is not None:
        return loss, None
    logits = head_logits(t, recipe, head, hidden_states, softcap=softcap, scaled=scaled)
    if recipe.techniques.compiled_loss and recipe.loss == "full_logits":
        return compiled_cross_entropy(t, logits), logits
    if recipe.loss == "fused_cross_entropy":
        return fused_cross_entropy(t, logits), logits
    return loss_forward(t, recipe, logits, labels), logits
