"""What all decoder-only language models of transformers share around their layers: batch, cache, head and loss."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from planner.engine.activations import ops
from planner.engine.activations.attention import Cache
from planner.engine.activations.blocks import Linear, layer_dims, linear_weights, make_linear, slots_of, token_ids
from planner.engine.activations.loss import causal_loss, head_logits, loss_forward
from planner.engine.activations.norms import NormWeights
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.virtual import hold_prompt
from planner.model.spec import ModelSpec


@dataclass(slots=True)
class LayerParts:
    """The weights of one recorded layer: linear layers by role, norms and loose parameters by name."""

    linears: dict[str, Linear]
    norms: dict[str, NormWeights]
    others: dict[str, Tensor] = field(default_factory=dict)


@dataclass(slots=True)
class CausalLayer:
    """One layer of the recording and the slot it stands for."""

    slot: str
    shape: LayerShape
    parts: LayerParts
    cache: Cache | None


@dataclass(slots=True)
class CausalModel:
    """The weights of a recorded model; `hidden_states` is the forward pass of its base model."""

    recipe: Recipe
    embedding: Tensor
    head: Linear
    layers: list[CausalLayer]
    hidden_states: "Callable[[Tape, CausalModel, Tensor], Tensor]"
    norms: dict[str, NormWeights] = field(default_factory=dict)
    tables: dict[str, Tensor] = field(default_factory=dict)
    """Further embedding tables, of positions for example."""
    linears: dict[str, Linear] = field(default_factory=dict)
    """Further projections outside the layers."""
    softcap: bool = False
    """The logits are capped by a tanh."""
    scaled_logits: bool = False

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids")}
        if self.recipe.cache_filled:
            held["context"] = t.new(("batch", "context"), "int64", "ids of the context")
        if self.recipe.passes_mask:
            held["mask"] = token_ids(t, "attention mask of the batch")
        if self.recipe.loss != "none":
            held["labels"] = token_ids(t, "labels")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        ids, labels = inputs["ids"], inputs["labels"]
        hidden_states = self.hidden_states(t, self, ids)
        loss, logits = causal_loss(
            t, self.recipe, self.head, hidden_states, labels, softcap=self.softcap, scaled=self.scaled_logits
        )
        kept = (logits, [layer.cache for layer in self.layers]) if self.recipe.keeps_outputs else None
        for layer in self.layers:
            layer.cache = None
        return loss, kept

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        labels = inputs.get("labels")
        hidden_states = self.hidden_states(t, self, inputs["ids"])
        logits = head_logits(t, self.recipe, self.head, hidden_states, softcap=self.softcap, scaled=self.scaled_logits)
        loss = loss_forward(t, self.recipe, logits, labels) if labels is not None else None
        return hidden_states, logits, loss

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        yield ("", "embed_tokens", self.embedding)
        yield from (("", name, table) for name, table in self.tables.items())
        yield from _weights_of("", {**self.linears, self.head.role: self.head}, self.norms)
        for layer in self.layers:
            yield from _weights_of(layer.slot, layer.parts.linears, layer.parts.norms)
            yield from ((layer.slot, name, weight) for name, weight in layer.parts.others.items())


def _weights_of(
    slot: str, linears: dict[str, Linear], norms: dict[str, NormWeights]
) -> Iterable[tuple[str, str, Tensor]]:
    for role, each in linears.items():
        yield from ((slot, role, weight) for weight in linear_weights(each))
    for name, norm in norms.items():
        yield from ((slot, name, weight) for weight in norm.tensors())


def make_layers(
    t: Tape, recipe: Recipe, shapes: Sequence[LayerShape], make: Callable[[Tape, Recipe, LayerShape], LayerParts]
) -> list[CausalLayer]:
    """The recorded layers of every kind, with their caches."""
    return [
        CausalLayer(slot, shape, make(t, recipe.for_kind(index), shape), make_cache(t, recipe, shape, slot))
        for index, shape in enumerate(shapes)
        for slot in slots_of(index, shape.copies)
    ]


def make_fused(t: Tape, recipe: Recipe, role: str, name: str, inputs: Dims, outputs: Dims, has_bias: bool) -> Linear:
    """Several projections in one matrix: adapters ask for it by the role of the first, the class by its own name."""
    made = make_linear(t, recipe, role, inputs, outputs, has_bias)
    made.role = name
    return made


def make_table(t: Tape, recipe: Recipe, rows: str, size: str = "hidden") -> Tensor:
    """An embedding table."""
    return t.parameter((rows, size), recipe.weight_dtype, trainable=recipe.lora is None)


def make_head(
    t: Tape, recipe: Recipe, embedding: Tensor, *, tied: bool, bias: bool = False, inputs: str = "hidden"
) -> Linear:
    """The output projection, which may be the token table itself."""
    head = make_linear(t, recipe, "lm_head", (inputs,), ("vocabulary",), bias, rows=("table rows",))
    if tied:
        head.weight = embedding
    return head


def make_cache(t: Tape, recipe: Recipe, shape: LayerShape, slot: str) -> Cache | None:
    """The key and value cache of one layer, filled with the context where the recipe decodes."""
    if not recipe.use_cache:
        return None
    if not recipe.cache_filled:
        return Cache(None)
    heads = "heads" if shape.caches_all_heads else "kv heads"
    dims = ("batch", "context", layer_dims(shape, heads), layer_dims(shape, "head dim"))
    with t.layer(slot):
        dtype = t.autocast or recipe.weight_dtype
        return Cache((t.new(dims, dtype, "cached keys", "kv cache"), t.new(dims, dtype, "cached values", "kv cache")))


def key_length(recipe: Recipe) -> str:
    """The tokens that a new one looks back at, itself included."""
    return "context and new token" if recipe.cache_filled else "sequence"


def embed(t: Tape, model: CausalModel, ids: Tensor, *, scaled: bool = False) -> Tensor:
    """Rows of the token table, which a class may multiply by a constant."""
    recipe = model.recipe
    embedded = ops.embedding(t, model.embedding, ("batch", "sequence", model.embedding.dims[-1]), ids)
    if scaled:
        embedded = ops.elementwise(t, embedded, "scaled embedding")
    embedded = t.with_images(embedded)
    hold_prompt(t, embedded)
    if recipe.needs_input_gradient(embedded.requires_grad):
        # Reentrant checkpoints need an input that requires a gradient (`enable_input_require_grads`).
        embedded = t.leaf(embedded)
    return embedded


def position_ids(t: Tape) -> Tensor:
    ids = t.new((1, "sequence"), "int64", "position ids")
    t.tick("position ids")
    return ids


def causal_mask(t: Tape, recipe: Recipe, shape: LayerShape, dtype: str) -> Tensor | None:
    """`create_causal_mask`: nothing where the kernel needs none, a boolean for SDPA, a bias in eager mode."""
    if not shape.masked:
        return None
    dims = ("batch", 1, "sequence", key_length(recipe))
    with t.module("mask", "transformers 5.24, masking_utils.py"), t.no_grad():
        boolean = t.new((1, *dims[1:]) if shape.shared_mask else dims, "bool", "boolean mask")
        t.tick("boolean mask")
        if shape.kernel != "eager":
            return ops.view(t, boolean, *dims)
        bias = t.new(dims, dtype, "attention mask")
        t.tick("attention mask")
        return bias


def is_tied(spec: ModelSpec) -> bool:
    return spec.head is not None and spec.head.tied
