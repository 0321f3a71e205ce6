"""The vision towers of CLIP and SigLIP as language models read them, with a projector of few linear layers.

Sources: transformers 5.24, `models/llava/modeling_llava.py: LlavaModel.get_image_features`, and the same of PaliGemma
and Gemma 3.
"""

from dataclasses import dataclass

from planner.engine.activations.encoders import EncoderLayer, EncoderShape, make_encoder, pre_norm_layer, run_encoder
from planner.engine.activations.images import PatchShape, PatchWeights, embed_patches, make_patches, pixel_values
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import cat
from planner.engine.activations.projectors import (
    IMAGES,
    WIDTH,
    Projector,
    ProjectorShape,
    make_projector,
    project,
)
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.model.spec import Norm

LLAVA = "transformers 5.24, models/llava/modeling_llava.py: LlavaModel.get_image_features"
VISION = "vision"
"""Kind of the tower's layers."""
UNREAD = "vision, unread"
NORMS = ("norm1", "norm2")


@dataclass(frozen=True, slots=True)
class PlainTowerShape:
    """A tower, without sizes."""

    patches: PatchShape
    layer: EncoderShape
    unread: EncoderShape | None
    """Layers at the end of the tower that are run, but whose output nobody reads."""
    first_norm: bool
    last_norm: bool
    projector: ProjectorShape
    language_norm: Norm

    def build(self, book: WeightBook, recipe: Recipe) -> "PlainTower":
        return PlainTower(
            recipe,
            make_patches(book, self.patches),
            book.norm("pre_layrnorm", (WIDTH,)) if self.first_norm else None,
            make_encoder(book, VISION, self.layer, NORMS),
            make_encoder(book, UNREAD, self.unread, NORMS) if self.unread is not None else [],
            book.norm("post_layernorm", (WIDTH,)) if self.last_norm else None,
            make_projector(book, self.projector, self.language_norm),
        )


@dataclass(slots=True)
class PlainTower:
    """The weights of the recorded tower."""

    recipe: Recipe
    patches: PatchWeights
    first_norm: NormWeights | None
    layers: list[EncoderLayer]
    unread: list[EncoderLayer]
    last_norm: NormWeights | None
    projector: Projector

    def pixels(self, t: Tape) -> Tensor:
        return pixel_values(t, self.recipe.weight_dtype, IMAGES)

    def features(self, t: Tape, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The features of all images, and what the outputs of the model go on holding."""
        held: list[Tensor] = []
        with t.module("vision_tower", LLAVA):
            hidden_states = embed_patches(t, self.patches, pixels)
            if self.first_norm is not None:
                hidden_states = normalise(t, self.first_norm, hidden_states, "pre_layrnorm")
            states = run_encoder(t, self.recipe, self.layers, pre_norm_layer, hidden_states, None)
            del hidden_states
            if self.unread:
                held.append(run_encoder(t, self.recipe, self.unread, pre_norm_layer, states, None))
            if self.last_norm is not None:
                states = normalise(t, self.last_norm, states, "post_layernorm")
        features = project(t, self.projector, states)
        held += [states, features]
        if self.projector.shape.kind == "two-layers":
            features = cat(t, [features], features.dims, "features of all images")
            held.append(features)
        return features, held
