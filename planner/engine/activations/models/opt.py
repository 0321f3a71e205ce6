"""OPT: learned positions, layer norms before or after both halves, scaled queries, ReLU, dropout.

Source: transformers 5.24, `models/opt/modeling_opt.py`.
"""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import layer_dims, linear, make_linear
from planner.engine.activations.causal import (
    CausalLayer,
    CausalModel,
    LayerParts,
    causal_mask,
    embed,
    is_tied,
    key_length,
    make_fused,
    make_head,
    make_layers,
    make_table,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import equal_layers, kinds_of
from planner.engine.activations.eager import eager_attention, heads_of
from planner.engine.activations.functions import activate
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.term import Factor
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, Linear, ModelSpec, Norm, Table

OPT = "transformers 5.24, models/opt/modeling_opt.py"


@dataclass(frozen=True, slots=True)
class OptBody:
    """Layers between two embeddings and a head, with projections where the embeddings are narrower than the layers."""

    layers: tuple[LayerShape, ...]
    norm: Norm
    norm_first: bool
    final_norm: bool
    projects: bool
    tied_embeddings: bool

    def build(self, t: Tape, recipe: Recipe) -> CausalModel:
        width = "embedding width" if self.projects else "hidden"
        embedding = make_table(t, recipe, "table rows", width)
        model = CausalModel(
            recipe,
            embedding,
            make_head(t, recipe, embedding, tied=self.tied_embeddings, inputs=width),
            make_layers(t, recipe, self.layers, self._make_layer),
            self.hidden_states,
            {"final_layer_norm": make_norm(t, recipe, self.norm)} if self.final_norm else {},
            {"embed_positions": make_table(t, recipe, "position rows")},
        )
        if self.projects:
            # Adapters on all linear layers stand here too.
            for name, inputs, outputs in (("project_in", width, "hidden"), ("project_out", "hidden", width)):
                model.linears[name] = make_fused(t, recipe, "up_proj", name, (inputs,), (outputs,), False)
        return model

    def _make_layer(self, t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
        heads, head_dim, ffn = (layer_dims(shape, name) for name in ("heads", "head dim", "ffn"))
        hidden, full = ("hidden",), (heads, head_dim)
        linears = {role: make_linear(t, recipe, role, hidden, full, shape.qkv_bias) for role in _PROJECTIONS}
        linears["o_proj"] = make_linear(t, recipe, "o_proj", full, hidden, shape.output_bias)
        linears["up_proj"] = make_linear(t, recipe, "up_proj", hidden, (ffn,), shape.mlp_bias)
        linears["down_proj"] = make_linear(t, recipe, "down_proj", (ffn,), hidden, shape.mlp_bias)
        return LayerParts(linears, {name: make_norm(t, recipe, self.norm) for name in ("self_attn", "final")})

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """`OPTDecoder.forward`."""
        recipe = model.recipe
        with t.module("model", f"{OPT}: OPTDecoder.forward"):
            inputs_embeds = embed(t, model, ids)
            ones, positions = _positions(t, recipe)
            mask = causal_mask(t, recipe, self.layers[0], inputs_embeds.dtype)
            shifted = t.new(positions.dims, "int64", "positions with their offset")
            t.tick("positions with their offset")
            pos_embeds = ops.embedding(t, model.tables["embed_positions"], ("batch", "sequence", "hidden"), shifted)
            del shifted
            if self.projects:
                inputs_embeds = linear(t, model.linears["project_in"], inputs_embeds)
            hidden_states = ops.add(t, inputs_embeds, pos_embeds, "sum of embeddings")
            for layer in model.layers:
                with t.layer(layer.slot), t.module("layer", f"{OPT}: OPTDecoderLayer.forward"):
                    hidden_states = self._run_layer(t, recipe, layer, hidden_states, mask)
            if self.final_norm:
                hidden_states = normalise(t, model.norms["final_layer_norm"], hidden_states, "final_layer_norm")
            if self.projects:
                hidden_states = linear(t, model.linears["project_out"], hidden_states)
            del ones, positions, inputs_embeds, pos_embeds
            return hidden_states

    def _run_layer(
        self, t: Tape, recipe: Recipe, layer: CausalLayer, hidden_states: Tensor, mask: Tensor | None
    ) -> Tensor:
        def forward(x: Tensor) -> Tensor:
            return self._layer(t, layer, x, mask)

        return checkpointed(t, recipe.checkpointing, forward, hidden_states)

    def _layer(self, t: Tape, layer: CausalLayer, hidden_states: Tensor, mask: Tensor | None) -> Tensor:
        norms, linears, shape = layer.parts.norms, layer.parts.linears, layer.shape
        residual = hidden_states
        if self.norm_first:
            hidden_states = normalise(t, norms["self_attn"], hidden_states, "self_attn_layer_norm")
        hidden_states, _weights = _attention(t, layer, hidden_states, mask)
        hidden_states = _dropped(t, shape, hidden_states)
        hidden_states = ops.add(t, residual, hidden_states, "residual sum")
        if not self.norm_first:
            hidden_states = normalise(t, norms["self_attn"], hidden_states, "self_attn_layer_norm")
        residual = hidden_states
        if self.norm_first:
            hidden_states = normalise(t, norms["final"], hidden_states, "final_layer_norm")
        with t.module("mlp"):
            hidden_states = linear(t, linears["up_proj"], hidden_states)
            hidden_states = activate(t, hidden_states, shape.activation)
            hidden_states = linear(t, linears["down_proj"], hidden_states)
            hidden_states = _dropped(t, shape, hidden_states)
        hidden_states = ops.add(t, residual, hidden_states, "residual sum")
        if not self.norm_first:
            hidden_states = normalise(t, norms["final"], hidden_states, "final_layer_norm")
        return hidden_states


_PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def _positions(t: Tape, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """The dense mask of ones, and the positions counted from it."""
    with t.no_grad():
        dims = ("batch", key_length(recipe))
        dtype = "int64" if recipe.passes_mask else "fp32"
        ones = t.new(dims, dtype, "mask of ones")
        t.tick("mask of ones")
        positions = t.new(dims, dtype, "counted positions")
        t.tick("counted positions")
        positions = t.new(dims, dtype, "masked positions")
        t.tick("masked positions")
        shifted = t.new(dims, dtype, "positions from zero")
        t.tick("positions from zero")
        if shifted.dtype == "int64":
            return ones, shifted
        positions = t.new(dims, "int64", "positions")
        t.tick("positions")
        return ones, positions


def _dropped(t: Tape, shape: LayerShape, x: Tensor) -> Tensor:
    return ops.dropout(t, x) if shape.hidden_dropout else x


def _attention(t: Tape, layer: CausalLayer, hidden_states: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """`OPTAttention.forward`."""
    with t.module("self_attn", f"{OPT}: OPTAttention.forward"):
        shape, linears = layer.shape, layer.parts.linears
        query = ops.elementwise(t, linear(t, linears["q_proj"], hidden_states), "scaled q")
        query = heads_of(t, query, shape)
        key, value = (linear(t, linears[role], hidden_states) for role in _PROJECTIONS[1:])
        key, value = heads_of(t, key, shape), heads_of(t, value, shape)
        if layer.cache is not None:
            key, value = layer.cache.update(t, key, value)
        weights: Tensor | None = None
        if shape.kernel == "eager":
            output, weights = eager_attention(t, shape, query, key, value, mask, joined=layer.cache is not None)
        else:
            output = attend(t, shape, query, key, value, mask)
        return linear(t, linears["o_proj"], ops.view(t, output)), weights


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Learned positions beside the tokens, separate projections of equal heads, layer norms, no gate."""
    groups = equal_layers(spec)
    tables = [part for part in spec.stack.before if isinstance(part, Table)]
    projections = [part for part in spec.stack.before if isinstance(part, Linear)]
    if groups is None or len(tables) != 1 or len(spec.stack.before) > 2:
        return None
    group = groups[0]
    if not _is_opt_layer(group) or spec.stack.embedding is None or spec.head is None or spec.head.bias:
        return None
    # OPT makes a mask of ones where none is passed, so that no version looks for packed sequences.
    kinds = kinds_of(groups, setting if setting.passes_mask else replace(setting, needs_mask=False))
    symbols = (
        *kinds.symbols,
        Factor("position rows", tables[0].rows),
        Factor("embedding width", spec.stack.embedding.size),
    )
    body = OptBody(
        kinds.shapes,
        group.norm,
        norm_first=group.arrangement == "pre",
        final_norm=spec.stack.final_norm is not None,
        projects=bool(projections),
        tied_embeddings=is_tied(spec),
    )
    return Found(body, symbols, kinds.layers)


def _is_opt_layer(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and group.norm.computed == "kernel"
        and group.norms == 2
        and group.arrangement in ("pre", "post")
        and not mixer.fused
        and mixer.window is None
        and mixer.rotary_share == 0
        and mixer.qk_norm is None
        and mixer.kv_heads == mixer.heads
        and not feed_forward.gated
    )
