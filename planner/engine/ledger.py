"""A phase as a ledger over moments: which memory is alive when, and when most of it is.

A moment (such as `backward`) is the maximum over named instants (`loss_backward`, `last_layer_backward`, …).
Only terms alive at the same instant are added up. Values may be arrays over the points of a sweep; then the
winner of a moment is chosen element by element.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from planner.engine.plan import Moment
from planner.engine.term import COMPONENTS, Component, Number, Term

TENSORS: tuple[Component, ...] = tuple(name for name in COMPONENTS if name != "overhead")


@dataclass(frozen=True, slots=True)
class Ledger:
    """`moments` maps each moment to its instants; every name in a term's `alive` is one of those instants."""

    moments: Mapping[str, tuple[str, ...]]
    terms: tuple[Term, ...]

    def totals(self) -> dict[str, Number]:
        """Bytes at every instant, overhead left out: it is not a tensor."""
        totals: dict[str, Number] = {instant: 0 for instants in self.moments.values() for instant in instants}
        for item in self.terms:
            if item.component != "overhead":
                size = item.bytes
                for instant in item.alive:
                    totals[instant] = totals[instant] + size
        return totals

    def peak_bytes(self) -> Number:
        """The largest instant of all, element by element."""
        totals = list(self.totals().values())
        return np.maximum.reduce(np.broadcast_arrays(*totals)) if _any_array(totals) else max(totals, default=0)

    def settle(self) -> tuple[dict[str, Moment], Callable[[], tuple[Term, ...]]]:
        """For a single workload: each moment at its fullest instant, and what tells the terms by moment.

        A term that is alive at the winning instant of no moment is left out.
        """
        totals = self.totals()
        winner = {
            moment: max(instants, key=lambda name: (totals[name], -instants.index(name)))
            for moment, instants in self.moments.items()
        }
        held: dict[str, dict[Component, int]] = {instant: dict.fromkeys(TENSORS, 0) for instant in winner.values()}
        for item in self.terms:
            if item.component != "overhead":
                for instant in item.alive:
                    if instant in held:
                        held[instant][item.component] += int(item.bytes)
        moments = {
            moment: Moment(moment, instant, int(totals[instant]), dict(held[instant]))
            for moment, instant in winner.items()
        }
        return moments, lambda: self._told(winner)

    def _told(self, winner: Mapping[str, str]) -> tuple[Term, ...]:
        moments_of: dict[str, list[str]] = {}
        for moment, instant in winner.items():
            moments_of.setdefault(instant, []).append(moment)
        told: list[Term] = []
        for item in self.terms:
            alive = tuple(moment for instant in item.alive for moment in moments_of.get(instant, ()))
            if alive and item.bytes:
                told.append(Term(item.component, item.name, item.factors, alive, item.source))
        return tuple(told)


def _any_array(values: list[Number]) -> bool:
    return any(isinstance(value, np.ndarray) for value in values)
