"""What stands on an encoder for its task: predictions of tokens, labels of sequences or tokens, spans of answers.

Sources: transformers 5.24 `BertForMaskedLM`, `BertForSequenceClassification`, `RobertaClassificationHead`,
`DistilBertForSequenceClassification` and the like.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.functions import activate, saves_output
from planner.engine.activations.loss import cross_entropy, fused_cross_entropy, head_and_loss
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import part
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.model.spec import Head, NormPart, Task
from planner.model.spec import Linear as LinearPart


@dataclass(frozen=True, slots=True)
class HeadShape:
    """A head without its sizes."""

    task: Task
    tied: bool
    bias: bool
    activation: str
    dense: bool
    dense_bias: bool
    norm: NormPart | None
    dropout: bool
    pooled: bool
    """The stack ends in a pooler over its first token, which the head reads."""
    inputs: Dim


@dataclass(slots=True)
class HeadWeights:
    shape: HeadShape
    projection: Linear
    dense: Linear | None = None
    norm: NormWeights | None = None
    pooler: Linear | None = None
    extra: list[Tensor] = field(default_factory=list)


def head_shape(head: Head, task: Task, *, activation: str, pooled: bool, training: bool, inputs: Dim) -> HeadShape:
    """`activation` is that of the layers, which the transform before a token prediction shares."""
    norms = [piece for piece in head.before if isinstance(piece, NormPart)]
    return HeadShape(
        task,
        head.tied,
        head.bias,
        head.activation or activation,
        any(isinstance(piece, LinearPart) for piece in head.before),
        any(isinstance(piece, LinearPart) and piece.bias for piece in head.before),
        NormPart("LayerNorm", 0, norms[0].norm) if norms else None,
        training and head.dropout > 0,
        pooled,
        inputs,
    )


def make_head(book: WeightBook, shape: HeadShape, embedding: Tensor, width: Dim = "hidden") -> HeadWeights:
    """The weights of a head over states of `width`."""
    inner = shape.inputs if shape.task == "masked-lm" else width
    pooler = book.linear("pooler", (width,), (width,)) if shape.pooled else None
    # Adapters reach the transform before a token prediction; a classifier is trained whole.
    role = "dense" if shape.task == "masked-lm" else "classifier"
    dense = book.linear(role, (width,), (inner,), shape.dense_bias) if shape.dense else None
    norm = book.norm("head norm", (inner,), shape.norm.norm) if shape.norm is not None else None
    rows: Dims = ("table rows",) if shape.task == "masked-lm" else ("vocabulary",)
    projection = book.linear(
        "lm_head", (inner,), ("vocabulary",), shape.bias, rows=rows, tied=embedding if shape.tied else None
    )
    return HeadWeights(shape, projection, dense, norm, pooler)


def head_labels(t: Tape, head: HeadShape | None) -> list[Tensor]:
    """What the batch holds for the loss: labels of tokens, of sequences, or the two ends of a span."""
    if head is None:
        return []
    if head.task in ("masked-lm", "token-classification"):
        return [t.new(("batch", "sequence"), "int64", "labels")]
    count = 2 if head.task == "question-answering" else 1
    return [t.new(("batch",), "int64", "labels") for _ in range(count)]


def transform(t: Tape, head: HeadWeights, hidden_states: Tensor) -> Tensor:
    """`BertPredictionHeadTransform.forward`."""
    with t.module("transform"):
        if head.dense is not None:
            hidden_states = linear(t, head.dense, hidden_states)
            hidden_states = activate(t, hidden_states, head.shape.activation)
        if head.norm is not None:
            hidden_states = normalise(t, head.norm, hidden_states, "LayerNorm")
        return hidden_states


def classify(t: Tape, head: HeadWeights, sequence_output: Tensor) -> Tensor:
    """Logits over labels: of the first token's state, or of every token."""
    shape = head.shape
    if shape.task != "sequence-classification":
        hidden_states = ops.dropout(t, sequence_output) if shape.dropout else sequence_output
        return linear(t, head.projection, hidden_states)
    width = sequence_output.dims[-1]
    if head.pooler is not None:
        pooled = pooled_state(t, head.pooler, sequence_output)
    else:
        pooled = part(t, sequence_output, "batch", width)
        if head.dense is not None:
            if shape.dropout and shape.activation != "relu":
                pooled = ops.dropout(t, pooled)
            pooled = linear(t, head.dense, pooled)
            pooled = (
                saves_output(t, pooled, "tanh") if shape.activation == "tanh" else activate(t, pooled, shape.activation)
            )
    if shape.dropout:
        pooled = ops.dropout(t, pooled)
    return linear(t, head.projection, pooled)


def pooled_state(t: Tape, pooler: Linear, sequence_output: Tensor) -> Tensor:
    """`BertPooler.forward`: the first token's state through a dense layer and a tanh."""
    with t.module("pooler"):
        return saves_output(t, linear(t, pooler, part(t, sequence_output, "batch", sequence_output.dims[-1])), "tanh")


def mean_loss(t: Tape, states: Tensor) -> Tensor:
    """What a model without a head is trained with here: the mean of its output."""
    with t.module("loss"):
        return mean_over(t, states)


def mean_over(t: Tape, x: Tensor, *dims: Dim) -> Tensor:
    """The mean over all dimensions but `dims`."""
    out = t.new(dims, x.dtype, "mean")
    t.tick("mean")
    whole, dtype = x.dims, x.dtype

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = t.new(whole, dtype, "gradient of the mean")
        t.tick("gradient of the mean")
        return [gradient]

    record(t, "mean", [x], [out], backward)
    return out


def logits_of(t: Tape, head: HeadWeights, hidden_states: Tensor) -> Tensor:
    if head.shape.task == "masked-lm":
        return linear(t, head.projection, transform(t, head, hidden_states))
    return classify(t, head, hidden_states)


def loss_of(
    t: Tape, recipe: Recipe, head: HeadWeights, hidden_states: Tensor, labels: Sequence[Tensor]
) -> tuple[Tensor, Tensor | None]:
    """The loss, and the logits where they are all made."""
    if head.shape.task == "masked-lm" and recipe.loss not in ("full_logits", "fused_cross_entropy"):
        fused = head_and_loss(t, recipe, head.projection, transform(t, head, hidden_states))
        if fused is not None:
            return fused, None
    logits = logits_of(t, head, hidden_states)
    if head.shape.task == "masked-lm" and recipe.loss == "fused_cross_entropy":
        return fused_cross_entropy(t, logits), logits
    return labelled_loss(t, head, logits, labels), logits


def labelled_loss(t: Tape, head: HeadWeights, logits: Tensor, labels: Sequence[Tensor]) -> Tensor:
    """Cross entropy; of a span, the mean of those of its start and its end."""
    with t.module("loss"):
        if head.shape.task != "question-answering":
            return cross_entropy(t, ops.view(t, logits), labels[0])
        ends = [ops.contiguous(t, part(t, logits, "batch", "sequence"), label="logits of one end") for _ in range(2)]
        start, end = (cross_entropy(t, logit, label, smooth=False) for logit, label in zip(ends, labels, strict=True))
        return ops.elementwise(t, ops.add(t, start, end), "mean of both ends")
