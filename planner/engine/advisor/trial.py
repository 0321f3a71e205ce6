"""One combination of changes that was tried: its estimate, how little it disturbs, and how fast it is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from planner.engine.advisor.change import LEVELS, Change
from planner.engine.case import Case, Edit
from planner.engine.plan import VerdictKind
from planner.errors import ScenarioError

ORDER: tuple[VerdictKind, ...] = ("fits", "tight", "oom", "unknown")
SAME_RESULTS = LEVELS.index("speed")
"""Up to this level a change leaves the results as they are."""


@dataclass(frozen=True)
class Trial:
    """A case after some changes, which the rules allow."""

    changes: tuple[Change, ...]
    edits: tuple[Edit, ...]
    case: Case

    @cached_property
    def fits(self) -> bool:
        return self.case.verdict.verdict == "fits"

    @cached_property
    def level(self) -> int:
        """Of the change that disturbs most."""
        return max((LEVELS.index(change.level) for change in self.changes), default=0)

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(change.id for change in self.changes)

    @cached_property
    def kind(self) -> frozenset[str]:
        """The groups that are changed."""
        return frozenset(change.group for change in self.changes)

    @cached_property
    def more(self) -> int:
        """GPUs beyond those of now."""
        return sum(change.gpus for change in self.changes)

    def excludes(self, change: Change) -> bool:
        """Whether it is changed already what the change would change."""
        return any(change.excludes(other) for other in self.changes)

    @cached_property
    def promise(self) -> tuple[int, int]:
        """The better, the smaller: by verdict, then by headroom."""
        verdict = self.case.verdict
        return ORDER.index(verdict.verdict), -(verdict.headroom_bytes or 0)

    @cached_property
    def pace(self) -> tuple[float, float]:
        """The faster, the smaller, roughly: alike to three digits is alike."""
        if self.case.works_on_cpu:
            return inf, inf  # not known, and hardly the fastest
        speed = self.case.speed
        if speed is None:
            return 0.0, 0.0
        at_best, in_turn = speed.order
        return float(f"{at_best:.2e}"), float(f"{in_turn:.2e}")

    @cached_property
    def rank(self) -> tuple[int, int, int, int]:
        """How little it disturbs: the worst level, GPUs beyond those of now, how often that level, how many changes."""
        worst = sum(LEVELS.index(change.level) == self.level for change in self.changes)
        return self.level, self.more, worst, len(self.changes)


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


def _said(case: Case) -> frozenset[tuple[str, str, str]]:
    return frozenset((issue.code, issue.path, issue.severity) for issue in case.issues)


def ranked(trials: Iterable[Trial], changes: Sequence[Change]) -> list[Trial]:
    """Least disturbing first, one of each kind: not eight layouts in a row, or every depth of quantization.

    Of what is alike by that, the fastest at best goes first, then what is offered first. Of one kind it is the other
    way round where numbers are rounded or something is given up: the finest that fits, not the fastest.
    """
    place = {change.id: index for index, change in enumerate(changes)}

    def offered(trial: Trial) -> int:
        return sum(place[change.id] for change in trial.changes)

    def within_a_kind(trial: Trial) -> tuple[float, ...]:
        return (*trial.rank, *(trial.pace if trial.level <= SAME_RESULTS else ()), offered(trial))

    return sorted(
        varied(sorted(trials, key=within_a_kind)), key=lambda trial: (*trial.rank, *trial.pace, offered(trial))
    )


def varied(found: Iterable[Trial]) -> list[Trial]:
    """The first one of each kind."""
    kept: dict[frozenset[str], Trial] = {}
    for trial in found:
        kept.setdefault(trial.kind, trial)
    return list(kept.values())


def minimal(trials: Iterable[Trial]) -> list[Trial]:
    """Those of which no other one is a part."""
    found = sorted(trials, key=lambda trial: len(trial.changes))
    kept: list[Trial] = []
    for trial in found:
        if not any(other.ids <= trial.ids for other in kept):
            kept.append(trial)
    return kept
