"""ViT, DeiT and DINOv2: a sequence of patches through layers that normalise before each half."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.encoders import (
    EncoderLayer,
    EncoderShape,
    encoder_shape,
    encoder_symbols,
    is_plain,
    make_encoder,
    pre_norm_layer,
    run_encoder,
)
from planner.engine.activations.heads import mean_loss, mean_over, pooled_state
from planner.engine.activations.images import (
    PatchShape,
    PatchWeights,
    embed_patches,
    image_symbols,
    learned_tokens,
    make_patches,
    patch_shape,
    patch_symbols,
    pixel_values,
)
from planner.engine.activations.loss import cross_entropy
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import cat, part
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import LAYER_NORM, Convolution, DenseFeedForward, LayerGroup, ModelSpec
from planner.model.spec import Tensor as TensorPart

VIT = "transformers 5.24, models/vit/modeling_vit.py"
SCALES = ("layer_scale1", "layer_scale2")
KNOWN = ("patch_embedding", "position_embeddings", "mask_token", "register_tokens")
"""Parts before the layers that are told here, beside the learned tokens."""


@dataclass(frozen=True, slots=True)
class VitBody:
    """Patches, layers, a norm, and a classifier or a pooler."""

    patches: PatchShape
    layer: EncoderShape
    scaled: bool
    classifies: bool
    reads_patches: bool
    """The classifier reads the mean of the patches beside the class token (DINOv2)."""
    pooled: bool

    def build(self, t: Tape, recipe: Recipe) -> "Vit":
        book = WeightBook(t, recipe)
        patches = make_patches(book, self.patches)
        layers = make_encoder(book, 0, self.layer, ("norm1", "norm2"), SCALES if self.scaled else ())
        norm = book.norm("layernorm", ("hidden",))
        classifier = pooler = None
        if self.classifies:
            inputs = ("classifier inputs",) if self.reads_patches else ("hidden",)
            classifier = book.linear("lm_head", inputs, ("vocabulary",))
        elif self.pooled:
            pooler = book.linear("pooler", ("hidden",), ("pooler outputs",))
        return Vit(self, recipe, book, patches, layers, norm, classifier, pooler)


@dataclass(slots=True)
class Vit:
    """The weights of the recorded model."""

    body: VitBody
    recipe: Recipe
    book: WeightBook
    patches: PatchWeights
    layers: list[EncoderLayer]
    norm: NormWeights
    classifier: Linear | None
    pooler: Linear | None

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"pixels": pixel_values(t, self.recipe.weight_dtype)}
        if self.recipe.loss != "none" and self.classifier is not None:
            held["labels"] = t.new(("batch",), "int64", "labels")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        output, _held = _output(t, self, inputs["pixels"])
        if self.classifier is None:
            return mean_loss(t, output), None
        loss = cross_entropy(t, ops.view(t, output), inputs["labels"])
        return loss, output if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        output, _held = _output(t, self, inputs["pixels"])
        return output, cross_entropy(t, output, inputs["labels"]) if "labels" in inputs else None

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        return self.book.places


def _output(t: Tape, model: Vit, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, a pooled or the last state; and the last state, which the model's class holds to its end."""
    sequence_output = _run_model(t, model, pixels)
    if model.classifier is None:
        pooler = model.pooler
        return sequence_output if pooler is None else pooled_state(t, pooler, sequence_output), sequence_output
    first = part(t, sequence_output, "batch", "hidden")
    if not model.body.reads_patches:
        return linear(t, model.classifier, first), sequence_output
    patches = mean_over(t, part(t, sequence_output, "batch", "patches", "hidden"), "batch", "hidden")
    both = cat(t, [first, patches], ("batch", "classifier inputs"), "class token and mean of patches")
    return linear(t, model.classifier, both), sequence_output


def _run_model(t: Tape, model: Vit, pixels: Tensor) -> Tensor:
    with t.module("model", f"{VIT}: ViTModel.forward"):
        hidden_states = embed_patches(t, model.patches, pixels)
        if model.body.layer.dropout:
            hidden_states = ops.dropout(t, hidden_states)
        hidden_states = run_encoder(t, model.recipe, model.layers, pre_norm_layer, hidden_states, None)
        return normalise(t, model.norm, hidden_states, "layernorm")


def _ungated(group: LayerGroup) -> LayerGroup:
    """The layer as if its feed-forward had no gate (DINOv2's largest models have one)."""
    network = group.feed_forward
    assert isinstance(network, DenseFeedForward)
    return replace(group, feed_forward=replace(network, gated=False))


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Patches and learned tokens with one tensor of positions, plain layers with norms first, a norm at the end."""
    stack = spec.stack
    if len(spec.stacks) != 1 or len(stack.groups) != 1 or stack.image is None or stack.embedding is not None:
        return None
    group = stack.groups[0]
    if not isinstance(group.feed_forward, DenseFeedForward):
        return None
    scales = tuple(piece.name for piece in group.extra if isinstance(piece, TensorPart))
    parts = [piece for piece in stack.before if isinstance(piece, Convolution | TensorPart)]
    if not (
        len(parts) == len(stack.before)
        and {"position_embeddings"} <= {piece.name for piece in parts} <= {*KNOWN, *learned_tokens(stack)}
        and is_plain(_ungated(group))
        and group.arrangement == "pre"
        and group.norm == LAYER_NORM == stack.final_norm
        and scales in ((), SCALES)
        and len(scales) == len(group.extra)
    ):
        return None
    # DINOv2, whose layers have scales, leaves its softmax in the model's dtype.
    layer = replace(encoder_shape("", group, setting), wide_softmax=not scales)
    head_inputs = spec.head.inputs if spec.head is not None and spec.head.inputs is not None else stack.hidden_size
    shape = patch_shape(stack, "hidden", table=False)
    body = VitBody(
        shape, layer, bool(scales), spec.head is not None, head_inputs != stack.hidden_size, bool(stack.after)
    )
    tokens = len(learned_tokens(stack))
    symbols = (
        *encoder_symbols(layer, group, setting),
        *patch_symbols(stack),
        Factor("classifier inputs", head_inputs),
        Factor("pooler outputs", stack.hidden_size),
    )

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return image_symbols(stack, tokens, loads)

    return Found(body, symbols, {"0": group.count}, derived)
