"""GPT-2 and GPT-BigCode: learned positions, layer norms, one projection for queries, keys and values, GELU, dropout.

GPT-BigCode has one head of keys and values, and a softmax in fp32. Sources: transformers 5.24,
`models/gpt2/modeling_gpt2.py` and `models/gpt_bigcode/modeling_gpt_bigcode.py`.
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
    make_fused,
    make_head,
    make_layers,
    make_table,
    position_ids,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import embedding_dropout, kinds_of, only_stack
from planner.engine.activations.eager import eager_attention, heads_of
from planner.engine.activations.functions import activate
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.ops_shape import split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.versions import is_before
from planner.engine.term import Factor
from planner.model.spec import LAYER_NORM, Attention, DenseFeedForward, LayerGroup, Mixer, ModelSpec, Table

GPT2 = "transformers 5.24, models/gpt2/modeling_gpt2.py"


@dataclass(frozen=True, slots=True)
class Gpt2Body:
    """Layers between two embeddings and a final layer norm."""

    layers: tuple[LayerShape, ...]
    embedding_dropout: bool
    tied_embeddings: bool
    separate: bool = False
    """Queries, keys and values have a projection each, and eager scores are computed in fp32 (GPT-Neo)."""

    def build(self, t: Tape, recipe: Recipe) -> CausalModel:
        embedding = make_table(t, recipe, "table rows")
        return CausalModel(
            recipe,
            embedding,
            make_head(t, recipe, embedding, tied=self.tied_embeddings),
            make_layers(t, recipe, self.layers, _make_separate if self.separate else _make_layer),
            self.hidden_states,
            {"ln_f": make_norm(t, recipe, LAYER_NORM)},
            {"wpe": make_table(t, recipe, "position rows")},
        )

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """`GPT2Model.forward`."""
        recipe = model.recipe
        with t.module("model", f"{GPT2}: GPT2Model.forward"):
            inputs_embeds = embed(t, model, ids)
            positions = position_ids(t)
            position_embeds = ops.embedding(t, model.tables["wpe"], (1, "sequence", "hidden"), positions)
            hidden_states = ops.add(t, inputs_embeds, position_embeds, "sum of embeddings")
            mask = causal_mask(t, recipe, self.layers[0], inputs_embeds.dtype)
            if self.embedding_dropout:
                hidden_states = ops.dropout(t, hidden_states)
            for layer in model.layers:
                with t.layer(layer.slot), t.module("layer", f"{GPT2}: GPT2Block.forward"):
                    hidden_states = _run_layer(t, recipe, layer, hidden_states, mask)
            result = normalise(t, model.norms["ln_f"], hidden_states, "ln_f")
            del positions, position_embeds, inputs_embeds
            return result


def _make_layer(t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
    heads, head_dim, ffn = (layer_dims(shape, name) for name in ("heads", "head dim", "ffn"))
    hidden = ("hidden",)
    linears = {
        "c_attn": make_fused(
            t, recipe, "q_proj", "c_attn", hidden, (layer_dims(shape, "all heads"), head_dim), shape.qkv_bias
        ),
        "o_proj": make_linear(t, recipe, "o_proj", (heads, head_dim), hidden, shape.output_bias),
        "up_proj": make_linear(t, recipe, "up_proj", hidden, (ffn,), shape.mlp_bias),
        "down_proj": make_linear(t, recipe, "down_proj", (ffn,), hidden, shape.mlp_bias),
    }
    return LayerParts(linears, {name: make_norm(t, recipe, LAYER_NORM) for name in ("ln_1", "ln_2")})


def _make_separate(t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
    made = _make_layer(t, recipe, shape)
    heads = (layer_dims(shape, "heads"), layer_dims(shape, "head dim"))
    del made.linears["c_attn"]
    made.linears |= {
        role: make_linear(t, recipe, role, ("hidden",), heads, shape.qkv_bias)
        for role in ("q_proj", "k_proj", "v_proj")
    }
    return made


def _run_layer(t: Tape, recipe: Recipe, layer: CausalLayer, hidden_states: Tensor, mask: Tensor | None) -> Tensor:
    def forward(x: Tensor) -> Tensor:
        return whole(x)[0]

    def whole(x: Tensor) -> tuple[Tensor, Tensor | None]:
        return _block(t, recipe, layer, x, mask)

    if "q_proj" in layer.parts.linears:
        # `GPTNeoBlock.forward` returns the attention weights too, which a reentrant checkpoint gives a gradient.
        return checkpointed(t, recipe.checkpointing, whole, hidden_states)[0]
    return checkpointed(t, recipe.checkpointing, forward, hidden_states)


def _block(
    t: Tape, recipe: Recipe, layer: CausalLayer, hidden_states: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    norms, drops = layer.parts.norms, layer.shape.hidden_dropout
    residual = hidden_states
    hidden_states = normalise(t, norms["ln_1"], hidden_states, "ln_1")
    attn_output, weights = _attention(t, layer, hidden_states, mask, drops=drops)
    hidden_states = ops.add(t, attn_output, residual, "residual sum")
    residual = hidden_states
    hidden_states = normalise(t, norms["ln_2"], hidden_states, "ln_2")
    feed_forward = _mlp(t, layer, hidden_states, drops=drops)
    return ops.add(t, residual, feed_forward, "residual sum"), weights


def _attention(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, mask: Tensor | None, *, drops: bool
) -> tuple[Tensor, Tensor | None]:
    """`GPT2Attention.forward`."""
    with t.module("self_attn", f"{GPT2}: GPT2Attention.forward"):
        shape, linears = layer.shape, layer.parts.linears
        heads, head_dim = layer_dims(shape, "heads"), layer_dims(shape, "head dim")
        dims = ("batch", "sequence", heads, head_dim)
        kv_dims = ("batch", "sequence", layer_dims(shape, "kv heads"), head_dim)
        separate = "q_proj" in linears
        if separate:
            query, key, value = (ops.view(t, linear(t, linears[f"{name}_proj"], hidden_states)) for name in "qkv")
        else:
            query, key, value = split(t, linear(t, linears["c_attn"], hidden_states), dims, kv_dims, kv_dims)
        key, value = heads_of(t, key, shape), heads_of(t, value, shape)
        query = heads_of(t, query, shape)
        if layer.cache is not None:
            key, value = layer.cache.update(t, key, value)
        weights: Tensor | None = None
        if shape.kernel == "eager":
            output, weights = eager_attention(
                t,
                shape,
                query,
                key,
                value,
                mask,
                joined=layer.cache is not None,
                upcast=shape.grouped_queries or separate,
                scores_in_fp32=separate,
                as_values=True,
            )
        else:
            output = attend(t, shape, query, key, value, mask)
        output = linear(t, linears["o_proj"], ops.view(t, output))
        if drops:
            output = ops.dropout(t, output)
        return output, weights


def _mlp(t: Tape, layer: CausalLayer, hidden_states: Tensor, *, drops: bool) -> Tensor:
    """`GPT2MLP.forward`."""
    with t.module("mlp", f"{GPT2}: GPT2MLP.forward"):
        linears = layer.parts.linears
        # The module call holds its argument, so the parameter is not bound again.
        inner = linear(t, linears["up_proj"], hidden_states)
        inner = activate(t, inner, layer.shape.activation)
        inner = linear(t, linears["down_proj"], inner)
        return ops.dropout(t, inner) if drops else inner


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Learned positions beside the tokens, a fused projection of equal heads or to one key head, layer norms first."""
    groups = _groups(spec)
    tables = [part for part in spec.stack.before if isinstance(part, Table)]
    if groups is None or len(tables) != 1 or len(spec.stack.before) != 1:
        return None
    group = groups[0]
    mixer, feed_forward = group.mixer, group.feed_forward
    if not (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and group.norm == LAYER_NORM == spec.stack.final_norm
        and group.arrangement == "pre"
        and (mixer.fused or (mixer.scores_in_fp32 and setting.attention != "flash_attention_2"))
        and mixer.rotary_share == 0
        and (mixer.kv_heads == 1 if mixer.fused and mixer.linear == "linear" else mixer.kv_heads == mixer.heads)
        and not feed_forward.gated
    ):
        return None
    separate = not mixer.fused
    kinds = kinds_of(groups, setting, only_eager=separate)
    masks_scores = separate or is_before(setting.version, (5,))
    shapes = tuple(replace(shape, masks_scores=masks_scores) for shape in kinds.shapes)
    symbols = (*kinds.symbols, Factor("position rows", tables[0].rows))
    body = Gpt2Body(shapes, embedding_dropout(spec, setting), is_tied(spec), separate)
    return Found(body, symbols, kinds.layers)


def _groups(spec: ModelSpec) -> tuple[LayerGroup, ...] | None:
    """Layers that differ in nothing but how far they look, which a buffer of each layer says (GPT-Neo)."""
    groups = only_stack(spec)
    if not groups:
        return None
    kinds = {replace(group, count=1, indices=(), mixer=_unbounded(group.mixer)) for group in groups}
    return groups if len(kinds) == 1 else None


def _unbounded(mixer: Mixer | None) -> Mixer | None:
    return replace(mixer, window=None) if isinstance(mixer, Attention) and mixer.scores_in_fp32 else mixer
