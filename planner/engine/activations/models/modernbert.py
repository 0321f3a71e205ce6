"""ModernBERT: norms first, rotary positions turned in fp32, local and global layers, gated feed-forwards."""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import Linear, layer_dims, linear, rotary_tables, slots_of, token_ids
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.eager import eager_attention
from planner.engine.activations.encoders import MASKS, EncoderShape, encoder_shape, encoder_symbols
from planner.engine.activations.functions import activate
from planner.engine.activations.heads import (
    HeadShape,
    HeadWeights,
    head_labels,
    head_shape,
    labelled_loss,
    make_head,
    mean_loss,
    transform,
)
from planner.engine.activations.loss import cross_entropy
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import part, split, sum_of
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import Place, WeightBook
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, ModelSpec, Norm, NormPart

AVERAGED = "The mean of all tokens behind reentrant checkpoints is counted roughly."
MODERNBERT = "transformers 5.24, models/modernbert/modeling_modernbert.py"


@dataclass(frozen=True, slots=True)
class LayerKind:
    """One kind of layer: local or global, and whether a norm stands before its attention."""

    attention: EncoderShape
    local: bool
    normed: bool


@dataclass(frozen=True, slots=True)
class ModernBertBody:
    """A normalised embedding, layers of several kinds, a norm and a head."""

    kinds: tuple[LayerKind, ...]
    norm: Norm
    head: HeadShape | None
    averages: bool = False
    """A classifier of sequences reads the mean of all tokens."""

    def build(self, t: Tape, recipe: Recipe) -> "ModernBert":
        book = WeightBook(t, recipe)
        word = book.tensor("tok_embeddings", ("table rows", "hidden"))
        norm = book.norm("embedding norm", ("hidden",), self.norm)
        layers = [
            _make_layer(book, slot, kind)
            for index, kind in enumerate(self.kinds)
            for slot in slots_of(index, kind.attention.layer.copies)
        ]
        final = book.norm("final_norm", ("hidden",), self.norm)
        head = make_head(book, self.head, word) if self.head is not None else None
        return ModernBert(self, recipe, book, word, norm, layers, final, head)


@dataclass(slots=True)
class Layer:
    """The weights of one recorded layer."""

    slot: str
    kind: LayerKind
    joint: Linear
    output: Linear
    up: Linear
    down: Linear
    first_norm: NormWeights | None
    second_norm: NormWeights


def _make_layer(book: WeightBook, slot: str, kind: LayerKind) -> Layer:
    shape, norm = kind.attention.layer, kind.attention.norm
    inner = (layer_dims(shape, "heads"), layer_dims(shape, "head dim"))
    ffn, width = layer_dims(shape, "ffn"), ("hidden",)
    with book.layer(slot):
        return Layer(
            slot,
            kind,
            book.linear("q_proj", width, (3, *inner), shape.qkv_bias),
            book.linear("o_proj", inner, width, shape.output_bias),
            book.linear("up_proj", width, (2, ffn), shape.mlp_bias),
            book.linear("down_proj", (ffn,), width, shape.mlp_bias),
            book.norm("attn_norm", width, norm) if kind.normed else None,
            book.norm("mlp_norm", width, norm),
        )


@dataclass(slots=True)
class ModernBert:
    """The weights of the recorded model."""

    body: ModernBertBody
    recipe: Recipe
    book: WeightBook
    word: Tensor
    norm: NormWeights
    layers: list[Layer]
    final: NormWeights
    head: HeadWeights | None

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids")}
        if self.recipe.passes_mask:
            held["mask"] = token_ids(t, "attention mask of the batch")
        if self.recipe.loss != "none" and self.head is not None:
            held |= {f"labels {i}": labels for i, labels in enumerate(head_labels(t, self.head.shape))}
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        last_hidden_state = _run_model(t, self, inputs["ids"])
        if self.head is None:
            return mean_loss(t, last_hidden_state), None
        logits = _logits(t, self.body, self.head, last_hidden_state)
        return _loss(t, self.head, logits, _labels(inputs)), logits if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        last_hidden_state = _run_model(t, self, inputs["ids"])
        if self.head is None:
            return last_hidden_state
        logits = _logits(t, self.body, self.head, last_hidden_state)
        labels = _labels(inputs)
        return logits, _loss(t, self.head, logits, labels) if labels else None

    def weights(self) -> list[Place]:
        return self.book.places


