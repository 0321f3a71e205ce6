"""Mamba and Mamba 2: layers of one norm and one state-space mixer between an embedding and a head.

Sources: transformers 5.24, `models/mamba2/modeling_mamba2.py`, `models/mamba/modeling_mamba.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from planner.engine.activations import ops
from planner.engine.activations.blocks import (
    Linear,
    linear_weights,
    make_linear,
    rms_norm,
    slots_of,
    token_ids,
)
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.loss import causal_loss, head_logits, loss_forward
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.selective_scan import MambaShape, make_mamba, mamba_mixer
from planner.engine.activations.setting import RECORDED, Found, Loads, Setting, divided
from planner.engine.activations.state_space import (
    MAMBA2,
    Mamba2Shape,
    StateCache,
    StateWeights,
    make_mamba2,
    mamba2_mixer,
)
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.term import Factor
from planner.model.spec import LayerGroup, Mamba, Mamba2, ModelSpec


@dataclass(slots=True)
class StateLayer:
    """One recorded layer."""

    slot: str
    mixer: Mamba2Shape | MambaShape
    norm: Tensor
    weights: StateWeights
    cache: StateCache | None


@dataclass(frozen=True, slots=True)
class StateBody:
    """Kinds of layers with how many of each are recorded."""

    layers: tuple[tuple[Mamba2Shape | MambaShape, int], ...]
    fp32_residual: bool
    tied_embeddings: bool

    def build(self, t: Tape, recipe: Recipe) -> "StateModel":
        full = recipe.lora is None

        def vector() -> Tensor:
            return t.parameter(("hidden",), recipe.weight_dtype, trainable=full)

        embedding = t.parameter(("table rows", "hidden"), recipe.weight_dtype, trainable=full)
        head = make_linear(t, recipe, "lm_head", ("hidden",), ("vocabulary",), False, rows=("table rows",))
        if self.tied_embeddings:
            head.weight = embedding
        layers = [
            _make_layer(t, recipe, mixer, slot, vector())
            for index, (mixer, copies) in enumerate(self.layers)
            for slot in slots_of(index, copies)
        ]
        return StateModel(self, recipe, embedding, layers, vector(), head)


def _make_layer(t: Tape, recipe: Recipe, mixer: Mamba2Shape | MambaShape, slot: str, norm: Tensor) -> StateLayer:
    if isinstance(mixer, MambaShape):
        return StateLayer(slot, mixer, norm, make_mamba(t, recipe, mixer), None)
    return StateLayer(slot, mixer, norm, make_mamba2(t, recipe, mixer), state_cache(t, recipe, mixer, slot))


@dataclass(slots=True)
class StateModel:
    """The weights of the recorded model."""

    body: StateBody
    recipe: Recipe
    embedding: Tensor
    layers: list[StateLayer]
    norm: Tensor
    head: Linear
    kept: list[StateCache] = field(default_factory=list)

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids")}
        if self.recipe.passes_mask:
            held["mask"] = token_ids(t, "attention mask of the batch")
        if self.recipe.loss != "none":
            held["labels"] = token_ids(t, "labels")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        output = run_model(t, self, inputs["ids"])
        hidden_states = ops.to(t, output, self.head.weight.dtype, "input of the head")
        result = fp32_loss(t, self.recipe, self.head, hidden_states, inputs["labels"])
        del output
        return result

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        output = run_model(t, self, inputs["ids"])
        hidden_states = ops.to(t, output, self.head.weight.dtype, "input of the head")
        logits = ops.to(t, head_logits(t, self.recipe, self.head, hidden_states), "fp32", "logits in fp32")
        labels = inputs.get("labels")
        loss = loss_forward(t, self.recipe, logits, labels) if labels is not None else None
        return output, logits, loss

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        yield from (("", "embeddings", self.embedding), ("", "norm_f", self.norm))
        yield from (("", self.head.role, weight) for weight in linear_weights(self.head))
        for layer in self.layers:
            yield (layer.slot, "norm", layer.norm)
            for role, each in layer.weights.linears.items():
                yield from ((layer.slot, role, weight) for weight in linear_weights(each))
            yield from ((layer.slot, name, weight) for name, weight in layer.weights.others.items())


def state_cache(t: Tape, recipe: Recipe, mixer: Mamba2Shape, slot: str) -> StateCache | None:
    """What one layer keeps of the past: nothing yet, or the states of the context where the recipe decodes."""
    if not recipe.use_cache:
        return None
    if not recipe.cache_filled:
        return StateCache()
    dtype = t.autocast or recipe.weight_dtype
    with t.layer(slot):
        convolution = ("batch", mixer.dim("conv channels"), mixer.dim("conv kernel"))
        recurrent = ("batch", *(mixer.dim(name) for name in ("state heads", "state head dim", "state")))
        return StateCache(
            t.new(convolution, dtype, "convolution state", "kv cache"),
            t.new(recurrent, "fp32", "recurrent state", "kv cache"),
        )


def fp32_loss(t: Tape, recipe: Recipe, head: Linear, hidden_states: Tensor, labels: Tensor) -> tuple[Tensor, object]:
    """The loss of a class that brings its logits to fp32 itself, so that the 16-bit ones are dropped before it."""
    if recipe.loss not in ("full_logits", "log_probabilities"):
        loss, logits = causal_loss(t, recipe, head, hidden_states, labels)
    else:
        logits = ops.to(t, head_logits(t, recipe, head, hidden_states), "fp32", "logits in fp32")
        loss = loss_forward(t, recipe, logits, labels)
    return loss, logits if recipe.keeps_outputs else None


def run_model(t: Tape, model: StateModel, ids: Tensor) -> Tensor:
    """`Mamba2Model.forward`."""
    recipe = model.recipe
    with t.module("backbone", f"{MAMBA2}: Mamba2Model.forward"):
        inputs_embeds = ops.embedding(t, model.embedding, ("batch", "sequence", "hidden"), ids)
        if recipe.needs_input_gradient(inputs_embeds.requires_grad):
            inputs_embeds = t.leaf(inputs_embeds)
        hidden_states = inputs_embeds
        for layer in model.layers:
            with t.layer(layer.slot), t.module("layer", f"{MAMBA2}: Mamba2Block.forward"):
                hidden_states = _run_layer(t, model, layer, hidden_states)
        result = rms_norm(t, model.norm, hidden_states, "norm_f")
        del inputs_embeds
        return result


def _run_layer(t: Tape, model: StateModel, layer: StateLayer, hidden_states: Tensor) -> Tensor:
    def forward(x: Tensor) -> Tensor:
        residual = x
        normed = rms_norm(t, layer.norm, ops.to(t, x, layer.norm.dtype, "input in the weights' dtype"), "norm")
        if model.body.fp32_residual:
            residual = ops.to(t, residual, "fp32", "residual in fp32")
        if isinstance(layer.mixer, MambaShape):
            normed = mamba_mixer(t, layer.mixer, layer.weights, normed)
        else:
            normed = mamba2_mixer(t, layer.mixer, layer.weights, normed, layer.cache)
        return ops.add(t, residual, normed, "residual sum")

    return checkpointed(t, model.recipe.checkpointing, forward, hidden_states)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """The body of a model that is nothing but state-space mixers."""
    groups = spec.stack.groups
    if len(spec.stacks) > 1 or not groups or not all(_is_told(group) for group in groups):
        return None
    layers: list[tuple[Mamba2Shape | MambaShape, int]] = []
    symbols: list[Factor] = []
    for index, group in enumerate(groups):
        mixer = group.mixer
        name = f"kind {index + 1} " if index else ""
        copies = min(group.count, RECORDED)
        if isinstance(mixer, Mamba2):
            layers.append((state_shape(name, mixer, setting), copies))
            symbols += state_symbols(name, mixer, setting)
        elif isinstance(mixer, Mamba):
            layers.append((mamba_shape(name, mixer, setting), copies))
            symbols += mamba_symbols(name, mixer, setting)
    first = groups[0].mixer
    assert isinstance(first, Mamba2 | Mamba)
    body = StateBody(tuple(layers), first.fp32_residual, spec.head is not None and spec.head.tied)

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return scan_dims(first, loads)

    counts = {str(index): group.count for index, group in enumerate(groups)}
    return Found(body, tuple(symbols), counts, derived)


def mamba_shape(name: str, mixer: Mamba, setting: Setting) -> MambaShape:
    """The mixer of one kind of layer, without sizes."""
    return MambaShape(
        name, mixer.bias, mixer.conv_bias, mixer.inner_norms, mixer.weightless_norms, setting.single_sequence
    )


def mamba_symbols(name: str, mixer: Mamba, setting: Setting) -> list[Factor]:
    """The sizes of one kind of layer's mixer."""
    return [
        divided(f"{name}inner", mixer.inner_size, setting.tensor_parallel),
        Factor(f"{name}state", mixer.state_size),
        Factor(f"{name}step rank", mixer.dt_rank),
        Factor(f"{name}step, B and C", mixer.dt_rank + 2 * mixer.state_size),
        Factor(f"{name}conv kernel", mixer.kernel),
    ]


