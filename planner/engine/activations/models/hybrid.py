"""Decoders that mix state spaces with attention: Bamba and Jamba (a feed-forward in each layer), Nemotron-H.

Sources: transformers 5.24, `models/bamba/modeling_bamba.py`, `models/jamba/modeling_jamba.py`,
`models/nemotron_h/modeling_nemotron_h.py` (one block in each layer).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import Cache, attend
from planner.engine.activations.blocks import (
    ATTENTION_LINEARS,
    LayerWeights,
    Linear,
    layer_dims,
    linear,
    linear_weights,
    make_layer,
    make_linear,
    mlp,
    rotary_tables,
    rotate,
    slots_of,
    token_ids,
)
from planner.engine.activations.causal import causal_mask, make_cache, position_ids
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.experts import make_experts, mixture
from planner.engine.activations.functions import saves_output
from planner.engine.activations.loss import causal_loss, head_logits, loss_forward
from planner.engine.activations.mixers import (
    StateMixer,
    StateShape,
    lengths_of,
    make_past,
    make_state,
    run_state,
    shape_of,
    symbols_of,
)
from planner.engine.activations.models import llama, moe
from planner.engine.activations.models.mamba import fp32_loss
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.rotary import rotate_part
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.state_space import StateCache, StateWeights
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.term import Factor
from planner.model.spec import RMS_NORM, Attention, LayerGroup, ModelSpec, Norm

HYBRID = "transformers 5.24, models/bamba/modeling_bamba.py: BambaDecoderLayer.forward"


@dataclass(frozen=True, slots=True)
class LayerKind:
    """One kind of layer: what mixes tokens in it, and whether a feed-forward follows or stands alone."""

    shape: LayerShape
    state: StateShape | None
    attends: bool
    feeds: bool
    qk_norm: Norm | None = None


@dataclass(slots=True)
class HybridLayer:
    """One recorded layer."""

    slot: str
    kind: LayerKind
    weights: LayerWeights
    state: StateWeights | None
    cache: Cache | None
    past: StateCache | None


@dataclass(frozen=True, slots=True)
class HybridBody:
    """Kinds of layers between an embedding and a head."""

    kinds: tuple[LayerKind, ...]
    rotates: bool
    norm: Norm
    fp32_logits: bool
    tied_embeddings: bool

    def build(self, t: Tape, recipe: Recipe) -> "HybridModel":
        full = recipe.lora is None
        embedding = t.parameter(("table rows", "hidden"), recipe.weight_dtype, trainable=full)
        head = make_linear(t, recipe, "lm_head", ("hidden",), ("vocabulary",), False, rows=("table rows",))
        if self.tied_embeddings:
            head.weight = embedding
        layers = [
            _make_layer(t, recipe, kind, slot)
            for index, kind in enumerate(self.kinds)
            for slot in slots_of(index, kind.shape.copies)
        ]
        norm = t.parameter(("hidden",), recipe.weight_dtype, trainable=full)
        return HybridModel(self, recipe, embedding, layers, norm, head)


def _make_layer(t: Tape, recipe: Recipe, kind: LayerKind, slot: str) -> HybridLayer:
    shape = kind.shape
    weights = make_layer(t, recipe, shape)
    weights.linears = {
        role: each
        for role, each in weights.linears.items()
        if (kind.attends if role in ATTENTION_LINEARS else kind.feeds)
    }
    if not (kind.feeds and (kind.attends or kind.state is not None)):
        del weights.norms["post_attention"]
    if shape.experts is not None:
        weights.others |= make_experts(t, recipe, shape, shape.experts)
    return HybridLayer(
        slot,
        kind,
        weights,
        make_state(t, recipe, kind.state) if kind.state is not None else None,
        make_cache(t, recipe, shape, slot) if kind.attends else None,
        make_past(t, recipe, kind.state, slot),
    )


@dataclass(slots=True)
class HybridModel:
    """The weights of the recorded model."""

    body: HybridBody
    recipe: Recipe
    embedding: Tensor
    layers: list[HybridLayer]
    norm: Tensor
    head: Linear

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids")}
        if self.recipe.passes_mask:
            held["mask"] = token_ids(t, "attention mask of the batch")
        if self.recipe.loss != "none":
            held["labels"] = token_ids(t, "labels")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        if self.body.fp32_logits:
            return fp32_loss(t, self.recipe, self.head, _run_model(t, self, inputs["ids"]), inputs["labels"])
        loss, logits = causal_loss(t, self.recipe, self.head, _run_model(t, self, inputs["ids"]), inputs["labels"])
        return loss, logits if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        hidden_states = _run_model(t, self, inputs["ids"])
        logits = head_logits(t, self.recipe, self.head, hidden_states)
        if self.body.fp32_logits:
            logits = ops.to(t, logits, "fp32", "logits in fp32")
        labels = inputs.get("labels")
        loss = loss_forward(t, self.recipe, logits, labels) if labels is not None else None
        return hidden_states, logits, loss

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        yield from (("", "embed_tokens", self.embedding), ("", "norm", self.norm))
        yield from (("", self.head.role, weight) for weight in linear_weights(self.head))
        for layer in self.layers:
            linears, others = dict(layer.weights.linears), {**layer.weights.norms, **layer.weights.others}
            if layer.state is not None:
                linears |= layer.state.linears
                others |= layer.state.others
            for role, each in linears.items():
                yield from ((layer.slot, role, weight) for weight in linear_weights(each))
            yield from ((layer.slot, name, weight) for name, weight in others.items())


def _run_model(t: Tape, model: HybridModel, ids: Tensor) -> Tensor:
    recipe, body = model.recipe, model.body
    with t.module("model", HYBRID):
        inputs_embeds = ops.embedding(t, model.embedding, ("batch", "sequence", "hidden"), ids)
        inputs_embeds = t.with_images(inputs_embeds)
        if recipe.lora is not None and recipe.checkpointing == "reentrant":
            inputs_embeds = t.leaf(inputs_embeds)
        positions = position_ids(t)
        looking = next((kind.shape for kind in body.kinds if kind.attends), None)
        mask = causal_mask(t, recipe, looking, inputs_embeds.dtype) if looking is not None else None
        tables = None
        if looking is not None and body.rotates:
            rotated = layer_dims(looking, "head dim" if looking.rotates_all else "rotated")
            tables = rotary_tables(t, rotated, inputs_embeds.dtype)
        hidden_states = inputs_embeds
        for layer in model.layers:
            with t.layer(layer.slot), t.module("layer", HYBRID):
                # A checkpoint holds what its layer was called with; a state space is given no mask of attention's.
                own = mask if layer.kind.attends else None
                hidden_states = _checkpointed(t, model, layer, hidden_states, tables, own)
        result = _norm(t, body, model.norm, hidden_states, "norm")
        del positions, inputs_embeds
        return result


def _checkpointed(
    t: Tape,
    model: HybridModel,
    layer: HybridLayer,
    x: Tensor,
    tables: tuple[Tensor, Tensor] | None,
    mask: Tensor | None,
) -> Tensor:
    def forward(inner: Tensor) -> Tensor:
        return _run_layer(t, model.body, layer, inner, tables, mask)

    return checkpointed(t, model.recipe.checkpointing, forward, x)


def _norm(t: Tape, body: HybridBody, weight: Tensor, x: Tensor, name: str) -> Tensor:
    return normalise(t, NormWeights(body.norm, weight, None), x, name)


def _run_layer(
    t: Tape,
    body: HybridBody,
    layer: HybridLayer,
    hidden_states: Tensor,
    tables: tuple[Tensor, Tensor] | None,
    mask: Tensor | None,
) -> Tensor:
    kind, norms = layer.kind, layer.weights.norms
    mixes = kind.attends or kind.state is not None
    held: list[Tensor] = []
    if mixes:
        residual = hidden_states
        hidden_states = _norm(t, body, norms["input"], hidden_states, "input_layernorm")
        if kind.state is not None:
            assert layer.state is not None
            hidden_states = run_state(t, kind.state, layer.state, hidden_states, layer.past)
        else:
            hidden_states = _attention(t, layer, hidden_states, tables, mask, held)
        hidden_states = ops.add(t, residual, hidden_states, "residual sum")
    if not kind.feeds:
        return hidden_states
    residual = hidden_states
    hidden_states = _norm(t, body, norms["post_attention" if mixes else "input"], hidden_states, "pre_ff_layernorm")
    if kind.shape.experts is not None:
        hidden_states = mixture(t, kind.shape, kind.shape.experts, layer.weights, hidden_states)
    else:
        hidden_states = mlp(t, kind.shape, layer.weights, hidden_states)
    return ops.add(t, residual, hidden_states, "residual sum")


def _attention(
    t: Tape,
    layer: HybridLayer,
    hidden_states: Tensor,
    tables: tuple[Tensor, Tensor] | None,
    mask: Tensor | None,
    held: list[Tensor],
) -> Tensor:
    linears, shape = layer.weights.linears, layer.kind.shape
    with t.module("self_attn", HYBRID):
        gate: Tensor | None = None
        if shape.gated_queries:
            query, gate = _gated_query(t, shape, linears["q_proj"], hidden_states)
        else:
            query = ops.view(t, linear(t, linears["q_proj"], hidden_states))
        query = _head_norm(t, layer, "q", query)
        key = _head_norm(t, layer, "k", ops.view(t, linear(t, linears["k_proj"], hidden_states)))
        value = ops.view(t, linear(t, linears["v_proj"], hidden_states))
        if tables is not None:
            if shape.rotates_all:
                query, key = rotate(t, query, key, *tables, layer_dims(shape, "half head dim"))
            else:
                query, key = rotate_part(t, shape, query, key, *tables)
        if layer.cache is not None:
            key, value = layer.cache.update(t, key, value)
        output = ops.view(t, attend(t, shape, query, key, value, mask, held))
        if gate is not None:
            output = ops.mul(t, output, saves_output(t, gate, "sigmoid"), "gated output")
        return linear(t, linears["o_proj"], output)


def _gated_query(t: Tape, shape: LayerShape, layer: Linear, hidden_states: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and what gates the output of each head: halves of one projection (`Qwen3NextAttention.forward`)."""
    both = linear(t, layer, hidden_states)
    half = (*hidden_states.dims[:2], layer_dims(shape, "heads"), layer_dims(shape, "head dim"))
    query, gate = split(t, both, half, half)
    return query, ops.contiguous(t, gate, label="gate, contiguous")


