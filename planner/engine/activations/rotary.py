"""Rotary embedding of a part of each head, as GPT-NeoX, Phi and their like write it.

Source: transformers 5.24, `apply_rotary_pos_emb` of `modeling_gpt_neox.py` and `modeling_phi3.py`.
"""

from planner.engine.activations import ops
from planner.engine.activations.blocks import layer_dims
from planner.engine.activations.ops_shape import cat, part
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor

NEOX = "transformers 5.24, models/gpt_neox/modeling_gpt_neox.py: apply_rotary_pos_emb"


def rotate_part(
    t: Tape,
    shape: LayerShape,
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    together: bool = True,
    held: list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Turns the first elements of each head and joins the rest again.

    `together`: both are turned before either is joined (GPT-NeoX); else one after the other (Phi-3). `held` takes what
    stays in names of the layer where this is written in it (Phi, StableLM).
    """
    with t.module("rotary", NEOX):
        q_rot, q_pass = _parts(t, shape, q)
        k_rot, k_pass = _parts(t, shape, k)
        if not together:
            q_embed = join(t, turned(t, shape, q_rot, cos, sin), q_pass, q, "rotated q, whole")
            return q_embed, join(t, turned(t, shape, k_rot, cos, sin), k_pass, k, "rotated k, whole")
        q_embed = turned(t, shape, q_rot, cos, sin)
        k_embed = turned(t, shape, k_rot, cos, sin)
        if held is not None:
            held += [q_embed, k_embed, q_pass, k_pass]
        q_embed = join(t, q_embed, q_pass, q, "rotated q, whole")
        k_embed = join(t, k_embed, k_pass, k, "rotated k, whole")
        return q_embed, k_embed


def _parts(t: Tape, shape: LayerShape, x: Tensor) -> tuple[Tensor, Tensor]:
    """The turned part and the rest. A slice that is the whole is the tensor itself."""
    rotated, rest = layer_dims(shape, "rotated"), layer_dims(shape, "head dim not rotated")
    whole = x if shape.rotates_all else part(t, x, *x.dims[:-1], rotated)
    return whole, part(t, x, *x.dims[:-1], rest)


def turned(t: Tape, shape: LayerShape, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x * cos + rotate_half(x) * sin`."""
    half = layer_dims(shape, "half rotated")
    return ops.add(t, ops.mul(t, x, cos), ops.mul(t, ops.cat_halves(t, x, half), sin), "rotated part")


def join(t: Tape, embedded: Tensor, rest: Tensor, whole: Tensor, label: str) -> Tensor:
    """`cat`; autocast casts both parts to the wider dtype first."""
    dtype = ops.wider(embedded.dtype, rest.dtype)
    embedded, rest = ops.to(t, embedded, dtype), ops.to(t, rest, dtype, "part not turned, cast by autocast")
    return cat(t, [embedded, rest], whole.dims, label)


def repeated(t: Tape, table: Tensor, shape: LayerShape) -> Tensor:
    """`repeat_interleave`: each angle twice, for heads whose neighbours turn together."""
    with t.no_grad():
        out = t.new((*table.dims[:-1], layer_dims(shape, "rotated")), table.dtype, "repeated table")
        t.tick("repeated table")
        return out


def rotate_each(
    t: Tape, shape: LayerShape, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, held: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """GPT-J: keys, then queries, each with tables repeated for it, then both joined again.

    `held` takes the parts, which stay in names of the layer.
    """
    with t.module("rotary", "transformers 5.24, models/gptj/modeling_gptj.py: GPTJAttention.forward"):
        if shape.rotates_all:
            key = turned(t, shape, key, repeated(t, cos, shape), repeated(t, sin, shape))
            return turned(t, shape, query, repeated(t, cos, shape), repeated(t, sin, shape)), key
        k_rot, k_pass = _parts(t, shape, key)
        q_rot, q_pass = _parts(t, shape, query)
        k_rot = turned(t, shape, k_rot, repeated(t, cos, shape), repeated(t, sin, shape))
        q_rot = turned(t, shape, q_rot, repeated(t, cos, shape), repeated(t, sin, shape))
        held += [k_rot, k_pass, q_rot, q_pass]
        key = join(t, k_rot, k_pass, key, "rotated k, whole")
        query = join(t, q_rot, q_pass, query, "rotated q, whole")
        return query, key


def turned_in_fp32(t: Tape, shape: LayerShape, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x.float() * cos + rotate_half(x).float() * sin` (ERNIE 4.5)."""
    half = layer_dims(shape, "half rotated")
    return ops.add(
        t,
        ops.mul(t, ops.to(t, x, "fp32", "in fp32"), cos),
        ops.mul(t, ops.to(t, ops.cat_halves(t, x, half), "fp32", "rotated half in fp32"), sin),
        "rotated part",
    )
