"""Trying changes and their combinations: every answer is an estimate of the changed scenario."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from planner.engine.advisor.change import LEVELS, Change
from planner.engine.case import Case, Edit
from planner.engine.plan import VerdictKind
from planner.errors import ScenarioError

DEPTH = 6
"""Most changes together."""
WIDTH = 2
"""Combinations that are pursued further, for each level of disturbance."""
BUDGET = 600
"""Most combinations that are tried."""
ORDER: tuple[VerdictKind, ...] = ("fits", "tight", "oom", "unknown")


@dataclass(frozen=True)
class Trial:
    """A case after some changes, which the rules allow."""

    changes: tuple[Change, ...]
    edits: tuple[Edit, ...]
    case: Case

    @property
    def fits(self) -> bool:
        return self.case.verdict.verdict == "fits"

    @property
    def level(self) -> int:
        """Of the change that disturbs most."""
        return max((LEVELS.index(change.level) for change in self.changes), default=0)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(change.id for change in self.changes)

    @cached_property
    def promise(self) -> tuple[int, int]:
        """The better, the smaller: by verdict, then by headroom."""
        verdict = self.case.verdict
        return ORDER.index(verdict.verdict), -(verdict.headroom_bytes or 0)

    @cached_property
    def pace(self) -> tuple[float, float]:
        """The faster, the smaller, roughly: alike to three digits is alike."""
        speed = self.case.speed
        if speed is None:
            return 0.0, 0.0
        at_best, in_turn = speed.order
        return float(f"{at_best:.2e}"), float(f"{in_turn:.2e}")

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """How little it disturbs: the worst level, GPUs beyond those of now, how often that level, how many changes."""
        worst = sum(LEVELS.index(change.level) == self.level for change in self.changes)
        more = sum(change.gpus for change in self.changes)
        return self.level, more, worst, len(self.changes)


@dataclass
class Search:
    """All trials of one question, each combination once."""

    base: Case
    changes: Sequence[Change]
    tell: Callable[[int, int], None]
    """Told how many of at most how many combinations have been tried."""
    tried: dict[frozenset[str], Trial | None] = field(default_factory=dict)

    def run(self) -> tuple[Trial, ...]:
        """Everything that was tried and is allowed, the fitting and the others, by growing combinations.

        Combinations grow from the most promising ones of each level, so that a solution that leaves the results alone
        is looked for even where one that does not would be nearer. What fits is not changed further.
        """
        layer: list[Trial] = [Trial((), (), self.base)]
        for _ in range(DEPTH):
            grown = [trial for one in layer for trial in self._grow(one)]
            layer = self._pursued([trial for trial in grown if not trial.fits])
            if not layer or len(self.tried) >= BUDGET:
                break
        for trial in [trial for trial in self.allowed if trial.fits and len(trial.changes) > 1]:
            self._without_the_needless(trial)
        return self.allowed

    @property
    def allowed(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.tried.values() if trial is not None)

    def _grow(self, one: Trial) -> list[Trial]:
        """Combinations with one more change that are new, without those that fit with fewer."""
        fitting = [trial.ids for trial in self.allowed if trial.fits]
        found = []
        for change in self.changes:
            if any(change.excludes(other) for other in one.changes):
                continue
            ids = one.ids | {change.id}
            if ids in self.tried or len(self.tried) >= BUDGET or any(fewer <= ids for fewer in fitting):
                continue
            trial = self._try((*one.changes, change))
            if trial is not None:
                found.append(trial)
        return found

    def _try(self, changes: tuple[Change, ...]) -> Trial | None:
        trial = self.tried[frozenset(change.id for change in changes)] = tried(self.base, changes)
        self.tell(len(self.tried), BUDGET)
        return trial

    def _pursued(self, trials: Sequence[Trial]) -> list[Trial]:
        """The most promising ones up to each level, no two of which change the same groups."""
        best: dict[frozenset[str], Trial] = {}
        for level in range(len(LEVELS)):
            kinds: dict[frozenset[str], Trial] = {}
            for trial in sorted((trial for trial in trials if trial.level <= level), key=lambda trial: trial.promise):
                kinds.setdefault(frozenset(change.group for change in trial.changes), trial)
            best.update((trial.ids, trial) for trial in list(kinds.values())[:WIDTH])
        return list(best.values())

    def _without_the_needless(self, trial: Trial) -> None:
        """Try a fitting combination without each of its changes, as long as that fits, too."""
        for change in trial.changes:
            fewer = tuple(other for other in trial.changes if other is not change)
            known = self.tried.get(frozenset(other.id for other in fewer), ...)
            smaller = self._try(fewer) if known is ... else known
            if fewer and isinstance(smaller, Trial) and smaller.fits:
                self._without_the_needless(smaller)
                return


def tried(base: Case, changes: Sequence[Change]) -> Trial | None:
    """The case after the changes; None where a rule forbids or doubts something that it did not before."""
    edits = tuple(edit for change in changes for edit in change.edits)
    try:
        case = base.changed(edits)
        lapsed = tuple((base.path(*name.split(".")), None) for name in sorted(case.lapsed() - base.lapsed()))
        case = case.changed(lapsed) if lapsed else case
    except ScenarioError:
        return None
    return None if _raises_issues(base, case) else Trial(tuple(changes), (*edits, *lapsed), case)


def _raises_issues(base: Case, case: Case) -> bool:
    """Whether a rule says something of the changed case that it did not say before."""
    before = _said(base)
    return not _said(case) <= before


def ranked(trials: Iterable[Trial], changes: Sequence[Change]) -> list[Trial]:
    """Least disturbing first, one of each kind: not eight layouts in a row, or every depth of quantization.

    Of what is alike by that, the fastest at best goes first, then what is offered first. Of one kind it is the other
    way round where numbers are rounded or something is given up: the finest that fits, not the fastest.
    """
    place = {change.id: index for index, change in enumerate(changes)}

    def offered(trial: Trial) -> int:
        return sum(place[change.id] for change in trial.changes)

    def within_a_kind(trial: Trial) -> tuple[float, ...]:
        return (*trial.rank, *(trial.pace if trial.level <= LEVELS.index("speed") else ()), offered(trial))

    return sorted(
        varied(sorted(trials, key=within_a_kind)), key=lambda trial: (*trial.rank, *trial.pace, offered(trial))
    )


def varied(found: Iterable[Trial]) -> list[Trial]:
    """The first one of each kind."""
    kept: dict[frozenset[str], Trial] = {}
    for trial in found:
        kept.setdefault(frozenset(change.group for change in trial.changes), trial)
    return list(kept.values())


def _said(case: Case) -> frozenset[tuple[str, str, str]]:
    return frozenset((issue.code, issue.path, issue.severity) for issue in case.issues)


def minimal(trials: Iterable[Trial]) -> list[Trial]:
    """Those of which no other one is a part."""
    found = sorted(trials, key=lambda trial: len(trial.changes))
    kept: list[Trial] = []
    for trial in found:
        if not any(other.ids <= trial.ids for other in kept):
            kept.append(trial)
    return kept