def scan_dims(mixer: Mamba | Mamba2, loads: Loads) -> tuple[Factor, ...]:
    """The length with what the convolution adds, and what the scan cuts the sequence into."""
    longer = Factor("length with convolution padding", loads.sequence + mixer.kernel - 1)
    if isinstance(mixer, Mamba):
        return (longer, Factor("sequence less one", loads.sequence - 1))
    chunks = (loads.sequence + mixer.chunk - 1) // mixer.chunk
    return (
        longer,
        Factor("chunks", chunks, f"tokens in chunks of {mixer.chunk}"),
        Factor("chunks and the start", chunks + 1),
    )


def _is_told(group: LayerGroup) -> bool:
    return (
        (isinstance(group.mixer, Mamba2) or (isinstance(group.mixer, Mamba) and not group.mixer.inner_norms))
        and group.feed_forward is None
        and group.norms == 1
        and group.norm.kind == "rmsnorm"
        and not group.extra
    )


def state_shape(name: str, mixer: Mamba2, setting: Setting) -> Mamba2Shape:
    """The mixer of one kind of layer, without sizes."""
    return Mamba2Shape(
        name,
        bias=mixer.bias,
        output_bias=mixer.bias if mixer.output_bias is None else mixer.output_bias,
        conv_bias=mixer.conv_bias,
        gated_norm=mixer.gated_norm,
        cuts_padding=setting.longest_sequence % mixer.chunk > 0,
    )


def state_symbols(name: str, mixer: Mamba2, setting: Setting) -> list[Factor]:
    """The sizes of one kind of layer's mixer."""
    parts = setting.tensor_parallel
    return [
        divided(f"{name}state heads", mixer.heads, parts),
        Factor(f"{name}state head dim", mixer.head_dim),
        Factor(f"{name}state", mixer.state_size),
        Factor(f"{name}state groups", mixer.groups),
        Factor(f"{name}chunk", mixer.chunk),
        Factor(f"{name}conv kernel", mixer.kernel),
        divided(f"{name}conv channels", mixer.conv_size, parts),
        divided(f"{name}projection", mixer.inner_size + mixer.conv_size + mixer.heads, parts),
    ]