def _labels(inputs: dict[str, Tensor]) -> list[Tensor]:
    return [tensor for name, tensor in inputs.items() if name.startswith("labels")]


def _logits(t: Tape, body: ModernBertBody, head: HeadWeights, hidden_states: Tensor) -> Tensor:
    """`ModernBertForSequenceClassification.forward` and the like: the transform stands before every projection."""
    if head.shape.task == "sequence-classification":
        pooled = ("batch", "hidden")
        hidden_states = _average(t, hidden_states) if body.averages else part(t, hidden_states, *pooled)
    hidden_states = transform(t, head, hidden_states)
    if head.shape.dropout:
        hidden_states = ops.dropout(t, hidden_states)
    return linear(t, head.projection, hidden_states)


def _average(t: Tape, hidden_states: Tensor) -> Tensor:
    """The states times the mask, summed, over the number of tokens."""
    with t.no_grad():
        mask = t.new(("batch", "sequence", 1), "bool", "mask of tokens")
        t.tick("mask of tokens")
    summed = sum_of(t, ops.mul(t, hidden_states, mask, "masked states"), ("batch", "hidden"))
    return ops.elementwise(t, summed, "mean of tokens")


def _loss(t: Tape, head: HeadWeights, logits: Tensor, labels: list[Tensor]) -> Tensor:
    """`ForMaskedLMLoss`: cross entropy of the logits in fp32; of labels, in the model's dtype."""
    if head.shape.task != "masked-lm":
        return labelled_loss(t, head, logits, labels)
    with t.module("loss", "transformers 5.24, loss/loss_utils.py: ForMaskedLMLoss"):
        wide = ops.to(t, logits, "fp32", "logits in fp32")
        return cross_entropy(t, wide, labels[0])


def _run_model(t: Tape, model: ModernBert, ids: Tensor) -> Tensor:
    """`ModernBertModel.forward`."""
    with t.module("model", f"{MODERNBERT}: ModernBertModel.forward"):
        hidden_states = normalise(
            t, model.norm, ops.embedding(t, model.word, ("batch", "sequence", "hidden"), ids), "norm"
        )
        masks = {kind.local: _mask(t, kind, hidden_states) for kind in model.body.kinds}
        head_dim = layer_dims(model.body.kinds[0].attention.layer, "head dim")
        tables = {local: rotary_tables(t, head_dim, hidden_states.dtype) for local in masks}
        for layer in model.layers:
            local = layer.kind.local
            with t.layer(layer.slot), t.module("layer", f"{MODERNBERT}: ModernBertEncoderLayer.forward"):
                hidden_states = _checkpointed(t, model.recipe, layer, hidden_states, masks[local], *tables[local])
        return normalise(t, model.final, hidden_states, "final_norm")


def _mask(t: Tape, kind: LayerKind, hidden_states: Tensor) -> Tensor | None:
    """Which tokens lie inside the window, the same for every sequence."""
    if not kind.attention.layer.masked:
        return None
    length = hidden_states.dims[1]
    with t.module("mask", MASKS), t.no_grad():
        eager = kind.attention.layer.kernel == "eager"
        mask = t.new((1, 1, length, length), hidden_states.dtype if eager else "bool", "mask of the window")
        t.tick("mask of the window")
        return mask if eager else mask.handle((hidden_states.dims[0], 1, length, length))


def _checkpointed(
    t: Tape, recipe: Recipe, layer: Layer, hidden_states: Tensor, mask: Tensor | None, cos: Tensor, sin: Tensor
) -> Tensor:
    def forward(x: Tensor) -> Tensor:
        return _run_layer(t, layer, x, mask, cos, sin)

    return checkpointed(t, recipe.checkpointing, forward, hidden_states)


def _run_layer(t: Tape, layer: Layer, hidden_states: Tensor, mask: Tensor | None, cos: Tensor, sin: Tensor) -> Tensor:
    normed = hidden_states
    if layer.first_norm is not None:
        normed = normalise(t, layer.first_norm, hidden_states, "attn_norm")
    attn_output, _weights = _attention(t, layer, normed, mask, cos, sin)
    del normed
    hidden_states = ops.add(t, hidden_states, attn_output, "residual sum")
    normed = normalise(t, layer.second_norm, hidden_states, "mlp_norm")
    return ops.add(t, hidden_states, _mlp(t, layer, normed), "residual sum")


