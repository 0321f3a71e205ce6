"""DeBERTa's attention: scores of content to content, of content to positions, and of positions to content.

Source: transformers 5.24, `models/deberta_v2/modeling_deberta_v2.py: DisentangledSelfAttention`.
"""

from collections.abc import Sequence

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import Linear, layer_dims, linear
from planner.engine.activations.encoders import EncoderLayer
from planner.engine.activations.ops_conv import add_in_place
from planner.engine.activations.ops_shape import reshape
from planner.engine.activations.tape import Dims, Tape, Tensor

DEBERTA = "transformers 5.24, models/deberta_v2/modeling_deberta_v2.py: DisentangledSelfAttention"
DISTANCES = "relative rows"


def disentangled_attention(
    t: Tape,
    layer: EncoderLayer,
    hidden_states: Tensor,
    mask: Tensor,
    relative_pos: Tensor,
    rel_embeddings: Tensor,
    *,
    drops: bool,
) -> Tensor:
    """`DisentangledSelfAttention.forward`; the output is still to be projected."""
    with t.module("self", DEBERTA):
        linears, heads = layer.linears, layer_dims(layer.shape.layer, "heads")
        query = _transposed(t, layer, linears["q_proj"], hidden_states)
        key = _transposed(t, layer, linears["k_proj"], hidden_states)
        value = _transposed(t, layer, linears["v_proj"], hidden_states)
        dims = (query.dims[0], heads, query.dims[1], key.dims[1])
        scores = ops.matmul(t, query, ops.elementwise(t, key, "scaled keys"), dims, "scores of contents")
        rel_embeddings = ops.dropout(t, rel_embeddings) if drops else rel_embeddings
        bias = _position_scores(t, layer, query, key, relative_pos, rel_embeddings)
        scores = ops.add(t, scores, bias, "sum of scores")
        with t.no_grad():
            kept = t.new(mask.dims, "bool", "mask as a boolean")
            t.tick("mask as a boolean")
        scores = _masked(t, scores, kept)
        if t.autocast:
            fp32 = ops.to(t, scores, "fp32", "scores cast by autocast")
            probabilities = ops.softmax(t, fp32, "fp32")
            del fp32
        else:
            probabilities = ops.softmax(t, scores, scores.dtype)
        if layer.shape.layer.attention_dropout:
            probabilities = ops.dropout(t, probabilities)
        seen = ops.to(t, probabilities, t.autocast, "probabilities cast by autocast") if t.autocast else probabilities
        context = ops.matmul(t, seen, value, query.dims, "context")
        del seen
        return ops.contiguous(t, context, label="context, contiguous")


def _transposed(t: Tape, layer: EncoderLayer, projection: Linear, x: Tensor) -> Tensor:
    """`transpose_for_scores`: the heads of a projection copied one behind the other."""
    shape = layer.shape.layer
    dims = (*x.dims[:2], layer_dims(shape, "heads"), layer_dims(shape, "head dim"))
    projected = linear(t, projection, x)
    return ops.contiguous(t, reshape(t, projected, *dims), label="heads, contiguous")


def _position_scores(
    t: Tape, layer: EncoderLayer, query: Tensor, key: Tensor, relative_pos: Tensor, rel_embeddings: Tensor
) -> Tensor:
    """`disentangled_attention_bias` with the projections of the contents."""
    with t.module("positions"):
        rows = ops.view(t, rel_embeddings, 1, *rel_embeddings.dims)
        linears = layer.linears
        per_sequence = (query.dims[0], DISTANCES, *query.dims[2:])
        pos_query = ops.repeat(t, _transposed(t, layer, linears["q_proj"], rows), per_sequence, "queries of positions")
        pos_key = ops.repeat(t, _transposed(t, layer, linears["k_proj"], rows), per_sequence, "keys of positions")
        # Both scores and their places keep their names until the sum is returned.
        c2p = _all_scores(t, query, pos_key)
        c2p_places = _distances(t, relative_pos)
        c2p = _gather(t, c2p, c2p_places, _pairs(query))
        score = ops.shift(t, ops.elementwise(t, c2p, "scaled scores"), "scores of contents to positions")
        p2c_places = _distances(t, relative_pos)
        p2c = _all_scores(t, key, pos_query)
        p2c = _gather(t, p2c, p2c_places, _pairs(key))
        return add_in_place(t, score, ops.elementwise(t, p2c, "scaled scores"))


def _all_scores(t: Tape, contents: Tensor, positions: Tensor) -> Tensor:
    """Scores against all positions."""
    return ops.matmul(t, contents, positions, (*_pairs(contents)[:3], DISTANCES), "scores of all positions")


def _pairs(contents: Tensor) -> Dims:
    batch, length, heads = contents.dims[:3]
    return batch, heads, length, length


def _distances(t: Tape, relative_pos: Tensor) -> Tensor:
    """Which of all positions each pair of tokens takes the score of."""
    with t.no_grad():
        distances = t.new(relative_pos.dims, "int64", "distances")
        shifted = t.new(relative_pos.dims, "int64", "distances before clamping")
        t.tick("distances")
        del shifted
        return distances


def _gather(t: Tape, x: Tensor, indices: Tensor, dims: Dims) -> Tensor:
    """`torch.gather`: keeps its input and the indices; backward adds into zeros, twice as large while it runs."""
    out = t.new(dims, x.dtype, "gathered scores")
    t.tick("gather")
    whole = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        zeros = t.new(whole, saved[0].dtype, "zeros")
        t.tick("zeros")
        gradient = t.new(whole, saved[0].dtype, "gradient of scores")
        t.tick("gather backward")
        del zeros
        return [gradient]

    record(t, "gather", [x], [out], backward, [x, indices])
    return out


def _masked(t: Tape, scores: Tensor, kept: Tensor) -> Tensor:
    """`masked_fill`: keeps the mask it was given, here the inverse of `kept`."""
    with t.no_grad():
        hidden = t.new(kept.dims, "bool", "inverse mask")
        t.tick("inverse mask")
    out = t.new(scores.dims, scores.dtype, "masked scores")
    t.tick("masked scores")
    dims, dtype = scores.dims, scores.dtype

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = t.new(dims, dtype, "gradient of scores")
        t.tick("masked fill backward")
        return [gradient]

    record(t, "masked fill", [scores], [out], backward, [hidden])
    return out