def _head_norm(t: Tape, layer: HybridLayer, name: str, x: Tensor) -> Tensor:
    norm = layer.kind.qk_norm
    return x if norm is None else normalise(t, NormWeights(norm, layer.weights.norms[name], None), x, f"{name}_norm")


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Layers of Mamba 2, plain attention, feed-forwards and experts, each behind an RMS norm."""
    groups = spec.stack.groups
    mixed = any(isinstance(group.mixer, StateMixer) for group in groups)
    if len(spec.stacks) > 1 or not mixed or not all(_is_told(group) for group in groups):
        return None
    likened = moe.with_experts(moe.with_attention(llama.approximate(spec, setting), spec), spec, setting)
    assert isinstance(likened.body, llama.DecoderBody)
    kinds: list[LayerKind] = []
    symbols: list[Factor] = list(likened.symbols)
    for shape, group in zip(likened.body.layers, groups, strict=True):
        mixer = group.mixer
        state: StateShape | None = None
        if isinstance(mixer, StateMixer):
            state = shape_of(shape.name, mixer, setting)
            symbols += symbols_of(shape.name, mixer, setting)
        feed_forward = llama.feed_forward_of(group)
        if not isinstance(mixer, Attention):
            shape = replace(shape, qk_norm=False)
        elif mixer.gated:
            shape = replace(shape, gated_queries=True)
        if shape.experts is None:
            shape = replace(shape, activation=feed_forward.activation)
        attends = isinstance(mixer, Attention)
        qk_norm = mixer.qk_norm if isinstance(mixer, Attention) else None
        kinds.append(LayerKind(shape, state, attends, group.feed_forward is not None, qk_norm))
    mixers = [group.mixer for group in groups]
    body = HybridBody(
        tuple(kinds),
        rotates=any(isinstance(mixer, Attention) and mixer.rotary_share > 0 for mixer in mixers),
        norm=groups[0].norm,
        fp32_logits=any(group.norms == 1 for group in groups),
        tied_embeddings=spec.head is not None and spec.head.tied,
    )
    derived = lengths_of([mixer for mixer in mixers if isinstance(mixer, StateMixer)])
    return replace(likened, body=body, symbols=tuple(symbols), derived=derived)


def _is_told(group: LayerGroup) -> bool:
    mixer = group.mixer
    plain_attention = isinstance(mixer, Attention) and not (mixer.fused or mixer.sinks or mixer.softcap)
    if isinstance(mixer, Attention) and mixer.qk_norm is not None:
        plain_attention = plain_attention and mixer.qk_norm_scope == "head" and not mixer.qk_norm_rotated
    return (
        (mixer is None or isinstance(mixer, StateMixer) or plain_attention)
        and (group.feed_forward is None or moe.is_told(group))
        and llama.is_llama_shaped(replace(group, norm=RMS_NORM))
        and group.norm.computed in ("weight-after-cast", "weight-in-fp32", "one-plus-weight")
        and group.norms == (mixer is not None) + (group.feed_forward is not None)
        and not group.extra
    )
