"""What pyramids of images share: resolutions that follow from the image, and the classifier at their top."""

from collections.abc import Callable
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.heads import mean_loss
from planner.engine.activations.images import USUAL_SIDE, pixel_values
from planner.engine.activations.loss import cross_entropy
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Loads
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import Place, WeightBook
from planner.engine.term import Factor
from planner.model.spec import Stack


def resolution(shrunk: int) -> str:
    """Pixels of a map whose sides are an image's divided by `shrunk`."""
    return f"pixels at 1/{shrunk}"


def pixel_symbols(stack: Stack, loads: Loads, *shrunk: int) -> tuple[Factor, ...]:
    """The image's pixels and those of the maps made of it; sides are rounded up, as padding does."""
    image = stack.image
    assert image is not None
    side = (image.image_size or USUAL_SIDE) if loads.image_size is None else loads.image_size
    maps = (
        Factor(resolution(by), (-(-side // by)) * (-(-side // by)), f"({side} / {by}) squared")
        for by in sorted(set(shrunk))
    )
    return (Factor("channels", image.channels), Factor("pixels", side * side, f"{side} x {side}"), *maps)


@dataclass(slots=True)
class Pyramid:
    """A recorded model that pools an image to one vector; `pooled` is its forward pass without the classifier."""

    recipe: Recipe
    book: WeightBook
    classifier: Linear | None
    pooled: Callable[[Tape, Tensor], tuple[Tensor, Tensor]]
    """The pooled vector, and the last map, which the model's class holds to its end."""

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"pixels": pixel_values(t, self.recipe.weight_dtype)}
        if self.recipe.loss != "none" and self.classifier is not None:
            held["labels"] = t.new(("batch",), "int64", "labels")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        output, _held = self._output(t, inputs["pixels"])
        if self.classifier is None:
            return mean_loss(t, output), None
        loss = cross_entropy(t, ops.view(t, output), inputs["labels"])
        return loss, output if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        output, _held = self._output(t, inputs["pixels"])
        return output, cross_entropy(t, output, inputs["labels"]) if "labels" in inputs else None

    def weights(self) -> list[Place]:
        return self.book.places

    def _output(self, t: Tape, pixels: Tensor) -> tuple[Tensor, Tensor]:
        pooled, last = self.pooled(t, pixels)
        return pooled if self.classifier is None else linear(t, self.classifier, pooled), last


def make_classifier(book: WeightBook, classifies: bool) -> Linear | None:
    return book.linear("lm_head", ("hidden",), ("vocabulary",)) if classifies else None
