"""Every instant of a recording as a row: how many bytes of which product of dimensions are alive.

Instants that can never be the fullest of their moment are found here, because another one of the same moment holds at
least as much of every product.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.engine.activations.extent import Segments, copies_alive
from planner.engine.activations.tape import Dims, Record, Tape
from planner.engine.term import Component


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


class _Key(NamedTuple):
    """What makes two tensors the same line of a plan."""

    component: Component
    name: str
    dims: Dims
    itemsize: int
    source: str
    kind: str
    in_layer: bool

    @property
    def bytes(self) -> int:
        """Bytes of one product of the named dimensions."""
        return int(np.prod([dim for dim in self.dims if isinstance(dim, int)], dtype=np.int64)) * self.itemsize

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(dim for dim in self.dims if isinstance(dim, str)))


class Rows:
    """All instants of a recording, with the backward of a middle layer once at either end of its copies."""

    def __init__(self, tape: Tape) -> None:
        kinds = {x.slot.split("/")[0] for x in tape.instants if x.slot.endswith("/last")}
        segments = {kind: Segments.of(tape, kind) for kind in kinds}
        twice = {x.slot.split("/")[0] for x in tape.instants if x.again and x.slot.endswith("/last")}
        second = {kind: Segments.of(tape, kind, again=True) for kind in twice}
        spots = _spots(tape)
        self.moments = [tape.instants[index].moment for index, _ in spots]
        self.labels = [_label(tape, index, last) for index, last in spots]
        at = np.array([index for index, _ in spots])
        ends = {
            kind: np.array([index >= found.backward.start if last is None else last for index, last in spots])
            for kind, found in segments.items()
        }
        self.keys: dict[_Key, int] = {}
        of_record = np.array([self.keys.setdefault(_key(record, kinds), len(self.keys)) for record in tape.records])
        births = np.array([[record.birth] for record in tape.records])
        deaths = np.array([[tape.now if record.death is None else record.death] for record in tape.records])
        self._recorded = _sum_by(of_record, (births <= at) & (at < deaths))
        self._copies = np.zeros_like(self._recorded)
        for record, key in zip(tape.records, of_record, strict=True):
            kind, _, place = record.slot.partition("/")
            if place == "middle" and kind in segments:
                found = (second if record.again else segments)[kind]
                self._copies[key] += copies_alive(record, found, at, ends[kind], tape.now)
        self._columns, self._bytes = self._table()

    def _table(self) -> tuple[list[Column], NDArray[np.int64]]:
        """Bytes per column, (columns, instants)."""
        places: dict[Column, int] = {}

        def place(key: _Key, kind: str) -> int:
            return places.setdefault(Column(key.component, key.names, kind), len(places))

        recorded = [place(key, "") for key in self.keys]
        copies = [place(key, key.kind) for key in self.keys]
        unit = np.array([[key.bytes] for key in self.keys])
        both = np.concatenate([self._recorded * unit, self._copies * unit])
        return list(places), _sum_by(np.array(recorded + copies), both)

    def table(self, rows: list[int]) -> tuple[tuple[Column, ...], NDArray[np.int64]]:
        """Bytes per column at the given rows, (rows, columns); columns of one component stand together."""
        part = self._bytes[:, rows]
        order = sorted(
            np.flatnonzero(part.any(axis=1)).tolist(),
            key=lambda index: (self._columns[index].component, self._columns[index].kind, self._columns[index].dims),
        )
        return tuple(self._columns[index] for index in order), np.ascontiguousarray(part[order].T)

    def undominated(self) -> list[int]:
        """Rows of which no other row of the same moment holds at least as much of everything."""
        shapes: dict[tuple[tuple[str, ...], str], int] = {}
        of_column = [shapes.setdefault((column.dims, column.kind), len(shapes)) for column in self._columns]
        held = np.ascontiguousarray(_sum_by(np.array(of_column), self._bytes).T)
        moments = np.array(self.moments)
        kept: list[int] = []
        for moment in dict.fromkeys(self.moments):
            rows = np.flatnonzero(moments == moment)
            rows = np.sort(rows[np.unique(held[rows], axis=0, return_index=True)[1]])
            survivors: list[int] = []
            for row in rows[np.argsort(-held[rows].sum(axis=1), kind="stable")].tolist():
                if not survivors or not (held[survivors] >= held[row]).all(axis=1).any():
                    survivors.append(row)
            kept += sorted(survivors)
        return kept

    def tensors(self, rows: list[int]) -> tuple[TracedTensor, ...]:
        """Every tensor with how many there are of it at the given rows."""
        recorded, copies = self._recorded[:, rows].tolist(), self._copies[:, rows].tolist()
        return tuple(
            TracedTensor(
                key.component, key.name, key.dims, key.itemsize, key.source, key.kind, key.in_layer,
                tuple(zip(recorded[index], copies[index], strict=True)),
            )
            for key, index in self.keys.items()
        )  # fmt: skip


def _sum_by(place: NDArray[np.int64], rows: NDArray[Any]) -> NDArray[np.int64]:
    """Sums of the rows that go to the same place; every place from 0 on has at least one."""
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(int(place.max()) + 1))
    return np.add.reduceat(rows[order], starts, axis=0, dtype=np.int64)


def _spots(tape: Tape) -> list[tuple[int, bool | None]]:
    """Instants in the order of their moments; those of a middle layer's backward once for either end of its copies."""
    order = {name: place for place, name in enumerate(dict.fromkeys(x.moment for x in tape.instants))}
    found = [
        (index, last)
        for index, x in enumerate(tape.instants)
        for last in (
            (False, True) if x.slot.endswith("/middle") and x.moment == "backward" and not x.again else (None,)
        )
    ]
    return sorted(found, key=lambda spot: (order[tape.instants[spot[0]].moment], bool(spot[1]), spot[0]))


def _label(tape: Tape, index: int, last: bool | None) -> str:
    instant = tape.instants[index]
    place = instant.slot.partition("/")[2]
    if last is not None:
        place = "second" if last else "last but one"
    name = instant.label.removeprefix("model.").removeprefix("layer.")
    return f"{place} layer, {name}" if place else name


def _key(record: Record, repeated: set[str]) -> _Key:
    name = record.label.removeprefix("model.").removeprefix("layer.")
    kind = record.slot.partition("/")[0]
    return _Key(
        _component(record), name, record.dims, record.itemsize, record.source,
        kind if kind in repeated else "", bool(record.slot),
    )  # fmt: skip


def _component(record: Record) -> Component:
    by_kind: dict[str, Component] = {"gradient": "gradients", "kv cache": "kv_cache", "weight copy": "weights"}
    if record.kind:
        return by_kind[record.kind]
    if "table rows" in record.dims or "whole table rows" in record.dims:
        return "gradients"
    if "vocabulary" in record.dims:
        return "logits"
    return "activations" if record.saved else "temporaries"
