"""Multi-head latent attention (MLA) as transformers runs DeepSeek-V2 and V3: a compressed cache, expanded for each use.

Sources: transformers 5.24 `models/deepseek_v2/modeling_deepseek_v2.py`, `models/deepseek_v3/modeling_deepseek_v3.py`.
"""

from planner.engine.activations import ops
from planner.engine.activations.attention import Cache, attend
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import LayerWeights, Linear, layer_dims, linear, make_linear, rms_norm
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_shape import cat, part, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.shape import LatentShape, LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor

DEEPSEEK_2 = "transformers 5.24, models/deepseek_v2/modeling_deepseek_v2.py"
DEEPSEEK_3 = "transformers 5.24, models/deepseek_v3/modeling_deepseek_v3.py"


def make_latent(
    t: Tape, recipe: Recipe, shape: LayerShape, latent: LatentShape
) -> tuple[dict[str, Linear], dict[str, Tensor]]:
    """The projections of one layer and the norms over its latents."""

    def dims(*names: str) -> Dims:
        return tuple(layer_dims(shape, name) for name in names)

    hidden: Dims = ("hidden",)
    query = dims("heads", "head dim")
    plan: list[tuple[str, Dims, Dims, bool]] = [
        ("kv_a_proj_with_mqa", hidden, dims("latent and rotated key"), latent.bias),
        ("kv_b_proj", dims("kv rank"), dims("heads", "nope and value dim"), False),
        ("o_proj", dims("heads", "value dim"), hidden, latent.bias),
    ]
    if latent.compresses_queries:
        plan += [("q_a_proj", hidden, dims("q rank"), latent.bias), ("q_b_proj", dims("q rank"), query, False)]
    else:
        plan.append(("q_proj", hidden, query, False))
    full = recipe.lora is None
    norms = {"kv_a": t.parameter(dims("kv rank"), recipe.weight_dtype, trainable=full)}
    if latent.compresses_queries:
        norms["q_a"] = t.parameter(dims("q rank"), recipe.weight_dtype, trainable=full)
    return {role: make_linear(t, recipe, role, i, o, bias) for role, i, o, bias in plan}, norms


def latent_attention(
    t: Tape,
    shape: LayerShape,
    latent: LatentShape,
    weights: LayerWeights,
    hidden_states: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor | None,
    cache: Cache | None,
    held: list[Tensor] | None = None,
) -> Tensor:
    """`DeepseekV2Attention.forward`, `DeepseekV3Attention.forward`; its names live until it returns."""
    with t.module("self_attn", f"{DEEPSEEK_3}: DeepseekV3Attention.forward"):
        linears = weights.linears
        if latent.compresses_queries:
            compressed = linear(t, linears["q_a_proj"], hidden_states)
            q = linear(t, linears["q_b_proj"], rms_norm(t, weights.norms["q_a"], compressed, "q_a_layernorm"))
            del compressed
        else:
            q = linear(t, linears["q_proj"], hidden_states)
        q = ops.view(t, q)
        heads = layer_dims(shape, "heads")
        nope, rope = layer_dims(shape, "nope dim"), layer_dims(shape, "rope dim")
        tokens = q.dims[:2]
        q_nope, q_rope = split(t, q, (*tokens, heads, nope), (*tokens, heads, rope))
        compressed_kv = linear(t, linears["kv_a_proj_with_mqa"], hidden_states)
        kv_nope, k_rope = split(t, compressed_kv, (*tokens, layer_dims(shape, "kv rank")), (*tokens, rope))
        latents = ops.view(t, rms_norm(t, weights.norms["kv_a"], kv_nope, "kv_a_layernorm"))
        k_rope = ops.view(t, k_rope)
        rotate = _rotate_latent if latent.rotary == "complex" else _rotate_pairs
        q_rope, k_rope = rotate(t, shape, q_rope, k_rope, cos, sin)
        if cache is not None:
            latents, k_rope = cache.update(t, latents, k_rope)
        query = cat(t, [q_nope, q_rope], (*tokens, heads, layer_dims(shape, "head dim")), "queries")
        key, value = _expand(t, shape, weights, latents, k_rope)
        output = attend(t, shape, query, key, value, mask, held)
        result = linear(t, linears["o_proj"], ops.view(t, output))
        del compressed_kv, kv_nope, q
        return result


