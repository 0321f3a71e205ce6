"""A recording made ready for any workload: a table of how many bytes of which shape are alive at which instant.

Rows are instants, columns are products of dimensions. A workload gives each column a number, and one matrix product
gives the memory at every instant. Instants that can never be the fullest of their moment are left out, because
another one holds at least as much of every column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.engine.activations.recipe import Recipe
from planner.engine.activations.rows import Column, Rows, TracedTensor
from planner.engine.activations.setting import RECORDED
from planner.engine.activations.step import record_step
from planner.engine.activations.tape import Dims
from planner.engine.term import Factor, Number, Term

PER_TOKEN = (1, "batch", "sequence", "sequence shard")

Symbols = Mapping[str, Factor]
"""The value of every named dimension."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One recorded step."""

    moments: Mapping[str, range]
    """Rows of each moment."""
    labels: tuple[str, ...]
    columns: tuple[Column, ...]
    table: NDArray[np.int64]
    """(instants, columns), bytes per product of dimensions."""
    tensors: tuple[TracedTensor, ...]

    def column_values(self, symbols: Symbols, layers: Mapping[str, Number]) -> list[Number]:
        """What each column amounts to; `layers` counts the layers of each kind."""
        values: list[Number] = []
        for column in self.columns:
            value: Number = layers[column.kind] - RECORDED if column.kind else 1
            for dim in column.dims:
                value = value * symbols[dim].value
            values.append(value)
        return values

    def terms(
        self,
        symbols: Symbols,
        layers: Mapping[str, Number],
        winners: Mapping[str, int],
        *,
        only_layers: bool = False,
        gradient_ratio: tuple[int, int] = (1, 1),
    ) -> tuple[Term, ...]:
        """Every tensor alive at the winning row of some moment, as products of named factors.

        `gradient_ratio`: recorded gradients to those this rank holds.
        """
        told: list[Term] = []
        for tensor in self.tensors:
            if only_layers and not (tensor.in_layer and _is_wide(tensor.dims)):
                continue
            moments_of: dict[tuple[int, int], list[str]] = {}
            for moment, row in winners.items():
                if tensor.counts[row] != (0, 0):
                    moments_of.setdefault(tensor.counts[row], []).append(moment)
            for count, moments in moments_of.items():
                factors = (
                    *_count_factor(count, layers[tensor.kind] if tensor.kind else 0),
                    *(
                        symbols[dim] if isinstance(dim, str) else Factor("fixed size", dim)
                        for dim in tensor.dims
                        if dim != 1
                    ),
                    Factor("bytes", tensor.itemsize),
                )
                if tensor.component == "gradients" and gradient_ratio[0] != gradient_ratio[1]:
                    factors = _share(tensor, factors, count, symbols, layers, gradient_ratio)
                told.append(Term(tensor.component, tensor.name, factors, tuple(moments), tensor.source))
        return tuple(told)


def _is_wide(dims: Dims) -> bool:
    """Whether a tensor has more than one number per token.

    Korthikanti et al. (arXiv:2205.05198), section 4, leave the others out of what a layer keeps: statistics of norms.
    """
    return any(dim not in PER_TOKEN for dim in dims)


def _share(
    tensor: TracedTensor,
    factors: tuple[Factor, ...],
    count: tuple[int, int],
    symbols: Symbols,
    layers: Mapping[str, Number],
    ratio: tuple[int, int],
) -> tuple[Factor, ...]:
    """This rank's share of a gradient, rounded up as the table's columns are: before what has a fixed size."""
    whole, share = ratio
    elements: Number = 1
    fixed = 1
    for dim in tensor.dims:
        if isinstance(dim, str):
            elements = elements * symbols[dim].value
        else:
            fixed *= dim
    extra = (layers[tensor.kind] - RECORDED) if tensor.kind else 0
    own = fixed * (count[0] * -(-elements * share // whole) + count[1] * -(-elements * extra * share // whole))
    formula = " x ".join(f"{factor.name} {factor.value}" for factor in factors[:-1])
    how = f"{formula} / {whole} ranks" if share == 1 else f"{formula}, in proportion to the model's own parameters"
    return (Factor("elements of this rank", own, how), factors[-1])


def _count_factor(count: tuple[int, int], layers: Number) -> tuple[Factor, ...]:
    recorded, per_layer = count
    if per_layer:
        number = recorded + per_layer * (layers - RECORDED)
        name = "layers" if per_layer == 1 else "tensors in all layers"
        return (
            Factor(name, number, "" if (recorded, per_layer) == (RECORDED, 1) else f"of {layers}, those that hold it"),
        )
    return () if recorded == 1 else (Factor("tensors", recorded),)


@lru_cache(maxsize=256)
def trace(recipe: Recipe) -> Trace:
    """The trace of a step of this kind; recorded once."""
    rows = Rows(record_step(recipe))
    kept = rows.undominated()
    moments: dict[str, range] = {}
    for position, row in enumerate(kept):
        moment = rows.moments[row]
        start = moments[moment].start if moment in moments else position
        moments[moment] = range(start, position + 1)
    columns, table = rows.table(kept)
    return Trace(moments, tuple(rows.labels[row] for row in kept), columns, table, rows.tensors(kept))
