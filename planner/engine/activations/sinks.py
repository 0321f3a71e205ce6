"""Attention with a learned sink per head, as gpt-oss computes it step by step.

Source: transformers 5.24, `models/gpt_oss/modeling_gpt_oss.py: eager_attention_forward`, checked against a run of it.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import layer_dims
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_shape import cat, part
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor

GPT_OSS = "transformers 5.24, models/gpt_oss/modeling_gpt_oss.py"


def sink_attention(
    t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The output, and the attention weights: scores with one more column, whose share of the softmax goes nowhere."""
    with t.module("eager", f"{GPT_OSS}: eager_attention_forward"):
        heads, length = layer_dims(shape, "heads"), key.dims[1]
        if shape.grouped_queries:
            key, value = (ops.repeat(t, x, (*x.dims[:2], heads, x.dims[-1]), "repeated") for x in (key, value))
        else:
            key, value = key, ops.contiguous(t, value, label="values, contiguous")
        rows: Dims = (query.dims[0], heads, query.dims[1])
        if t.autocast:
            query, key, value = (ops.to(t, x, t.autocast) for x in (query, key, value))
        scores = ops.matmul(t, ops.view(t, query), ops.view(t, key), (*rows, length), "scores")
        weights = ops.elementwise(t, ops.view(t, scores), "scaled scores")
        del scores
        if mask is not None:
            weights = ops.add(t, weights, mask, "masked scores")
        sink = ops.view(t, ops.to(t, sinks, weights.dtype), *rows, 1)
        combined = cat(t, [weights, sink], (*rows, "keys and sink"), "scores and sink")
        combined = _less_maximum(t, combined)
        probabilities = ops.softmax(t, combined, combined.dtype)
        weights = ops.to(t, part(t, probabilities, *rows, length), value.dtype)
        del probabilities
        output = ops.view(t, ops.matmul(t, weights, ops.view(t, value), query.dims, "output"))
        output = ops.contiguous(t, output, label="attention output, contiguous")
        del combined
        return output, weights


def _less_maximum(t: Tape, x: Tensor) -> Tensor:
    """`x - x.max(dim=-1, keepdim=True).values`; the places of the maxima are kept."""
    rows = (*x.dims[:-1], 1)
    values = t.new(rows, x.dtype, "largest scores")
    places = t.new(rows, "int64", "places of the largest")
    t.tick("largest scores")
    whole = x.dims

    def spread(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        zeros = t.new(whole, gradient.dtype, "gradient of the largest")
        t.tick("gradient of the largest")
        return [zeros]

    record(t, "max", [x], [values], spread, [places])
    out = t.new(x.dims, x.dtype, "scores below the largest")
    t.tick("scores below the largest")
    record(t, "sub", [x, values], [out], _negated)
    return out


def _negated(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = gradients[0]
    assert gradient is not None
    negative = t.new(gradient.dims, gradient.dtype, "negative gradient")
    t.tick("negative gradient")
    return [gradient.handle(), negative]


def sinks_of_kernel(t: Tape, output: Tensor, sinks: Tensor) -> Tensor:
    """The output of a flash kernel that takes the sinks itself: their gradient comes from it too."""
    out = output.handle()
    record(t, "sinks", [output, sinks], [out], _with_sinks, [sinks])
    return out


def _with_sinks(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = gradients[0]
    assert gradient is not None
    made = t.new(saved[0].dims, saved[0].dtype, "gradient of sinks") if needs[1] else None
    t.tick("gradient of sinks")
    return [gradient.handle() if needs[0] else None, made]
