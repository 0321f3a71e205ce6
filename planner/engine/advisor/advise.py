"""What would make a phase fit: changes ranked by how little they disturb, and what to buy where nothing helps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.catalog import Catalog
from planner.engine.advisor.change import LEVELS, Change, Level, recorded_changes
from planner.engine.advisor.layouts import layout_changes
from planner.engine.advisor.search import Search
from planner.engine.advisor.sizes import size_changes
from planner.engine.advisor.trial import Trial, minimal, ranked, varied
from planner.engine.case import Case, Edit
from planner.engine.plan import PhaseName, Verdict
from planner.engine.speed import Speed
from planner.errors import PlannerError
from planner.scenario import Scenario

NEARLY = 3
"""Of what does not fit either, the nearest."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a phase needs on the GPU, and what else the estimate says of it."""

    process_bytes: int
    high_bytes: int
    verdict: Verdict
    host_ram_bytes: int
    gpus: int
    speed: Speed | None = None
    """Roughly, at best."""

    @classmethod
    def of(cls, case: Case) -> "Outcome":
        layout = getattr(case.fields, "parallelism", None)
        gpus = 1 if layout is None else layout.ranks
        peak, speed = case.plan.peak, None if case.works_on_cpu else case.speed
        return cls(peak.process_bytes, peak.high_bytes, case.verdict, case.plan.host_ram_bytes, gpus, speed)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Changes that belong together, as edits of the scenario, and the estimate of the scenario with them."""

    changes: tuple[Change, ...]
    edits: tuple[Edit, ...]
    after: Outcome

    @property
    def level(self) -> Level:
        """Of the change that disturbs most."""
        return LEVELS[max(LEVELS.index(change.level) for change in self.changes)]

    @property
    def title(self) -> str:
        return " + ".join(change.title for change in self.changes)


@dataclass(frozen=True, slots=True)
class Purchase:
    """GPUs on which the phase would fit, the smallest first found in the catalogue; None where none is large enough."""

    as_it_is: str | None
    smallest: Suggestion | None
    """The least that was found to be needed, whatever it disturbs; None where nothing lowers the need."""
    with_smallest: str | None


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer for one phase on one GPU."""

    phase: PhaseName
    gpu: str
    before: Outcome
    suggestions: tuple[Suggestion, ...]
    """Least disturbing first; all of them fit."""
    nearly: tuple[Suggestion, ...]
    """Only where nothing fits: what comes nearest."""
    purchase: Purchase | None
    """Only where nothing fits."""
    tried: int


def advise(
    scenario: Scenario,
    phase: PhaseName,
    catalog: Catalog,
    gpu: str | None = None,
    *,
    most: int = 8,
    tell: Callable[[int, int], None] = lambda _done, _most: None,
) -> Advice:
    """Look for what makes a phase fit that does not, or only nearly. Nothing is tried where it fits.

    `tell` hears how many combinations have been tried and how many can be. Raises `PlannerError` for a phase that is
    not planned, or that contradicts itself as it is.
    """
    case = Case.of(scenario, phase, catalog, gpu)
    if case.errors:
        raise PlannerError("The plan contradicts itself, so that nothing can be advised yet.")
    before = Outcome.of(case)
    if before.verdict.verdict in ("fits", "unknown"):
        return Advice(phase, case.gpu, before, (), (), None, 0)
    changes = changes_for(case)
    search = Search(case, changes, tell)
    trials = tuple(trial for trial in search.run() if trial.changes)
    fitting = ranked(minimal(trial for trial in trials if trial.fits), changes)
    if fitting:
        found = tuple(_suggestion(trial) for trial in _of_every_level(fitting, most) if _has_host(case, trial))
        return Advice(phase, case.gpu, before, found, (), None, len(search.tried))
    nearest = varied(sorted(trials, key=lambda trial: trial.promise))
    nearly = tuple(_suggestion(trial) for trial in nearest[:NEARLY])
    return Advice(phase, case.gpu, before, (), nearly, _purchase(case, trials), len(search.tried))


def changes_for(case: Case) -> tuple[Change, ...]:
    """Everything that may be tried, least disturbing first."""
    found = (*recorded_changes(case), *size_changes(case), *layout_changes(case))
    return tuple(sorted(found, key=lambda change: (LEVELS.index(change.level), change.gpus)))


def _suggestion(trial: Trial) -> Suggestion:
    return Suggestion(trial.changes, trial.edits, Outcome.of(trial.case))


def _of_every_level(found: list[Trial], most: int) -> list[Trial]:
    """The first ones, without leaving a level that has an answer empty: half of them may be of one level."""
    share = -(-most // 2)
    first: list[Trial] = []
    for level in range(len(LEVELS)):
        first += [trial for trial in found if trial.level == level][:share]
    return first[:most]


def _has_host(case: Case, trial: Trial) -> bool:
    """Whether the servers have the RAM that the changes ask for, where that is known."""
    before, after = case.plan.host_verdict, trial.case.plan.host_verdict
    return after is None or after.verdict != "oom" or (before is not None and before.verdict == "oom")


def _purchase(case: Case, trials: tuple[Trial, ...]) -> Purchase:
    least = min(trials, key=lambda trial: trial.case.plan.peak.high_bytes, default=None)
    if least is not None and least.case.plan.peak.high_bytes >= case.plan.peak.high_bytes:
        least = None
    return Purchase(
        _smallest_gpu(case),
        None if least is None else _suggestion(least),
        None if least is None else _smallest_gpu(least.case),
    )


def _smallest_gpu(case: Case) -> str | None:
    """The GPU of the catalogue with the least usable memory on which the case fits, and which can do what it asks."""
    known: dict[str, Any] = {
        gpu: case.catalog.hardware.resolve(gpu).capacities.usable_bytes for gpu in case.catalog.hardware.gpus
    }
    for gpu in sorted((gpu for gpu, usable in known.items() if usable), key=known.__getitem__):
        elsewhere = Case.of(case.scenario, case.phase, case.catalog, gpu)
        if elsewhere.verdict.verdict == "fits" and not elsewhere.errors:
            return gpu
    return None
