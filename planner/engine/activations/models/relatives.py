"""Decoders that are Llama but for norms, projections, rotary embedding or scales: Gemma, Phi, OLMo, Cohere, GLM, …

Sources: see `relative_layers.py`.
"""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.blocks import layer_dims, rotary_tables
from planner.engine.activations.causal import (
    CausalLayer,
    CausalModel,
    causal_mask,
    embed,
    is_tied,
    make_head,
    make_layers,
    make_table,
    position_ids,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import attention_shape, attention_symbols, embedding_dropout, only_stack
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.relative_layers import MODELS, Form, Surroundings, run_layer
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.versions import precedes_transformers_5
from planner.engine.term import Factor
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, ModelSpec, Norm


@dataclass(frozen=True, slots=True)
class RelativeBody:
    """Layers of one form, of one or several kinds that differ in their windows."""

    form: Form
    layers: tuple[LayerShape, ...]
    final_norm: Norm
    tied_embeddings: bool
    head_bias: bool
    scaled_embedding: bool
    embedding_dropout: bool
    softcap: bool
    scaled_logits: bool
    tables_per_kind: bool
    """Each kind of layer has its own frequencies (Gemma 3)."""
    normed_embedding: bool = False
    """The embedded sequence passes the final norm too (nanochat)."""

    def build(self, t: Tape, recipe: Recipe) -> CausalModel:
        embedding = make_table(t, recipe, "table rows")
        return CausalModel(
            recipe,
            embedding,
            make_head(t, recipe, embedding, tied=self.tied_embeddings, bias=self.head_bias),
            make_layers(t, recipe, self.layers, self.form.make_layer),
            self.hidden_states,
            {"norm": make_norm(t, recipe, self.final_norm)},
            softcap=self.softcap,
            scaled_logits=self.scaled_logits,
        )

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """The base model's forward pass."""
        recipe = model.recipe
        with t.module("model", MODELS):
            inputs_embeds = embed(t, model, ids, scaled=self.scaled_embedding)
            positions = position_ids(t)
            masks = [causal_mask(t, recipe, shape, inputs_embeds.dtype) for shape in self.layers]
            hidden_states = ops.dropout(t, inputs_embeds) if self.embedding_dropout else inputs_embeds
            tables = self._tables(t, hidden_states.dtype)
            if self.normed_embedding:
                hidden_states = normalise(t, model.norms["norm"], hidden_states, "norm")
            for layer in model.layers:
                kind = self.layers.index(layer.shape)
                cos, sin = tables[kind if self.tables_per_kind else 0]
                around = Surroundings(cos, sin, masks[kind])
                with t.layer(layer.slot), t.module("layer", MODELS):
                    hidden_states = self._run_layer(t, recipe, layer, hidden_states, around)
            result = normalise(t, model.norms["norm"], hidden_states, "norm")
            del positions, inputs_embeds, masks, tables
            return result

    def _tables(self, t: Tape, dtype: str) -> list[tuple[Tensor, Tensor]]:
        """Cosines and sines, once or for each kind."""
        dtype = "fp32" if self.form.rotary_upcast in ("tables", "products") else dtype
        shapes = self.layers if self.tables_per_kind else self.layers[:1]
        return [rotary_tables(t, layer_dims(shape, "rotated"), dtype) for shape in shapes]

    def _run_layer(
        self, t: Tape, recipe: Recipe, layer: CausalLayer, hidden_states: Tensor, around: Surroundings
    ) -> Tensor:
        def forward(x: Tensor) -> Tensor:
            return run_layer(t, self.form, layer, x, around)

        return checkpointed(t, recipe.checkpointing, forward, hidden_states)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Equal layers of attention with rotary embedding and a dense feed-forward, whatever their norms and sums."""
    groups = only_stack(spec)
    if groups is None or spec.stack.before or spec.stack.after or spec.stack.final_norm is None or spec.head is None:
        return None
    forms = [_form(group, setting) for group in groups]
    form = forms[0]
    if form is None or any(other != form for other in forms):
        return None
    shapes = tuple(_shape(index, group, setting, form) for index, group in enumerate(groups))
    embedding = spec.stack.embedding
    body = RelativeBody(
        form,
        shapes,
        spec.stack.final_norm,
        is_tied(spec),
        spec.head.bias,
        scaled_embedding=embedding is not None and embedding.scaled,
        embedding_dropout=embedding_dropout(spec, setting),
        softcap=spec.head.softcap,
        scaled_logits=spec.head.scaled,
        tables_per_kind=len(groups) > 1 and _has_tables_per_kind(form),
        normed_embedding=embedding is not None and embedding.normed,
    )
    symbols: list[Factor] = []
    for shape, group in zip(shapes, groups, strict=True):
        symbols += attention_symbols(shape, group, setting)
    layers = {str(index): group.count for index, group in enumerate(groups)}
    return Found(body, tuple(symbols), layers)


def _has_tables_per_kind(form: Form) -> bool:
    """Gemma 3 and OLMo 3 rotate sliding layers by other frequencies."""
    sandwich = form.arrangement == "sandwich" and form.qk_norm is not None
    return sandwich or (form.arrangement == "post" and form.qk_norm_scope == "all")


def _shape(index: int, group: LayerGroup, setting: Setting, form: Form) -> LayerShape:
    # Gemma 2 may run on SDPA, without its cap, before transformers 5; GPT-J only since then.
    refuses = form.scores_in_fp32 if precedes_transformers_5(setting.version) else form.softcap
    shape = attention_shape(index, group, setting, only_eager=refuses and setting.attention == "sdpa")
    joins = form.rotates_parts and shape.rotates and form.repeats_tables != "tensor"
    return replace(shape, heads_first=joins)


def _form(group: LayerGroup, setting: Setting) -> Form | None:
    """The form of a layer, if it is one that these classes have."""
    mixer, feed_forward = group.mixer, group.feed_forward
    norms = {"pre": 2, "post": 2, "sandwich": 4, "parallel": 1}
    if not (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and norms[group.arrangement] == group.norms
        and group.cross_attention is None
        and not group.extra
        and mixer.causal
        and not (mixer.gated or mixer.sinks or mixer.alibi or mixer.value_from_key or mixer.output_gate)
        and mixer.own_key_value
        and mixer.value_norm is None
        and mixer.value_head_dim is None
        and mixer.key_bias is None
        and mixer.linear == feed_forward.linear == "linear"
        and not (mixer.qk_norm is not None and mixer.fused)
        and not (mixer.fused and group.norm.kind == "layernorm")
    ):
        return None
    every_two = mixer.rotary_pairs == "neighbours" and mixer.rotary_upcast != "all"
    return Form(
        group.norm,
        group.arrangement,
        mixer.qk_norm,
        mixer.qk_norm_scope,
        fused_qkv=mixer.fused,
        fused_mlp=feed_forward.fused,
        rotates_parts=mixer.fused or 0 < mixer.rotary_share < 1,
        rotary_upcast=mixer.rotary_upcast,
        repeats_tables=("tensor" if mixer.scores_in_fp32 else "layer") if every_two else "never",
        scores_in_fp32=mixer.scores_in_fp32,
        names_fp32=precedes_transformers_5(setting.version),
        softcap=mixer.softcap,
        residual_scaled=group.residual_scaled,
        holds_halves=group.norm.computed == "kernel" and feed_forward.gated,
    )
