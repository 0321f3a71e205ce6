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

from planner.engine.activations.extent import Segments, copies_alive
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import RECORDED
from planner.engine.activations.step import record_step
from planner.engine.activations.tape import Dims, Record, Tape
from planner.engine.term import Component, Factor, Number, Term

PER_TOKEN = (1, "batch", "sequence", "sequence shard")

Symbols = Mapping[str, Factor]
"""The value of every named dimension."""


@dataclass(frozen=True, slots=True)
class TracedTensor:
    """Tensors of one name and shape: how many are alive at each kept instant."""

    component: Component
    name: str
    dims: Dims
    itemsize: int
    source: str
    kind: str
    """The kind of layer whose unrecorded copies hold it too, or empty."""
    in_layer: bool
    """Made by one of the repeated layers."""
    counts: tuple[tuple[int, int], ...]
    """Per instant: recorded ones, and ones for each unrecorded layer."""


@dataclass(frozen=True, slots=True)
class Column:
    """A product of dimensions whose bytes belong to one component."""

    component: Component
    dims: tuple[str, ...]
    kind: str


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
    """This rank's share of a gradient, rounded up as the table's columns are."""
    whole, share = ratio
    elements: Number = 1
    for dim in tensor.dims:
        elements = elements * (symbols[dim].value if isinstance(dim, str) else dim)
    extra = (layers[tensor.kind] - RECORDED) if tensor.kind else 0
    own = count[0] * -(-elements * share // whole) + count[1] * -(-elements * extra * share // whole)
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
    tape = record_step(recipe)
    rows = _Rows(tape)
    kept = rows.undominated()
    moments: dict[str, range] = {}
    for position, row in enumerate(kept):
        moment = rows.moments[row]
        start = moments[moment].start if moment in moments else position
        moments[moment] = range(start, position + 1)
    tensors = tuple(rows.tensor(key, kept) for key in rows.keys)
    columns, table = rows.table(kept)
    return Trace(moments, tuple(rows.labels[row] for row in kept), columns, table, tensors)


_Key = tuple[Component, str, Dims, int, str, str, bool]


class _Rows:
    """All instants of a recording, with the backward of a middle layer once at either end of its copies."""

    def __init__(self, tape: Tape) -> None:
        kinds = {x.slot.split("/")[0] for x in tape.instants if x.slot.endswith("/last")}
        segments = {kind: Segments.of(tape, kind) for kind in kinds}
        spots = [
            (index, last)
            for index, x in enumerate(tape.instants)
            for last in ((False, True) if _is_middle_backward(x.slot, x.moment) else (None,))
        ]
        order = {name: place for place, name in enumerate(dict.fromkeys(x.moment for x in tape.instants))}
        spots.sort(key=lambda spot: (order[tape.instants[spot[0]].moment], bool(spot[1]), spot[0]))
        self.moments = [tape.instants[index].moment for index, _ in spots]
        self.labels = [_label(tape, index, last) for index, last in spots]
        at = np.array([index for index, _ in spots])
        ends = {
            kind: np.array([index >= found.backward.start if last is None else last for index, last in spots])
            for kind, found in segments.items()
        }
        recorded: dict[_Key, NDArray[np.int64]] = {}
        copies: dict[_Key, NDArray[np.int64]] = {}
        for record in tape.records:
            kind, _, place = record.slot.partition("/")
            middle = place == "middle" and kind in segments
            key = _key(record, kind if kind in segments else "")
            death = tape.now if record.death is None else record.death
            alive = ((record.birth <= at) & (at < death)).astype(np.int64)
            recorded[key] = recorded.get(key, 0) + alive
            if middle:
                held = copies_alive(record, segments[kind], at, ends[kind], tape.now)
                copies[key] = copies.get(key, 0) + held.astype(np.int64)
        self.keys = list(recorded)
        zero = np.zeros(len(spots), dtype=np.int64)
        self._recorded = recorded
        self._copies = {key: copies.get(key, zero) for key in self.keys}

    def table(self, rows: list[int]) -> tuple[tuple[Column, ...], NDArray[np.int64]]:
        """Bytes per column at the given rows; columns of one component stand together."""
        sums: dict[Column, NDArray[np.int64]] = {}
        for key in self.keys:
            component, _, dims, itemsize, _, kind, _ = key
            numbers = int(np.prod([dim for dim in dims if isinstance(dim, int)], dtype=np.int64))
            names = tuple(sorted(dim for dim in dims if isinstance(dim, str)))
            for counts, column in (
                (self._recorded[key], Column(component, names, "")),
                (self._copies[key], Column(component, names, kind)),
            ):
                part = counts[rows] * (itemsize * numbers)
                if part.any():
                    sums[column] = sums.get(column, 0) + part
        columns = tuple(sorted(sums, key=lambda column: (column.component, column.kind, column.dims)))
        return columns, np.stack([sums[column] for column in columns], axis=1)

    def undominated(self) -> list[int]:
        """Rows of which no other row of the same moment holds at least as much of everything."""
        everything = list(range(len(self.moments)))
        columns, table = self.table(everything)
        merged = _by_shape(columns, table)
        kept: list[int] = []
        for moment in dict.fromkeys(self.moments):
            rows = [row for row in everything if self.moments[row] == moment]
            survivors: list[int] = []
            for row in sorted(rows, key=lambda row: (-int(merged[row].sum()), row)):
                if not survivors or not (merged[survivors] >= merged[row]).all(axis=1).any():
                    survivors.append(row)
            kept += sorted(survivors)
        return kept

    def tensor(self, key: _Key, rows: list[int]) -> TracedTensor:
        component, name, dims, itemsize, source, kind, in_layer = key
        counts = tuple(
            (int(recorded), int(copies))
            for recorded, copies in zip(self._recorded[key][rows], self._copies[key][rows], strict=True)
        )
        return TracedTensor(component, name, dims, itemsize, source, kind, in_layer, counts)


def _by_shape(columns: tuple[Column, ...], table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Columns of equal dimensions added up whatever their component."""
    shapes = list(dict.fromkeys((column.dims, column.kind) for column in columns))
    merged = np.zeros((len(table), len(shapes)), dtype=np.int64)
    for index, column in enumerate(columns):
        merged[:, shapes.index((column.dims, column.kind))] += table[:, index]
    return merged


def _is_middle_backward(slot: str, moment: str) -> bool:
    return slot.endswith("/middle") and moment == "backward"


def _label(tape: Tape, index: int, last: bool | None) -> str:
    instant = tape.instants[index]
    place = instant.slot.partition("/")[2]
    if last is not None:
        place = "second" if last else "last but one"
    name = instant.label.removeprefix("model.").removeprefix("layer.")
    return f"{place} layer, {name}" if place else name


def _key(record: Record, kind: str) -> _Key:
    name = record.label.removeprefix("model.").removeprefix("layer.")
    return (_component(record), name, record.dims, record.itemsize, record.source, kind, bool(record.slot))


def _component(record: Record) -> Component:
    by_kind: dict[str, Component] = {"gradient": "gradients", "kv cache": "kv_cache", "weight copy": "weights"}
    if record.kind:
        return by_kind[record.kind]
    if "table rows" in record.dims or "whole table rows" in record.dims:
        return "gradients"
    if "vocabulary" in record.dims:
        return "logits"
    return "activations" if record.saved else "temporaries"
