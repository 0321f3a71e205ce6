"""BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA and DistilBERT: encoders that normalise after each sum."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear, token_ids
from planner.engine.activations.encoders import (
    EncoderLayer,
    EncoderShape,
    attention,
    bidirectional_mask,
    encoder_shape,
    encoder_symbols,
    intermediate,
    is_plain,
    make_encoder,
    run_encoder,
)
from planner.engine.activations.heads import (
    HeadShape,
    HeadWeights,
    head_labels,
    head_shape,
    labelled_loss,
    logits_of,
    loss_of,
    make_head,
    mean_loss,
    pooled_state,
)
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import LAYER_NORM, ModelSpec, NormPart, Table
from planner.model.spec import Linear as LinearPart

BERT = "transformers 5.24, models/bert/modeling_bert.py"
MPNET = "transformers 5.24, models/mpnet/modeling_mpnet.py: MPNetEncoder.compute_position_bias"
POSITIONS, TYPES, PROJECTION = "position_embeddings", "token_type_embeddings", "embeddings_project"
DISTANCES = "relative_attention_bias"


@dataclass(frozen=True, slots=True)
class BertBody:
    """An encoder over the sum of token, position and type tables."""

    layer: EncoderShape
    head: HeadShape | None
    has_types: bool
    projects: bool
    """The tables are narrower than the layers (ELECTRA)."""
    positions_of_tokens: bool
    gathers_types: bool
    """Token types are gathered for the batch's positions, not a slice of the buffer (transformers 5)."""
    dropout: bool
    pooled: bool
    shared: bool = False
    """All layers have the same weights (ALBERT)."""

    def build(self, t: Tape, recipe: Recipe) -> "Bert":
        book = WeightBook(t, recipe)
        width = "table width" if self.projects else "hidden"
        word = book.tensor("word_embeddings", ("table rows", width))
        types = book.tensor(TYPES, ("type rows", width)) if self.has_types else None
        tables = Tables(word, book.tensor(POSITIONS, ("position rows", width)), types, book.norm("LayerNorm", (width,)))
        if self.projects:
            tables.projection = book.linear(PROJECTION, (width,), ("hidden",))
        distances = book.tensor(DISTANCES, ("distance rows", "heads")) if self.layer.relative else None
        layers = make_encoder(book, 0, self.layer, ("attention norm", "output norm"), shared=self.shared)
        head = make_head(book, self.head, word) if self.head is not None else None
        pooler = book.linear("pooler", ("hidden",), ("hidden",)) if self.pooled and head is None else None
        return Bert(self, recipe, book, tables, layers, head, pooler, distances)


@dataclass(slots=True)
class Tables:
    """What the tokens are looked up in."""

    word: Tensor
    positions: Tensor
    types: Tensor | None
    norm: NormWeights
    projection: Linear | None = None


@dataclass(slots=True)
class Bert:
    """The weights of the recorded model."""

    body: BertBody
    recipe: Recipe
    book: WeightBook
    tables: Tables
    layers: list[EncoderLayer]
    head: HeadWeights | None
    pooler: Linear | None
    """Of a model without a head."""
    distances: Tensor | None = None
    """The table of a bias for every distance between two tokens (MPNet)."""

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids")}
        if self.recipe.passes_mask:
            held["mask"] = token_ids(t, "attention mask of the batch")
        if self.recipe.loss != "none":
            held |= {f"labels {i}": labels for i, labels in enumerate(head_labels(t, self.body.head))}
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        labels = [tensor for name, tensor in inputs.items() if name.startswith("labels")]
        sequence_output = run_model(t, self, inputs["ids"])
        if self.head is None:
            states = pooled_state(t, self.pooler, sequence_output) if self.pooler is not None else sequence_output
            return mean_loss(t, states), None
        loss, logits = loss_of(t, self.recipe, self.head, sequence_output, labels)
        return loss, logits if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        labels = [tensor for name, tensor in inputs.items() if name.startswith("labels")]
        sequence_output = run_model(t, self, inputs["ids"])
        if self.head is None:
            return sequence_output, pooled_state(t, self.pooler, sequence_output) if self.pooler is not None else None
        logits = logits_of(t, self.head, sequence_output)
        return logits, labelled_loss(t, self.head, logits, labels) if labels else None

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        return self.book.places


def run_model(t: Tape, model: Bert, ids: Tensor) -> Tensor:
    """`BertModel.forward`, without the pooler."""
    with t.module("model", f"{BERT}: BertModel.forward"):
        embedding_output = _embed(t, model, ids)
        recipe = model.recipe
        if model.distances is not None:
            mask: Tensor | None = _position_bias(t, model.distances)
            # A reentrant region has one input only; with biases beside it, it is told without reentrance.
            how = recipe.checkpointing
            recipe = replace(recipe, checkpointing="non-reentrant" if how == "reentrant" else how)
        else:
            mask = bidirectional_mask(t, model.body.layer, embedding_output)
        return run_encoder(t, recipe, model.layers, bert_layer, embedding_output, mask)


def _position_bias(t: Tape, distances: Tensor) -> Tensor:
    """`MPNetEncoder.compute_position_bias`: a number for each pair of tokens and each head, copied for the batch."""
    pairs = ("sequence", "sequence")
    with t.module("position bias", MPNET):
        with t.no_grad():
            signed = t.new(pairs, "int64", "distances")
            t.tick("distances")
            near, far = ops.shift(t, signed, "distances within reach"), ops.shift(t, signed, "distances beyond")
            buckets = ops.shift(t, signed, "buckets of distances")
            del signed, near, far
        values = ops.embedding(t, distances, (*pairs, "heads"), buckets)
        return ops.repeat(t, values, ("batch", "heads", *pairs), "bias of the whole batch")


