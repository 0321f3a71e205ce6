"""The layers of Llama's relatives: what each class changes of norms, projections, rotary embedding and sums.

Sources: transformers 5.24, `modeling_{gemma,gemma2,gemma3,phi,phi3,olmo,olmo2,cohere,cohere2,glm,glm4,granite,stablelm,
starcoder2,nemotron,helium,exaone4}.py`.
"""

from dataclasses import dataclass
from typing import Literal

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import Linear, layer_dims, linear, make_linear, rotate
from planner.engine.activations.causal import CausalLayer, LayerParts, make_fused
from planner.engine.activations.eager import eager_attention, heads_of
from planner.engine.activations.functions import activate
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.ops_shape import cat, part, reshape, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.rotary import repeated, rotate_each, rotate_part, turned_in_fp32
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.model.spec import Arrangement, Norm

MODELS = "transformers 5.24, models"


@dataclass(frozen=True, slots=True)
class Form:
    """How the layers of one model differ from Llama's."""

    norm: Norm
    arrangement: Arrangement
    qk_norm: Norm | None
    qk_norm_scope: Literal["head", "all", "each"]
    fused_qkv: bool
    fused_mlp: bool
    rotates_parts: bool
    """The class cuts each head into a part that turns and a part that does not, even where that is empty."""
    rotary_upcast: Literal["none", "tables", "products", "all"]
    repeats_tables: Literal["never", "layer", "tensor"]
    """Cosines and sines hold each angle once and are repeated by each layer (GLM), or for each tensor (GPT-J)."""
    scores_in_fp32: bool
    names_fp32: bool
    """Queries and keys in fp32 have names of their own; else they are passed on at once (GPT-J since 5)."""
    softcap: bool
    residual_scaled: bool
    holds_halves: bool
    """The layer keeps names for its first norm and for attention's output until its end (StableLM)."""

    @property
    def norm_names(self) -> tuple[str, ...]:
        names = {
            "pre": ("input", "post_attention"),
            "post": ("post_attention", "post_feedforward"),
            "sandwich": ("input", "post_attention", "pre_feedforward", "post_feedforward"),
            "parallel": ("input",),
        }
        return names[self.arrangement]

    def make_layer(self, t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
        """The weights of one layer."""
        linears = {**self._attention_linears(t, recipe, shape), **self._mlp_linears(t, recipe, shape)}
        norms = {name: make_norm(t, recipe, self.norm) for name in self.norm_names}
        if self.qk_norm is not None:
            head_dim = layer_dims(shape, "head dim")
            for name in ("q", "k"):
                heads = layer_dims(shape, "heads" if name == "q" else "kv heads")
                dims = (head_dim,) if self.qk_norm_scope == "head" else (heads, head_dim)
                norms[name] = make_norm(t, recipe, self.qk_norm, dims)
        return LayerParts(linears, norms)

    def _attention_linears(self, t: Tape, recipe: Recipe, shape: LayerShape) -> dict[str, Linear]:
        heads, kv_heads, head_dim = (layer_dims(shape, name) for name in ("heads", "kv heads", "head dim"))
        hidden = ("hidden",)
        o_proj = make_linear(t, recipe, "o_proj", (heads, head_dim), hidden, shape.output_bias)
        if self.fused_qkv:
            dims = (layer_dims(shape, "all heads"), head_dim)
            qkv = make_fused(t, recipe, "q_proj", "qkv_proj", hidden, dims, shape.qkv_bias)
            return {"qkv_proj": qkv, "o_proj": o_proj}
        made = {
            f"{name}_proj": make_linear(t, recipe, f"{name}_proj", hidden, (each, head_dim), shape.qkv_bias)
            for name, each in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        }
        return {**made, "o_proj": o_proj}

    def _mlp_linears(self, t: Tape, recipe: Recipe, shape: LayerShape) -> dict[str, Linear]:
        hidden, ffn = ("hidden",), (layer_dims(shape, "ffn"),)
        made: dict[str, Linear] = {}
        if self.fused_mlp:
            made["up_proj"] = make_fused(t, recipe, "up_proj", "gate_up_proj", hidden, (2, *ffn), shape.mlp_bias)
        else:
            if shape.gated:
                made["gate_proj"] = make_linear(t, recipe, "gate_proj", hidden, ffn, shape.mlp_bias)
            made["up_proj"] = make_linear(t, recipe, "up_proj", hidden, ffn, shape.mlp_bias)
        made["down_proj"] = make_linear(t, recipe, "down_proj", ffn, hidden, shape.mlp_bias)
        return made


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all layers share."""

    cos: Tensor
    sin: Tensor
    mask: Tensor | None


def run_layer(t: Tape, form: Form, layer: CausalLayer, hidden_states: Tensor, around: Surroundings) -> Tensor:
    """The decoder layer's forward pass, in the arrangement of its norms."""
    arrangement = {"pre": _pre, "post": _post, "sandwich": _sandwich, "parallel": _parallel}[form.arrangement]
    return arrangement(t, form, layer, hidden_states, around)


def _pre(t: Tape, form: Form, layer: CausalLayer, hidden_states: Tensor, around: Surroundings) -> Tensor:
    norms = layer.parts.norms
    residual = hidden_states
    hidden_states = normalise(t, norms["input"], hidden_states, "input_layernorm")
    normed = hidden_states
    hidden_states, _weights = _attention(t, form, layer, hidden_states, around)
    held = (normed, hidden_states) if form.holds_halves else ()
    del normed
    hidden_states = _added(t, form, layer, residual, hidden_states)
    residual = hidden_states
    hidden_states = normalise(t, norms["post_attention"], hidden_states, "post_attention_layernorm")
    hidden_states = _mlp(t, form, layer, hidden_states)
    hidden_states = _added(t, form, layer, residual, hidden_states)
    del held
    return hidden_states


def _post(t: Tape, form: Form, layer: CausalLayer, hidden_states: Tensor, around: Surroundings) -> Tensor:
    norms = layer.parts.norms
    residual = hidden_states
    hidden_states, _weights = _attention(t, form, layer, hidden_states, around)
    hidden_states = normalise(t, norms["post_attention"], hidden_states, "post_attention_layernorm")
    hidden_states = _added(t, form, layer, residual, hidden_states)
    residual = hidden_states
    hidden_states = _mlp(t, form, layer, hidden_states)
    hidden_states = normalise(t, norms["post_feedforward"], hidden_states, "post_feedforward_layernorm")
    return _added(t, form, layer, residual, hidden_states)


def _sandwich(t: Tape, form: Form, layer: CausalLayer, hidden_states: Tensor, around: Surroundings) -> Tensor:
    norms = layer.parts.norms
    residual = hidden_states
    hidden_states = normalise(t, norms["input"], hidden_states, "input_layernorm")
    hidden_states, _weights = _attention(t, form, layer, hidden_states, around)
    hidden_states = normalise(t, norms["post_attention"], hidden_states, "post_attention_layernorm")
    hidden_states = _added(t, form, layer, residual, hidden_states)
    residual = hidden_states
    hidden_states = normalise(t, norms["pre_feedforward"], hidden_states, "pre_feedforward_layernorm")
    hidden_states = _mlp(t, form, layer, hidden_states)
    hidden_states = normalise(t, norms["post_feedforward"], hidden_states, "post_feedforward_layernorm")
    return _added(t, form, layer, residual, hidden_states)


def _parallel(t: Tape, form: Form, layer: CausalLayer, hidden_states: Tensor, around: Surroundings) -> Tensor:
    residual = hidden_states
    hidden_states = normalise(t, layer.parts.norms["input"], hidden_states, "input_layernorm")
    attended, _weights = _attention(t, form, layer, hidden_states, around)
    attended = _dropped(t, layer, attended)
    mlp_output = _dropped(t, layer, _mlp(t, form, layer, hidden_states))
    return ops.add(t, ops.add(t, attended, mlp_output, "sum of both halves"), residual, "residual sum")


def _added(t: Tape, form: Form, layer: CausalLayer, residual: Tensor, x: Tensor) -> Tensor:
    if form.residual_scaled:
        return ops.add(t, residual, ops.elementwise(t, x, "scaled half"), "residual sum")
    return ops.add(t, residual, _dropped(t, layer, x), "residual sum")


def _dropped(t: Tape, layer: CausalLayer, x: Tensor) -> Tensor:
    return ops.dropout(t, x) if layer.shape.hidden_dropout else x


def _attention(
    t: Tape, form: Form, layer: CausalLayer, hidden_states: Tensor, around: Surroundings
) -> tuple[Tensor, Tensor | None]:
    with t.module("self_attn", MODELS):
        shape = layer.shape
        if form.fused_qkv:
            qkv, query, key, value = _fused(t, layer, hidden_states)
        else:
            qkv, (query, key, value) = None, _separate(t, form, layer, hidden_states)
        held: list[Tensor] = []
        if shape.rotates:
            query, key = _rotated(t, form, shape, query, key, around, held)
        if shape.qk_norm_rotated:
            query, key = (
                normalise(t, layer.parts.norms[name], x, f"{name}_norm") for name, x in (("q", query), ("k", key))
            )
        if layer.cache is not None:
            key, value = layer.cache.update(t, key, value)
        weights: Tensor | None = None
        joined = layer.cache is not None
        if shape.kernel == "eager":
            output, weights = eager_attention(
                t,
                shape,
                query,
                key,
                value,
                around.mask,
                joined=joined,
                softcap=form.softcap,
                scores_in_fp32=form.scores_in_fp32,
                names_fp32=form.names_fp32,
            )
        else:
            output = attend(t, shape, query, key, value, around.mask)
        output = linear(t, layer.parts.linears["o_proj"], ops.view(t, output))
        del qkv, held
        return output, weights


def _fused(t: Tape, layer: CausalLayer, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Slices of one projection (Phi-3)."""
    shape = layer.shape
    heads, kv_heads, head_dim = (layer_dims(shape, name) for name in ("heads", "kv heads", "head dim"))
    qkv = linear(t, layer.parts.linears["qkv_proj"], hidden_states)
    tokens = qkv.dims[:2]
    query, key = part(t, qkv, *tokens, heads, head_dim), part(t, qkv, *tokens, kv_heads, head_dim)
    value = part(t, qkv, *tokens, kv_heads, head_dim)
    return qkv, reshape(t, query), reshape(t, key), heads_of(t, value, shape)


def _separate(t: Tape, form: Form, layer: CausalLayer, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    linears, shape = layer.parts.linears, layer.shape
    # OLMo 2 normalises each projection as it comes, the others once all three are there.
    at_once = form.qk_norm_scope == "all"
    query = _projected(t, form, layer, "q", hidden_states, at_once)
    key = _projected(t, form, layer, "k", hidden_states, at_once)
    value = heads_of(t, linear(t, linears["v_proj"], hidden_states), shape)
    if not at_once:
        query = _normed(t, form, layer, "q", query)
        key = _normed(t, form, layer, "k", key)
    return query, key, value


def _projected(t: Tape, form: Form, layer: CausalLayer, name: str, hidden_states: Tensor, at_once: bool) -> Tensor:
    projected = linear(t, layer.parts.linears[f"{name}_proj"], hidden_states)
    return heads_of(t, _normed(t, form, layer, name, projected) if at_once else projected, layer.shape)


def _normed(t: Tape, form: Form, layer: CausalLayer, name: str, x: Tensor) -> Tensor:
    norms = layer.parts.norms
    if name not in norms or layer.shape.qk_norm_rotated:
        return x
    normed = normalise(t, norms[name], x, f"{name}_norm")
    # Every head has a norm of its own (StableLM 2); their outputs are joined again.
    return cat(t, [normed], normed.dims, f"{name} of all heads") if form.qk_norm_scope == "each" else normed


def _rotated(
    t: Tape, form: Form, shape: LayerShape, query: Tensor, key: Tensor, around: Surroundings, held: list[Tensor]
) -> tuple[Tensor, Tensor]:
    cos, sin = around.cos, around.sin
    if form.repeats_tables == "layer":
        cos, sin = repeated(t, cos, shape), repeated(t, sin, shape)
    if form.repeats_tables == "tensor":
        return rotate_each(t, shape, query, key, cos, sin, held)
    if form.rotates_parts:
        kept = held if form.norm.computed == "kernel" and form.repeats_tables == "never" else None
        return rotate_part(t, shape, query, key, cos, sin, together=not form.fused_qkv, held=kept)
    dtype = query.dtype
    if form.rotary_upcast == "products":
        q_embed, k_embed = turned_in_fp32(t, shape, query, cos, sin), turned_in_fp32(t, shape, key, cos, sin)
    elif form.rotary_upcast == "all":
        q, k = ops.to(t, query, "fp32", "q in fp32"), ops.to(t, key, "fp32", "k in fp32")
        q_embed, k_embed = rotate(t, q, k, cos, sin, layer_dims(shape, "half head dim"))
    else:
        q_embed, k_embed = rotate(t, query, key, cos, sin, layer_dims(shape, "half head dim"))
    if form.rotary_upcast == "none":
        return q_embed, k_embed
    return ops.to(t, q_embed, dtype, "rotated q, cast back"), ops.to(t, k_embed, dtype, "rotated k, cast back")


def _mlp(t: Tape, form: Form, layer: CausalLayer, x: Tensor) -> Tensor:
    with t.module("mlp", MODELS):
        linears, activation = layer.parts.linears, layer.shape.activation
        if form.fused_mlp:
            up_states = linear(t, linears["up_proj"], x)
            dims = (*up_states.dims[:2], up_states.dims[-1])
            gate, up_states = split(t, up_states, dims, dims)
            up_states = ops.mul(t, up_states, activate(t, gate, activation), "gated product")
            return linear(t, linears["down_proj"], up_states)
        if not layer.shape.gated:
            return linear(t, linears["down_proj"], activate(t, linear(t, linears["up_proj"], x), activation))
        return linear(
            t,
            linears["down_proj"],
            ops.mul(
                t,
                activate(t, linear(t, linears["gate_proj"], x), activation),
                linear(t, linears["up_proj"], x),
                "gated product",
            ),
        )
