"""gpt-oss: attention with sinks, alternating windows, and experts with biases and a clamped gate.

Source: transformers 5.24, `models/gpt_oss/modeling_gpt_oss.py`.
"""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import LayerWeights, layer_dims, linear, make_linear, rotary_tables
from planner.engine.activations.causal import (
    CausalLayer,
    CausalModel,
    LayerParts,
    causal_mask,
    is_tied,
    make_head,
    make_layers,
    make_table,
    position_ids,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.experts import make_experts, mixture
from planner.engine.activations.latent import rotated_halves
from planner.engine.activations.models import llama, moe
from planner.engine.activations.norms import make_norm, normalise
from planner.engine.activations.ops_shape import split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.sinks import GPT_OSS, sink_attention, sinks_of_kernel
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.term import Factor
from planner.model.spec import Attention, LayerGroup, MixtureOfExperts, ModelSpec, Norm


@dataclass(frozen=True, slots=True)
class GptOssBody:
    """One kind of layer: windows change what a mask hides, not what is kept."""

    layer: LayerShape
    norm: Norm
    slides: bool
    tied_embeddings: bool

    def build(self, t: Tape, recipe: Recipe) -> CausalModel:
        embedding = make_table(t, recipe, "table rows")
        return CausalModel(
            recipe,
            embedding,
            make_head(t, recipe, embedding, tied=self.tied_embeddings),
            make_layers(t, recipe, [self.layer], self._make_layer),
            self.hidden_states,
            {"norm": make_norm(t, recipe, self.norm)},
        )

    def _make_layer(self, t: Tape, recipe: Recipe, shape: LayerShape) -> LayerParts:
        heads, kv_heads, head_dim = (layer_dims(shape, name) for name in ("heads", "kv heads", "head dim"))
        hidden: Dims = ("hidden",)
        outputs: dict[str, Dims] = {"q_proj": (heads, head_dim), "k_proj": (kv_heads, head_dim)}
        outputs["v_proj"] = outputs["k_proj"]
        linears = {role: make_linear(t, recipe, role, hidden, o, shape.qkv_bias) for role, o in outputs.items()}
        linears["o_proj"] = make_linear(t, recipe, "o_proj", (heads, head_dim), hidden, shape.output_bias)
        assert shape.experts is not None
        others = make_experts(t, recipe, shape, shape.experts)
        others["sinks"] = t.parameter((heads,), recipe.weight_dtype, trainable=recipe.lora is None)
        norms = {name: make_norm(t, recipe, self.norm) for name in ("input", "post_attention")}
        return LayerParts(linears, norms, others)

    def hidden_states(self, t: Tape, model: CausalModel, ids: Tensor) -> Tensor:
        """`GptOssModel.forward`."""
        recipe = model.recipe
        with t.module("model", f"{GPT_OSS}: GptOssModel.forward"):
            inputs_embeds = ops.embedding(t, model.embedding, ("batch", "sequence", "hidden"), ids)
            if recipe.needs_input_gradient(inputs_embeds.requires_grad):
                inputs_embeds = t.leaf(inputs_embeds)
            positions = position_ids(t)
            # One mask for layers that see everything, one for those that slide.
            masks = [causal_mask(t, recipe, self.layer, inputs_embeds.dtype) for _ in range(2 if self.slides else 1)]
            cos, sin = rotary_tables(t, layer_dims(self.layer, "half head dim"), inputs_embeds.dtype)
            hidden_states = inputs_embeds
            for index, layer in enumerate(model.layers):
                mask = masks[index % len(masks)]
                with t.layer(layer.slot), t.module("layer", f"{GPT_OSS}: GptOssDecoderLayer.forward"):
                    hidden_states = _checkpointed(t, recipe, layer, hidden_states, cos, sin, mask)
            result = normalise(t, model.norms["norm"], hidden_states, "norm")
            del positions, inputs_embeds, masks
            return result


def _checkpointed(
    t: Tape, recipe: Recipe, layer: CausalLayer, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    return checkpointed(t, recipe.checkpointing, lambda inner: _run_layer(t, layer, inner, cos, sin, mask), x)


def _run_layer(
    t: Tape, layer: CausalLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    parts, shape = layer.parts, layer.shape
    residual = hidden_states
    hidden_states = normalise(t, parts.norms["input"], hidden_states, "input_layernorm")
    held: list[Tensor] = []
    hidden_states = _attention(t, layer, hidden_states, cos, sin, mask, held)
    hidden_states = ops.add(t, residual, hidden_states, "residual sum")
    residual = hidden_states
    hidden_states = normalise(t, parts.norms["post_attention"], hidden_states, "post_attention_layernorm")
    assert shape.experts is not None
    hidden_states = mixture(t, shape, shape.experts, LayerWeights(parts.linears, {}, parts.others), hidden_states)
    return ops.add(t, residual, hidden_states, "residual sum")


def _attention(
    t: Tape,
    layer: CausalLayer,
    hidden_states: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor | None,
    held: list[Tensor],
) -> Tensor:
    linears, shape = layer.parts.linears, layer.shape
    with t.module("self_attn", f"{GPT_OSS}: GptOssAttention.forward"):
        query, key, value = (ops.view(t, linear(t, linears[f"{name}_proj"], hidden_states)) for name in "qkv")
        query, key = _rotated(t, shape, query, key, cos, sin)
        if layer.cache is not None:
            key, value = layer.cache.update(t, key, value)
        if shape.kernel == "eager":
            output, weights = sink_attention(t, shape, query, key, value, layer.parts.others["sinks"], mask)
            held.append(weights)
            del weights
        else:
            output = attend(t, shape, query, key, value, mask)
            output = sinks_of_kernel(t, output, layer.parts.others["sinks"])
        return linear(t, linears["o_proj"], ops.view(t, output))


def _rotated(t: Tape, shape: LayerShape, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    with t.module("rotary", f"{GPT_OSS}: apply_rotary_pos_emb"):
        half = layer_dims(shape, "half head dim")
        turned = []
        for x, name in ((query, "q"), (key, "k")):
            one, two = split(t, x, *([(*x.dims[:-1], half)] * 2))
            turned.append(rotated_halves(t, one, two, cos, sin, x.dims, f"rotated {name}"))
            del one, two
        return turned[0], turned[1]


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Layers of experts and attention with sinks, which differ at most in their windows."""
    groups = spec.stack.groups
    if len(spec.stacks) > 1 or not groups or not all(_is_told(group) for group in groups):
        return None
    alike = {_without_window(group) for group in groups}
    if len(alike) > 1:
        return None
    # The class has no SDPA: transformers runs it eagerly unless a flash kernel is asked for.
    own = replace(setting, attention="eager" if setting.attention == "sdpa" else setting.attention)
    count = sum(group.count for group in groups)
    only = replace(spec, stacks=(replace(spec.stack, groups=(replace(groups[0], count=count),)),))
    found = moe.with_experts(llama.approximate(only, own), only, own)
    assert isinstance(found.body, llama.DecoderBody)
    layer = replace(found.body.layers[0], copies=min(count, RECORDED))
    slides = any(isinstance(group.mixer, Attention) and group.mixer.window is not None for group in groups)
    body = GptOssBody(layer, groups[0].norm, slides, is_tied(spec))
    return replace(found, body=body, derived=_keys_and_sink)


def _keys_and_sink(loads: Loads) -> tuple[Factor, ...]:
    return (Factor("keys and sink", loads.context + loads.sequence + 1),)


def _without_window(group: LayerGroup) -> LayerGroup:
    assert isinstance(group.mixer, Attention)
    return replace(group, count=1, indices=(), mixer=replace(group.mixer, window=None))


def _is_told(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and mixer.sinks
        and mixer.qk_norm is None
        and mixer.rotary_share == 1.0
        and not (mixer.fused or mixer.gated)
        and isinstance(feed_forward, MixtureOfExperts)
        and moe.is_told(group)
        and group.norm.kind == "rmsnorm"
        and group.arrangement == "pre"
    )
