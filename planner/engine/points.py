"""A recording at many points of a sweep: its fullest instant at each of them, at the cost of few operations a point.

Most columns of a recording differ from point to point by the same few products, such as batch x sequence. Columns that
do are added up first, so that a row is a short sum, and rows that can never be the fullest are left out.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.engine.activations.setting import RECORDED
from planner.engine.activations.trace import Symbols, Trace
from planner.engine.term import Number

SHARED = "gradients"
"""The component of which a rank may hold a share."""
ONE_THREAD = 200_000
"""Multiplications that the linear algebra library does on the calling thread, so that none waits for another."""
FEWEST = 256

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Points:
    """Sums of products: a moment's row is `fixed + coefficients x products`. Exact up to 2^53 bytes, 9 million GB."""

    moments: tuple[str, ...]
    """Recorded moments that are shown."""
    moment_of: Integers
    """Of each row that can be the fullest: the place of its moment in `moments`."""
    row_of: Integers
    """Of each such row: its number in the recording."""
    fixed: Floats
    """(rows,) bytes that are the same at all points, or (rows, points)."""
    coefficients: Floats
    """(rows, products)"""
    products: Floats
    """(products, points)"""

    @property
    def count(self) -> int:
        return int(self.products.shape[1])

    def highest(self) -> Integers:
        """Bytes at the fullest instant of each point."""
        found = np.empty(self.count, dtype=np.int64)
        for block, totals in self._blocks():
            found[block] = np.maximum.reduce(totals)
        return found

    @cached_property
    def fullest(self) -> tuple[Integers, Integers]:
        """Bytes at the fullest instant of each point, and the place of its row among those that can be it."""
        bytes_at, place = np.empty(self.count, dtype=np.int64), np.empty(self.count, dtype=np.int64)
        for block, totals in self._blocks():
            places = totals.argmax(axis=0)
            place[block] = places
            bytes_at[block] = np.take_along_axis(totals, places[None, :], axis=0)[0]
        return bytes_at, place

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        step = max(FEWEST, ONE_THREAD // max(self.coefficients.size, 1))
        for start in range(0, self.count, step):
            block = slice(start, start + step)
            fixed = self.fixed[:, None] if self.fixed.ndim == 1 else self.fixed[:, block]
            yield block, self.coefficients @ self.products[:, block] + fixed


def points_of(
    recorded: Trace,
    symbols: Symbols,
    layers: Mapping[str, Number],
    share: Callable[[str, Number], Number],
    standing: Mapping[str, Number],
    count: int,
) -> Points:
    """The recording at the `count` points over which some symbols are arrays.

    `share` gives the part of a column of some component that this rank holds; `standing` is what stands through each
    recorded moment that is shown.
    """
    moments = tuple(name for name in standing if name in recorded.moments)
    rows = [row for name in moments for row in recorded.moments[name]]
    moment_of = np.array([place for place, name in enumerate(moments) for _ in recorded.moments[name]], dtype=np.int64)
    table = recorded.table[rows].astype(np.float64)
    varying_names = frozenset(name for name, factor in symbols.items() if isinstance(factor.value, np.ndarray))
    groups, members = _alike(recorded, varying_names)
    products = [_product(names, symbols) for names in groups]
    constants = np.zeros((len(recorded.columns), len(groups)))
    apart: list[tuple[int, Number]] = []
    for index, (column, (steady, group)) in enumerate(zip(recorded.columns, members, strict=True)):
        constant: Number = layers[column.kind] - RECORDED if column.kind else 1
        for name in steady:
            constant = constant * symbols[name].value
        value = constant * products[group] if column.component == SHARED and groups[group] else constant
        own = share(column.component, value)
        if own is value or not groups[group]:
            constants[index, group] = constant if own is value else own
        else:
            apart.append((index, own))
    sums = np.hstack([table @ constants, *(table[:, [index]] for index, _ in apart)])
    fixed, coefficients = sums[:, 0], sums[:, 1:]
    stood = [standing[name] for name in moments]
    varying = any(isinstance(value, np.ndarray) for value in stood)
    kept = np.arange(len(rows)) if varying else _undominated(coefficients, fixed, moment_of, stood)
    values = np.empty((coefficients.shape[1], count))
    for place, product in enumerate((*products[1:], *(own for _, own in apart))):
        values[place] = product
    base = fixed[kept]
    if varying:
        base = base[:, None] + np.array([np.broadcast_to(stood[place], (count,)) for place in moment_of[kept]])
    else:
        base = base + np.array([float(stood[place]) for place in moment_of[kept]])
    return Points(moments, moment_of[kept], np.array(rows)[kept], base, coefficients[kept], values)


@lru_cache(maxsize=256)
def _alike(
    recorded: Trace, varying: frozenset[str]
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[tuple[str, ...], int], ...]]:
    """Products of varying dimensions, that of none first; and for each column its other dimensions and its product."""
    groups: dict[tuple[str, ...], int] = {(): 0}
    members = []
    for column in recorded.columns:
        names = tuple(sorted(dim for dim in column.dims if dim in varying))
        steady = tuple(dim for dim in column.dims if dim not in varying)
        members.append((steady, groups.setdefault(names, len(groups))))
    return tuple(groups), tuple(members)


def _product(names: tuple[str, ...], symbols: Symbols) -> Number:
    product: Number = 1
    for name in names:
        product = product * symbols[name].value
    return product


def _undominated(coefficients: Floats, fixed: Floats, moment_of: Integers, stood: list[Number]) -> Integers:
    """Rows that can be the fullest: another one that holds as much of everything comes first, or holds more."""
    whole = np.column_stack([coefficients, fixed + np.array([float(stood[place]) for place in moment_of])])
    count = len(whole)
    at_least = (whole[None, :, :] >= whole[:, None, :]).all(axis=2)
    more = whole[None, :, -1] > whole[:, None, -1]
    earlier = np.arange(count)[None, :] < np.arange(count)[:, None]
    return np.flatnonzero(~(at_least & (more | earlier)).any(axis=1))
