"""DeBERTa v2 and v3 with shared projections of positions: BERT's layers around disentangled attention."""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import token_ids
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.disentangled import DISTANCES, disentangled_attention
from planner.engine.activations.encoders import (
    EncoderLayer,
    EncoderShape,
    encoder_shape,
    encoder_symbols,
    intermediate,
    is_plain,
    make_encoder,
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
)
from planner.engine.activations.models.bert import output_block
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import Place, WeightBook
from planner.engine.term import Factor
from planner.model.spec import LAYER_NORM, ModelSpec, NormPart, Stack, Table
from planner.model.spec import Linear as LinearPart

REENTRANT = "Reentrant checkpointing, whose backward DeBERTa's class fails to run, is counted roughly."
DEBERTA = "transformers 5.24, models/deberta_v2/modeling_deberta_v2.py"


@dataclass(frozen=True, slots=True)
class DebertaBody:
    """A table of tokens, a table of distances, layers and a head."""

    layer: EncoderShape
    head: HeadShape | None
    normalises_distances: bool
    dropout: bool

    def build(self, t: Tape, recipe: Recipe) -> "Deberta":
        book = WeightBook(t, recipe)
        word = book.tensor("word_embeddings", ("table rows", "hidden"))
        norm = book.norm("LayerNorm", ("hidden",))
        layers = make_encoder(book, 0, self.layer, ("attention norm", "output norm"))
        distances = book.tensor("rel_embeddings", (DISTANCES, "hidden"))
        distance_norm = book.norm("encoder LayerNorm", ("hidden",)) if self.normalises_distances else None
        head = make_head(book, self.head, word) if self.head is not None else None
        return Deberta(self, recipe, book, word, norm, layers, distances, distance_norm, head)


@dataclass(slots=True)
class Deberta:
    """The weights of the recorded model."""

    body: DebertaBody
    recipe: Recipe
    book: WeightBook
    word: Tensor
    norm: NormWeights
    layers: list[EncoderLayer]
    distances: Tensor
    distance_norm: NormWeights | None
    head: HeadWeights | None

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids")}
        if self.recipe.passes_mask:
            held["mask"] = token_ids(t, "attention mask of the batch")
        if self.recipe.loss != "none":
            held |= {f"labels {i}": labels for i, labels in enumerate(head_labels(t, self.body.head))}
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        labels = [tensor for name, tensor in inputs.items() if name.startswith("labels")]
        sequence_output = _run_model(t, self, inputs)
        if self.head is None:
            return mean_loss(t, sequence_output), None
        loss, logits = loss_of(t, self.recipe, self.head, sequence_output, labels)
        return loss, logits if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        labels = [tensor for name, tensor in inputs.items() if name.startswith("labels")]
        sequence_output = _run_model(t, self, inputs)
        if self.head is None:
            return sequence_output
        logits = logits_of(t, self.head, sequence_output)
        return logits, labelled_loss(t, self.head, logits, labels) if labels else None

    def weights(self) -> list[Place]:
        return self.book.places


def _run_model(t: Tape, model: Deberta, inputs: dict[str, Tensor]) -> Tensor:
    """`DebertaV2Model.forward`: the outputs of all layers are held until its end."""
    with t.module("model", f"{DEBERTA}: DebertaV2Model.forward"):
        mask = inputs.get("mask")
        if mask is None:
            mask = t.new(("batch", "sequence"), "fp32", "attention mask")
            t.tick("attention mask")
        types = t.new(("batch", "sequence"), "int64", "token types")
        t.tick("token types")
        embedding_output = _embed(t, model, inputs["ids"], mask)
        result = _encode(t, model, embedding_output, mask)
        del types
        return result


def _embed(t: Tape, model: Deberta, ids: Tensor, mask: Tensor) -> Tensor:
    """`DebertaV2Embeddings.forward`; the zeros that stand for positions are not added."""
    with t.module("embeddings"):
        inputs_embeds = ops.embedding(t, model.word, ("batch", "sequence", "hidden"), ids)
        zeros = t.new(inputs_embeds.dims, inputs_embeds.dtype, "zeros for positions")
        t.tick("zeros for positions")
        embeddings = normalise(t, model.norm, inputs_embeds, "LayerNorm")
        own_mask = ops.to(t, mask.handle(), embeddings.dtype, "mask in the embeddings' dtype")
        embeddings = ops.mul(t, embeddings, own_mask, "masked embeddings")
        del own_mask
        if model.body.dropout:
            embeddings = ops.dropout(t, embeddings)
        del zeros
        return embeddings


