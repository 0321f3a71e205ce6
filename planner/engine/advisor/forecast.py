"""What combinations of changes are likely to need, guessed from what each change does alone.

A change alone multiplies every component of every moment by some factor: checkpointing activations, a layout weights
and states. The guess for several changes is the product of their factors. It only says which combinations are worth an
estimate; nothing is promised by it. Thousands of combinations are guessed in the time of one estimate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from planner.engine.advisor.change import LEVELS, Change
from planner.engine.advisor.trial import Trial
from planner.engine.case import Case
from planner.engine.term import COMPONENTS

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Forecast:
    """Guesses about combinations of these trials, each of one change."""

    alone: tuple[Trial, ...]
    capacity: float
    factors: Numbers
    """(trials, moments, components): what becomes of bytes that were there."""
    further: Numbers
    """Bytes that were not."""
    levels: NDArray[np.int64]
    more: NDArray[np.int64]

    @classmethod
    def of(cls, base: Case, alone: Sequence[Trial]) -> "Forecast":
        before = held(base)
        after = np.array([held(trial.case) for trial in alone]).reshape(len(alone), *before.shape)
        there = before > 0
        return cls(
            tuple(alone),
            float(base.verdict.capacity_bytes or 0),
            np.where(there, after / np.where(there, before, 1), 1.0),
            np.where(there, 0.0, after),
            np.array([trial.level for trial in alone], dtype=np.int64),
            np.array([trial.more for trial in alone], dtype=np.int64),
        )

    def further_changes(self, one: Trial, level: int) -> Iterator[Change]:
        """Changes to make beside those of a trial, so that it is of this level at most; the most promising first."""
        start, doubt = held(one.case), _doubt(one.case)
        needs = (start * self.factors + self.further).sum(axis=2).max(axis=1) * doubt
        now = start.sum(axis=1).max() * doubt
        levels = np.maximum(self.levels, one.level)
        for index in self._ordered(needs, levels, self.more, level):
            change = self.alone[index].changes[0]
            if needs[index] < now and not one.excludes(change):
                yield change

    def pairs(self, base: Case, level: int) -> Iterator[tuple[Change, Change]]:
        """Two changes of this level at most, the most promising first."""
        start, count = held(base), len(self.alone)
        needs = np.array(
            [
                (start * self.factors[i] * self.factors + self.further[i] + self.further).sum(axis=2).max(axis=1)
                for i in range(count)
            ]
        ).reshape(count, count) * _doubt(base)  # fmt: skip
        first, second = np.triu_indices(count, 1)
        levels = np.maximum(self.levels[first], self.levels[second])
        for index in self._ordered(needs[first, second], levels, self.more[first] + self.more[second], level):
            one, other = (self.alone[number[index]].changes[0] for number in (first, second))
            if not one.excludes(other):
                yield one, other

    def _ordered(self, needs: Numbers, levels: NDArray[np.int64], more: NDArray[np.int64], level: int) -> Iterator[int]:
        """What is guessed to fit, on few GPUs first; then what lacks least."""
        fits = needs <= self.capacity
        fitting = np.flatnonzero(fits & (levels == level))
        lacking = np.flatnonzero(~fits & (levels <= level))
        best = fitting[np.lexsort((needs[fitting], more[fitting]))]
        nearest = lacking[np.argsort(needs[lacking], kind="stable")]
        return (int(index) for index in chain(best, nearest))


def held(case: Case) -> Numbers:
    """Bytes by moment and component; overhead as at the peak."""
    plan = case.plan
    overhead = plan.components.get("overhead", 0)
    return np.array(
        [
            [float(overhead if name == "overhead" else moment.components.get(name, 0)) for name in COMPONENTS]
            for moment in plan.moments.values()
        ]
    )


def _doubt(case: Case) -> float:
    """By how much the upper end of the band lies above the need."""
    peak = case.plan.peak
    return peak.high_bytes / peak.process_bytes if peak.process_bytes else 1.0


def levels_of(one: Trial) -> range:
    """Levels that a trial can still grow to."""
    return range(one.level, len(LEVELS))