def _embed(t: Tape, model: Bert, ids: Tensor) -> Tensor:
    """`BertEmbeddings.forward`."""
    with t.module("embeddings", f"{BERT}: BertEmbeddings.forward"):
        tables, body = model.tables, model.body
        width = tables.word.dims[1]
        rows = "batch" if body.positions_of_tokens else 1
        positions = _indices(t, rows, "position ids", made=body.positions_of_tokens)
        embeddings = ops.embedding(t, tables.word, ("batch", "sequence", width), ids)
        if tables.types is not None:
            kinds = _indices(t, rows, "token types", made=body.gathers_types)
            found = ops.embedding(t, tables.types, ("batch", "sequence", width), kinds)
            embeddings = ops.add(t, embeddings, found, "sum of embeddings")
            del found
        places = ops.embedding(t, tables.positions, (rows, "sequence", width), positions)
        embeddings = ops.add(t, embeddings, places, "sum of embeddings")
        embeddings = normalise(t, tables.norm, embeddings, "LayerNorm")
        if body.dropout:
            embeddings = ops.dropout(t, embeddings)
        if tables.projection is not None:
            embeddings = linear(t, tables.projection, embeddings)
        return embeddings


def _indices(t: Tape, rows: int | str, name: str, *, made: bool) -> Tensor:
    """Indices into a table: made for this batch, or a slice of a buffer."""
    if not made:
        return t.parameter((rows, "sequence"), "int64", trainable=False)
    indices = t.new((rows, "sequence"), "int64", name)
    t.tick(name)
    return indices


def bert_layer(t: Tape, layer: EncoderLayer, hidden_states: Tensor, mask: Tensor | None) -> Tensor:
    """`BertLayer.forward`; the attention weights of eager mode are held until its end."""
    output, _weights = _attention(t, layer, hidden_states, mask)
    with t.module("mlp"):
        inner = intermediate(t, layer, output)
        return output_block(t, layer, "down_proj", "output norm", inner, output)


def _attention(
    t: Tape, layer: EncoderLayer, hidden_states: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """`BertAttention.forward`."""
    with t.module("attention", f"{BERT}: BertAttention.forward"):
        output, weights = attention(t, layer.shape, layer.linears, hidden_states, mask)
        # MPNet drops its weights as soon as the heads are joined, the others hand them on.
        handed = None if layer.shape.relative else weights
        del weights
        return output_block(t, layer, "o_proj", "attention norm", output, hidden_states), handed


def output_block(t: Tape, layer: EncoderLayer, role: str, norm: str, hidden_states: Tensor, residual: Tensor) -> Tensor:
    """`BertSelfOutput.forward` and `BertOutput.forward`: the norm comes after the sum."""
    projected = linear(t, layer.linears[role], hidden_states)
    if layer.shape.dropout and (layer.shape.mixer_drops or role != "o_proj"):
        projected = ops.dropout(t, projected)
    return normalise(t, layer.norms[norm], ops.add(t, projected, residual, "residual sum"), norm)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Tables of tokens and positions summed and normalised, then layers that normalise after each sum."""
    stack = spec.stack
    if len(spec.stacks) != 1 or len(stack.groups) != 1 or stack.embedding is None or stack.final_norm is not None:
        return None
    group = stack.groups[0]
    parts = {part.name: part for part in stack.before if isinstance(part, Table | LinearPart)}
    known = (
        set(parts) <= {POSITIONS, TYPES, PROJECTION, DISTANCES}
        and POSITIONS in parts
        and len(stack.before) == len(parts) + 1
        and isinstance(stack.before[-2 if {PROJECTION, DISTANCES} & set(parts) else -1], NormPart)
    )
    shared = group.weight_sets == 1
    group = replace(group, weight_sets=None) if shared else group
    if not (known and is_plain(group) and group.arrangement == "post" and group.norm == LAYER_NORM and not group.extra):
        return None
    if shared and group.dropout:
        # ALBERT drops what attention gives, but not what the feed-forward gives.
        return None
    relative = DISTANCES in parts
    layer = encoder_shape("", group, setting, implementation="eager" if relative else None, masks=not relative)
    layer = replace(layer, relative=relative)
    body = BertBody(
        layer,
        _head(spec, setting, layer),
        TYPES in parts,
        PROJECTION in parts,
        stack.embedding.positions_of_tokens,
        not setting.version.startswith("transformers 4"),
        setting.training and stack.embedding.dropout > 0,
        bool(stack.after),
        shared,
    )
    rows = [(POSITIONS, "position rows"), (TYPES, "type rows"), (DISTANCES, "distance rows")]
    tables = {name: part.rows for name, part in parts.items() if isinstance(part, Table)}
    symbols = (
        *encoder_symbols(layer, group, setting),
        Factor("table width", stack.embedding.size),
        *(Factor(symbol, tables[name]) for name, symbol in rows if name in tables),
        Factor("head width", _head_width(spec)),
    )
    return Found(body, symbols, {"0": group.count})


def _head_width(spec: ModelSpec) -> int:
    head = spec.head
    return spec.stack.hidden_size if head is None or head.inputs is None else head.inputs


def _head(spec: ModelSpec, setting: Setting, layer: EncoderShape) -> HeadShape | None:
    if spec.head is None:
        return None
    return head_shape(
        spec.head,
        spec.task,
        activation=layer.layer.activation,
        pooled=bool(spec.stack.after),
        training=setting.training,
        inputs="head width" if _head_width(spec) != spec.stack.hidden_size else "hidden",
    )