def _encode(t: Tape, model: Deberta, hidden_states: Tensor, mask: Tensor) -> Tensor:
    """`DebertaV2Encoder.forward`."""
    with t.module("encoder"):
        with t.no_grad():
            pairs = t.new(("batch", 1, "sequence", "sequence"), mask.dtype, "mask of all pairs")
            t.tick("mask of all pairs")
            distances = t.new(("sequence", "sequence"), "int64", "distances of all pairs")
            t.tick("distances of all pairs")
        rel_embeddings = model.distances
        if model.distance_norm is not None:
            rel_embeddings = normalise(t, model.distance_norm, rel_embeddings, "LayerNorm")
        held = [hidden_states]
        for layer in model.layers:
            with t.layer(layer.slot), t.module("layer", f"{DEBERTA}: DebertaV2Layer.forward"):
                hidden_states = _checkpointed(t, model, layer, hidden_states, pairs, distances, rel_embeddings)
            held.append(hidden_states)
        del pairs, distances
        return hidden_states


def _checkpointed(
    t: Tape,
    model: Deberta,
    layer: EncoderLayer,
    hidden_states: Tensor,
    mask: Tensor,
    relative_pos: Tensor,
    rel_embeddings: Tensor,
) -> Tensor:
    def forward(x: Tensor) -> Tensor:
        return _run_layer(t, layer, x, mask, relative_pos, rel_embeddings, drops=model.body.dropout)

    # A reentrant region has one input only; with the distances beside it, it is told without reentrance.
    how = model.recipe.checkpointing
    return checkpointed(t, "non-reentrant" if how == "reentrant" else how, forward, hidden_states)


def _run_layer(
    t: Tape,
    layer: EncoderLayer,
    hidden_states: Tensor,
    mask: Tensor,
    relative_pos: Tensor,
    rel_embeddings: Tensor,
    *,
    drops: bool,
) -> Tensor:
    """`DebertaV2Layer.forward`."""
    with t.module("attention"):
        context = disentangled_attention(t, layer, hidden_states, mask, relative_pos, rel_embeddings, drops=drops)
        output = output_block(t, layer, "o_proj", "attention norm", context, hidden_states)
        del context
    with t.module("mlp"):
        inner = intermediate(t, layer, output)
        return output_block(t, layer, "down_proj", "output norm", inner, output)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """BERT's layers with a table of distances after them, and neither positions nor types before them."""
    stack = spec.stack
    if len(spec.stacks) != 1 or len(stack.groups) != 1 or stack.embedding is None or stack.final_norm is not None:
        return None
    group = stack.groups[0]
    rows = _distances(stack)
    plain = is_plain(group) and group.arrangement == "post" and group.norm == LAYER_NORM and not group.extra
    if rows is None or not plain or not _is_bare(stack):
        return None
    layer = encoder_shape("", group, setting, implementation="eager")
    head = None
    if spec.head is not None:
        pooled = any(isinstance(part, LinearPart) for part in stack.after)
        head = head_shape(
            spec.head,
            spec.task,
            activation=layer.layer.activation,
            pooled=pooled,
            training=setting.training,
            inputs="hidden",
        )
    normed = any(isinstance(part, NormPart) for part in stack.after)
    body = DebertaBody(layer, head, normed, setting.training and stack.embedding.dropout > 0)
    symbols = (*encoder_symbols(layer, group, setting), Factor(DISTANCES, rows))
    return Found(body, symbols, {"0": group.count}, doubts=_doubts)


def _doubts(recipe: Recipe) -> tuple[str, ...]:
    """Layers share the normalised table of distances, whose graph the first reentrant backward frees."""
    return (REENTRANT,) if recipe.checkpointing == "reentrant" else ()


def _distances(stack: Stack) -> int | None:
    """Rows of the table of distances, unless the stack also convolves."""
    tables = [part for part in stack.after if isinstance(part, Table) and part.name == "rel_embeddings"]
    known = all(isinstance(part, Table | NormPart | LinearPart) for part in stack.after)
    return tables[0].rows if len(tables) == 1 and known else None


def _is_bare(stack: Stack) -> bool:
    width = stack.embedding.size if stack.embedding is not None else 0
    return len(stack.before) == 1 and isinstance(stack.before[0], NormPart) and width == stack.hidden_size
