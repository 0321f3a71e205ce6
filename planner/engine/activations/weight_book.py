"""Lays out the weights of a recorded model and remembers the place of each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from planner.engine.activations.blocks import Linear, linear_weights, make_linear
from planner.engine.activations.norms import NormWeights, make_norm
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.model.spec import LAYER_NORM, Norm

Place = tuple[str, str, Tensor]
"""(slot, name, weight)"""


@dataclass(slots=True)
class WeightBook:
    """Makes (uncounted) weights; those made inside `layer` belong to that recorded layer."""

    t: Tape
    recipe: Recipe
    places: list[Place] = field(default_factory=list)
    slot: str = ""

    @contextmanager
    def layer(self, slot: str) -> Iterator[None]:
        self.slot = slot
        try:
            yield
        finally:
            self.slot = ""

    def linear(
        self,
        role: str,
        inputs: Dims,
        outputs: Dims,
        bias: bool = True,
        rows: Dims | None = None,
        tied: Tensor | None = None,
    ) -> Linear:
        """A linear layer; `tied`: its weight is this tensor, which has a place already."""
        layer = make_linear(self.t, self.recipe, role, inputs, outputs, bias, rows)
        if tied is not None:
            layer.weight = tied
        for weight in linear_weights(layer):
            if weight is not tied:
                self.places.append((self.slot, role, weight))
        return layer

    def norm(self, name: str, dims: Dims, norm: Norm = LAYER_NORM) -> NormWeights:
        weights = make_norm(self.t, self.recipe, norm, dims)
        self.places += [(self.slot, name, weight) for weight in weights.tensors()]
        return weights

    def tensor(self, name: str, dims: Dims, *, frozen: bool = False) -> Tensor:
        """A loose parameter or a table."""
        trainable = self.recipe.lora is None and not frozen
        weight = self.t.parameter(dims, self.recipe.weight_dtype, trainable=trainable)
        self.places.append((self.slot, name, weight))
        return weight
