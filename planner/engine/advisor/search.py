"""Looking for combinations of changes that fit: every answer is an estimate of the changed scenario."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from planner.engine.advisor.change import LEVELS, Change
from planner.engine.advisor.forecast import Forecast, levels_of
from planner.engine.advisor.trial import Trial, tried
from planner.engine.case import Case
from planner.scenario.step import TrainingStep

DEPTH = 6
"""Most changes together."""
WIDTH = 2
"""Combinations that are pursued further, for each level of disturbance."""
BUDGET = 600
"""Most combinations that are tried."""
PAIRS, FURTHER = 5, 2
"""Of guessed combinations, those that are estimated for each level: pairs, and one more change beside others."""
ENOUGH = 4
"""Kinds of answers of one level, beyond which no further ones are looked for."""


@dataclass
class Search:
    """All trials of one question, each combination once."""

    base: Case
    changes: Sequence[Change]
    tell: Callable[[int, int], None]
    """Told how many of at most how many combinations have been tried."""
    tried: dict[frozenset[str], Trial | None] = field(default_factory=dict)
    pursued: set[frozenset[str]] = field(default_factory=set)

    def run(self) -> tuple[Trial, ...]:
        """Everything that was tried and is allowed, the fitting and the others.

        Every change is tried alone. What combinations of them need is guessed, where an estimate takes long, and the
        most promising of each level of disturbance are estimated, so that a solution that leaves the results alone is
        looked for even where one that does not would be nearer. The best of what does not fit yet grow further, one
        change at a time. What fits is not changed further.
        """
        nothing = Trial((), (), self.base)
        self._grow(nothing, self.changes)
        forecast = self._forecast()
        if forecast is not None:
            for level in range(len(LEVELS)):
                self._estimate(forecast.pairs(self.base, level), PAIRS)
            self.pursued.update(trial.ids for trial in forecast.alone)
        for _ in range(DEPTH):
            chosen = self._chosen()
            if not chosen or len(self.tried) >= BUDGET:
                break
            for one in chosen:
                self._grow_further(one, forecast)
        for trial in [trial for trial in self.allowed if trial.fits and len(trial.changes) > 1]:
            self._without_the_needless(trial)
        return self.allowed

    @property
    def allowed(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.tried.values() if trial is not None)

    def _forecast(self) -> Forecast | None:
        """Guesses for steps, whose estimates take long; others are all tried."""
        alone = tuple(trial for trial in self.allowed if len(trial.changes) == 1)
        return Forecast.of(self.base, alone) if alone and isinstance(self.base.fields, TrainingStep) else None

    def _grow_further(self, one: Trial, forecast: Forecast | None) -> None:
        self.pursued.add(one.ids)
        if forecast is None:
            self._grow(one, self.changes)
            return
        for level in levels_of(one):
            if not self._has_enough(level):
                self._estimate(((*one.changes, change) for change in forecast.further_changes(one, level)), FURTHER)
        self._grow(one, self._refused_alone())

    def _refused_alone(self) -> Iterator[Change]:
        """What the rules allow beside other changes only, if at all."""
        return (change for change in self.changes if self.tried.get(frozenset((change.id,)), ...) is None)

    def _estimate(self, combinations: Iterable[tuple[Change, ...]], most: int) -> None:
        """Try the first combinations that the rules allow, one for each kind and number of GPUs."""
        seen: set[tuple[frozenset[str], int]] = set()
        for changes in combinations:
            kind = frozenset(change.group for change in changes), sum(change.gpus for change in changes)
            if len(seen) >= most or len(self.tried) >= BUDGET:
                return
            if kind not in seen and self._is_new(changes) and self._try(changes) is not None:
                seen.add(kind)

    def _grow(self, one: Trial, changes: Iterable[Change]) -> None:
        """Try all combinations with one more change that are new."""
        for change in changes:
            together = (*one.changes, change)
            if len(self.tried) < BUDGET and not one.excludes(change) and self._is_new(together):
                self._try(together)

    def _is_new(self, changes: tuple[Change, ...]) -> bool:
        """Whether it was not tried, and no part of it fits."""
        ids = frozenset(change.id for change in changes)
        if ids in self.tried:
            return False
        return not any(trial.fits and trial.ids <= ids for trial in self.allowed)

    def _try(self, changes: tuple[Change, ...]) -> Trial | None:
        trial = self.tried[frozenset(change.id for change in changes)] = tried(self.base, changes)
        self.tell(len(self.tried), BUDGET)
        return trial

    def _has_enough(self, level: int) -> bool:
        return len({trial.kind for trial in self.allowed if trial.fits and trial.level == level}) >= ENOUGH

    def _chosen(self) -> list[Trial]:
        """The most promising ones up to each level that has not enough answers, no two of which change the same."""
        waiting = sorted(
            (trial for trial in self.allowed if self._may_grow(trial)), key=lambda trial: trial.promise
        )  # fmt: skip
        best: dict[frozenset[str], Trial] = {}
        for level in range(len(LEVELS)):
            if self._has_enough(level):
                continue
            kinds: dict[frozenset[str], Trial] = {}
            for trial in waiting:
                if trial.level <= level:
                    kinds.setdefault(trial.kind, trial)
            best.update((trial.ids, trial) for trial in list(kinds.values())[:WIDTH])
        return list(best.values())

    def _may_grow(self, trial: Trial) -> bool:
        if trial.fits or trial.ids in self.pursued or len(trial.changes) >= DEPTH:
            return False
        return not any(other.ids < trial.ids and other.promise <= trial.promise for other in self.allowed)

    def _without_the_needless(self, trial: Trial) -> None:
        """Try a fitting combination without each of its changes, as long as that fits, too."""
        for change in trial.changes:
            fewer = tuple(other for other in trial.changes if other is not change)
            known = self.tried.get(frozenset(other.id for other in fewer), ...)
            smaller = self._try(fewer) if known is ... else known
            if fewer and isinstance(smaller, Trial) and smaller.fits:
                self._without_the_needless(smaller)
                return
