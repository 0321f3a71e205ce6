"""A phase whose activations are traced: the recording's table beside terms that stay for a whole moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.engine.activations.lower import Lowered
from planner.engine.activations.trace import Trace, trace
from planner.engine.plan import Moment
from planner.engine.points import Points, points_of
from planner.engine.term import COMPONENTS, Component, Number, Term

LARGEST_EXACT = 2**62


@dataclass(frozen=True)
class TracedPhase:
    """One phase: `standing` terms are alive for whole moments, the recording's tensors at its instants.

    `gradient_shards` ranks share the gradients that the recording makes.
    """

    lowered: Lowered
    standing: tuple[Term, ...]
    rename: Mapping[str, str]
    """The plan's name of each recorded moment that it shows; other moments are left out."""
    gradient_shards: int = 1
    exact_gradient_bytes: int | None = None
    """All gradients of this rank, where the recorded layers only approximate the model's; None where they are exact."""
    waiting: "tuple[tuple[int, TracedPhase], ...]" = ()
    """Micro-batches in flight beside the recorded one, and the part of the model that holds what they keep."""
    parts: tuple[tuple[NDArray[np.bool_], "TracedPhase"], ...] = ()
    """For a sweep over points where the framework runs other kernels: which points, and their own recording."""

    @cached_property
    def trace(self) -> Trace:
        return trace(self.lowered.recipe)

    def _values(self) -> list[Number]:
        columns = self.trace.columns
        values = self.trace.column_values(self.lowered.symbols, self.lowered.layers)
        whole, share = self._gradient_ratio(values)
        if whole == share:
            return values
        return [
            -(-value * share // whole) if column.component == "gradients" else value
            for column, value in zip(columns, values, strict=True)
        ]

    def _gradient_ratio(self, values: list[Number]) -> tuple[int, int]:
        """Recorded gradients to those that this rank holds."""
        if self.exact_gradient_bytes is None:
            return self.gradient_shards, 1
        row = self.trace.moments["optimizer_step"].start
        recorded = sum(
            int(count) * int(value)
            for count, value, column in zip(self.trace.table[row], values, self.trace.columns, strict=True)
            if column.component == "gradients"
        )
        return recorded * self.gradient_shards, self.exact_gradient_bytes

    def kept_bytes(self) -> Number:
        """What one micro-batch keeps between forward and backward, its own batch included."""
        rows = [self.trace.moments[name].start for name in ("end_of_forward", "start_of_step")]
        after, before = (self.trace.table[row] for row in rows)
        kept: Number = 0
        for column, value, held, stood in zip(self.trace.columns, self._values(), after, before, strict=True):
            if column.component != "gradients":
                kept = kept + value * int(held - stood)
        return kept

    def peak_bytes(self) -> Number:
        """The fullest instant of all, element by element where the workload is an array."""
        if self.parts:
            peaks = np.empty(self.parts[0][0].shape, dtype=np.int64)
            for where, part in self.parts:
                peaks[where] = part.peak_bytes()
            return peaks
        points = self.at_points()
        highest = points.highest()
        return highest if points.count > 1 else int(highest[0])

    def at_points(self) -> Points:
        """The recording at all points of the workload, where the framework runs the same kernels at all of them."""
        symbols, layers = self.lowered.symbols, self.lowered.layers
        standing: dict[str, Number] = {
            recorded: sum(held_at(self.standing, shown).values()) for recorded, shown in self.rename.items()
        }
        whole, part = (
            (self.gradient_shards, 1)
            if self.exact_gradient_bytes is None
            else self._gradient_ratio(self.trace.column_values(symbols, layers))
        )

        def share(component: str, value: Number) -> Number:
            return value if component != "gradients" or whole == part else -(-value * part // whole)

        sizes = (*(factor.value for factor in symbols.values()), *standing.values())
        count = max((value.size for value in sizes if isinstance(value, np.ndarray)), default=1)
        return points_of(self.trace, symbols, layers, share, standing, count)

    def settle(self) -> "SettledPhase":
        """For a single workload: every moment at its fullest instant."""
        recorded = self.trace
        values = _exact(self._values(), recorded)
        totals = (recorded.table @ values).tolist()
        winners = {
            shown: max(rows, key=totals.__getitem__)
            for name, shown in self.rename.items()
            if (rows := recorded.moments.get(name)) is not None
        }
        components, starts = _components(recorded)
        parts = np.add.reduceat(recorded.table[list(winners.values())] * values, starts, axis=1).tolist()
        moments: dict[str, Moment] = {}
        for (shown, winner), sums in zip(winners.items(), parts, strict=True):
            held = dict(held_at(self.standing, shown))
            for component, size in zip(components, sums, strict=True):
                held[component] += size
            moments[shown] = Moment(shown, recorded.labels[winner], sum(held.values()), held)
        return SettledPhase(self, moments, winners)

    def layer_activation_bytes(self, winners: Mapping[str, int]) -> int:
        """What the repeated layers keep for backward when the forward pass has ended."""
        row = winners.get("end_of_forward")
        if row is None:
            return 0
        others = sum(count * part.settle().layer_activation_bytes() for count, part in self.waiting)
        return others + sum(
            int(item.bytes)
            for item in self.trace.terms(
                self.lowered.symbols, self.lowered.layers, {"end_of_forward": row}, only_layers=True
            )
            if item.component == "activations"
        )

    def terms(self, winners: Mapping[str, int]) -> tuple[Term, ...]:
        """All terms of the settled moments."""
        symbols, layers = self.lowered.symbols, self.lowered.layers
        ratio = self._gradient_ratio(self.trace.column_values(symbols, layers))
        told = self.trace.terms(symbols, layers, winners, gradient_ratio=ratio)
        return (*(item for item in self.standing if item.component != "overhead"), *told)


@dataclass(frozen=True)
class SettledPhase:
    """A traced phase with its moments decided; terms are told when asked for."""

    phase: TracedPhase
    moments: Mapping[str, Moment]
    winners: Mapping[str, int]

    def terms(self) -> tuple[Term, ...]:
        return self.phase.terms(self.winners)

    def managed_terms(self) -> tuple[Term, ...]:
        """What stands in CUDA managed memory, beside torch's allocator."""
        return tuple(item for item in self.phase.standing if item.component == "overhead")

    def layer_activation_bytes(self) -> int:
        return self.phase.layer_activation_bytes(self.winners)


@lru_cache(maxsize=1024)
def held_at(standing: tuple[Term, ...], moment: str) -> Mapping[Component, int]:
    """Bytes of each component that stand through a moment; overhead is no tensor and left out."""
    held: dict[Component, Any] = {name: 0 for name in COMPONENTS if name != "overhead"}
    for item in standing:
        if moment in item.alive and item.component != "overhead":
            held[item.component] += item.bytes if isinstance(item.bytes, np.ndarray) else int(item.bytes)
    return held


@lru_cache(maxsize=256)
def _components(recorded: Trace) -> tuple[list[Component], list[int]]:
    """The components of a recording, whose columns stand together, and where each begins."""
    found: dict[Component, int] = {}
    for index, column in enumerate(recorded.columns):
        found.setdefault(column.component, index)
    return list(found), list(found.values())


def _exact(values: list[Number], recorded: Trace) -> NDArray[np.int64]:
    """The values as 64-bit integers, or as Python's own where a sum could pass 64 bits."""
    plain = [int(value) for value in values]
    exact = max(plain, default=0) < LARGEST_EXACT // _widest(recorded)
    return np.array(plain, dtype=np.int64 if exact else object)


@lru_cache(maxsize=256)
def _widest(recorded: Trace) -> int:
    """The most that any row counts in all columns together."""
    return max(int(recorded.table.sum(axis=1).max()), 1)