def _mlp(t: Tape, layer: Layer, hidden_states: Tensor) -> Tensor:
    with t.module("mlp"):
        shape = layer.kind.attention.layer
        half = (*hidden_states.dims[:2], layer_dims(shape, "ffn"))
        inner, gate = split(t, linear(t, layer.up, hidden_states), half, half)
        return linear(t, layer.down, ops.mul(t, activate(t, inner, shape.activation), gate, "gated product"))


def _attention(
    t: Tape, layer: Layer, hidden_states: Tensor, mask: Tensor | None, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor | None]:
    """`ModernBertAttention.forward`."""
    with t.module("attn", f"{MODERNBERT}: ModernBertAttention.forward"):
        shape = layer.kind.attention.layer
        dims = (*hidden_states.dims[:2], layer_dims(shape, "heads"), layer_dims(shape, "head dim"))
        qkv = linear(t, layer.joint, hidden_states)
        query, key, value = split(t, qkv, dims, dims, dims)
        query, key = _rotate(t, query, key, cos, sin, layer_dims(shape, "half head dim"))
        weights: Tensor | None = None
        if shape.kernel == "eager":
            output, weights = eager_attention(t, shape, query, key, value, mask, joined=False)
        else:
            output = attend(t, shape, query, key, value, mask)
        return linear(t, layer.output, output), weights


def _rotate(t: Tape, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, half: str) -> tuple[Tensor, Tensor]:
    """`apply_rotary_pos_emb`: in fp32, of one copy for each of the two products."""
    with t.module("rotary", f"{MODERNBERT}: apply_rotary_pos_emb"):
        dtype = q.dtype
        q_embed = _turned(t, q, cos, sin, half)
        k_embed = _turned(t, k, cos, sin, half)
        return ops.to(t, q_embed, dtype, "rotated q"), ops.to(t, k_embed, dtype, "rotated k")


def _turned(t: Tape, x: Tensor, cos: Tensor, sin: Tensor, half: str) -> Tensor:
    straight = ops.mul(t, ops.to(t, x, "fp32", "heads in fp32"), cos)
    across = ops.mul(t, ops.cat_halves(t, ops.to(t, x, "fp32", "heads in fp32"), half), sin)
    return ops.add(t, straight, across, "rotated heads")


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A normalised embedding and layers of fused, rotated attention and gated feed-forwards, some of them local."""
    stack = spec.stack
    norm = stack.final_norm
    if len(spec.stacks) != 1 or stack.embedding is None or norm is None or spec.task not in TASKS:
        return None
    if len(stack.before) != 1 or not isinstance(stack.before[0], NormPart) or not all(map(_is_kind, stack.groups)):
        return None
    kinds = tuple(_kind(index, group, setting) for index, group in enumerate(stack.groups))
    symbols = [
        symbol
        for kind, group in zip(kinds, stack.groups, strict=True)
        for symbol in encoder_symbols(kind.attention, group, setting)
    ]
    head = None
    if spec.head is not None:
        activation = kinds[0].attention.layer.activation
        head = head_shape(
            spec.head, spec.task, activation=activation, pooled=False, training=setting.training, inputs="hidden"
        )
    layers = {str(index): group.count for index, group in enumerate(stack.groups)}
    averages = spec.head is not None and spec.head.averages

    def doubts(recipe: Recipe) -> tuple[str, ...]:
        return (AVERAGED,) if averages and recipe.checkpointing == "reentrant" else ()

    return Found(ModernBertBody(kinds, norm, head, averages), tuple(symbols), layers, doubts=doubts)


TASKS = (
    "masked-lm",
    "feature-extraction",
    "sequence-classification",
    "token-classification",
    "question-answering",
)


def _is_kind(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and mixer.fused
        and not mixer.causal
        and mixer.rotary_share == 1
        and feed_forward.gated
        and feed_forward.fused
        and group.norm.kind == "layernorm"
        and group.arrangement == "pre"
        and not group.dropout
        and not group.extra
    )


def _kind(index: int, group: LayerGroup, setting: Setting) -> LayerKind:
    assert isinstance(group.mixer, Attention)
    local = group.mixer.window is not None
    name = f"kind {index + 1} " if index else ""
    return LayerKind(encoder_shape(name, group, setting, window=group.mixer.window), local, group.norms > 1)