def _expand(
    t: Tape, shape: LayerShape, weights: LayerWeights, latents: Tensor, k_rope: Tensor
) -> tuple[Tensor, Tensor]:
    """`expand_kv`: keys and values of all heads; the keys are written part by part into a new tensor."""
    heads = layer_dims(shape, "heads")
    nope, rope = layer_dims(shape, "nope dim"), layer_dims(shape, "rope dim")
    kv = ops.view(t, linear(t, weights.linears["kv_b_proj"], latents))
    tokens = kv.dims[:2]
    k_nope, value = split(t, kv, (*tokens, heads, nope), (*tokens, heads, layer_dims(shape, "value dim")))
    k_rope = ops.view(t, k_rope, *tokens, heads, rope)
    whole = (*tokens, heads, layer_dims(shape, "head dim"))
    key = t.new(whole, kv.dtype, "keys of all heads")
    t.tick("keys of all heads")
    key = _written(t, key, k_nope)
    key = _written(t, key, k_rope)
    return key, value


def _written(t: Tape, x: Tensor, piece: Tensor) -> Tensor:
    """`x[..., part].copy_(piece)`; `CopySlices` copies the gradient, and once more the part's."""
    out = x.handle()
    t.tick("part written in place")
    whole, dims = x.dims, piece.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        rest = t.new(whole, gradient.dtype, "gradient of the other parts")
        t.tick("gradient of the other parts")
        own = t.new(dims, gradient.dtype, "gradient of the part")
        t.tick("gradient of the part")
        if needs[0]:
            zeros = t.new(dims, gradient.dtype, "zeros of the part")
            t.tick("zeros of the part")
            del zeros
        return [rest if needs[0] else None, own if needs[1] else None]

    record(t, "copy_", [x, piece], [out], backward)
    return out


def complex_table(t: Tape, rope_dim: str, half_rope_dim: str) -> Tensor:
    """`DeepseekV2RotaryEmbedding.forward`: one complex number, eight bytes, for each pair of the rotated part."""
    with t.module("rotary_emb", f"{DEEPSEEK_2}: DeepseekV2RotaryEmbedding.forward"), t.no_grad():
        angles = t.new((1, "sequence", half_rope_dim), "fp32", "angles")
        t.tick("angles")
        ones = ops.shift(t, angles, "ones")
        table = t.new((1, "sequence", rope_dim), "fp32", "complex rotations")
        t.tick("complex rotations")
        del ones
        result = ops.elementwise(t, table, "scaled rotations")
        del angles
        return result


def _rotate_latent(
    t: Tape, shape: LayerShape, q: Tensor, k: Tensor, table: Tensor, _sin: Tensor
) -> tuple[Tensor, Tensor]:
    return rotate_complex(t, q, k, table)


def rotate_complex(t: Tape, q: Tensor, k: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """`apply_rotary_emb`: in fp32, as complex numbers."""
    with t.module("rotary", f"{DEEPSEEK_2}: apply_rotary_emb"):
        dtype = q.dtype
        q_complex = ops.view(t, ops.to(t, q, "fp32", "q in fp32"))
        k_complex = ops.view(t, ops.to(t, k, "fp32", "k in fp32"))
        q_out = ops.to(t, ops.mul(t, q_complex, table, "rotated q, complex"), dtype, "rotated q")
        k_out = ops.to(t, ops.mul(t, k_complex, table, "rotated k, complex"), dtype, "rotated k")
        return q_out, k_out


def _rotate_pairs(t: Tape, shape: LayerShape, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """`apply_rotary_pos_emb_interleave`: even and odd elements are rotated as two halves and joined."""
    with t.module("rotary", f"{DEEPSEEK_3}: apply_rotary_pos_emb_interleave"):
        half = layer_dims(shape, "half rope dim")
        q1, q2 = (part(t, q, *q.dims[:-1], half) for _ in range(2))
        k1, k2 = (part(t, k, *k.dims[:-1], half) for _ in range(2))
        q_out = rotated_halves(t, q1, q2, cos, sin, q.dims, "rotated q")
        k_out = rotated_halves(t, k1, k2, cos, sin, k.dims, "rotated k")
        return q_out, k_out


def rotated_halves(t: Tape, one: Tensor, two: Tensor, cos: Tensor, sin: Tensor, dims: Dims, label: str) -> Tensor:
    """`cat((one * cos - two * sin, two * cos + one * sin))`."""
    halves = [
        _subtract(t, ops.mul(t, one, cos), ops.mul(t, two, sin)),
        ops.add(t, ops.mul(t, two, cos), ops.mul(t, one, sin), "second half"),
    ]
    return cat(t, halves, dims, label)


def _subtract(t: Tape, a: Tensor, b: Tensor) -> Tensor:
    out = t.new(a.dims, a.dtype, "first half")
    t.tick("first half")

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        negative = t.new(gradient.dims, gradient.dtype, "negative gradient")
        t.tick("negative gradient")
        return [gradient.handle(), negative]

    record(t, "sub", [a, b], [out], backward)
    return out


def cache_dims(shape: LayerShape) -> tuple[Dims, Dims]:
    """Widths of what the cache holds of a token: the latent, and the rotated key that all heads share."""
    return (layer_dims(shape, "kv rank"),), (layer_dims(shape, "rope dim"),)
