"""Measured cases like a phase of a plan: how near the engine came to them, class by class, and the nearest by name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import log2
from statistics import median
from typing import Any

from planner.catalog import Catalog, load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PHASES, PhaseName, Plan
from planner.errors import PlannerError
from planner.evidence.bands import class_of
from planner.evidence.corpus import Case, load_corpus, shipped_corpora
from planner.evidence.paths import value_at
from planner.evidence.summary import agrees
from planner.scenario import Scenario

NEAREST = 4
MEASURED = ("measured", "fit")
"""The corpora of runs, by the end of their names; the others hold traces of parts of a step."""
FEATURES = (
    "method", "precision", "optimizer", "activation_checkpointing", "attention_implementation", "loss_implementation",
    "activation_profile", "base_quantization", "engine", "weights", "kv_cache_dtype",
)  # fmt: skip
"""The settings by which two cases of one class differ most."""
Tell = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of one run, and what the engine says of it."""

    id: str
    source: str
    figure: str
    """Its place in the plan, below the phase."""
    expected: int | float | str
    estimated: int | float | str
    error: float | None
    """Relative and signed, of numbers: +0.1 is an estimate 10 % too high."""
    distance: float
    """From the phase that is asked about; 0 is the same in every setting that is compared."""


@dataclass(frozen=True, slots=True)
class Alike:
    """All measured figures of one class of case."""

    case_class: str
    sizes: int
    """How many measured numbers there are."""
    median_error: float | None
    largest_error: float | None
    verdicts: int
    agreeing: int
    """Runs of which the engine says what happened: fitted, or ran out of memory."""
    nearest: tuple[Compared, ...]


def cases_alike(scenario: Scenario, plan: Plan, tell: Tell = lambda _done, _most: None) -> Mapping[PhaseName, Alike]:
    """For each planned phase that needs a GPU: the cases of its class. `tell` hears how many phases are done."""
    phases = [name for name in plan.phases if plan.phases[name].case_class]
    found: dict[PhaseName, Alike] = {}
    for done, name in enumerate(phases):
        tell(done, len(phases))
        near = _features(scenario, name), plan.model.parameters
        found[name] = _alike(plan.phases[name].case_class, name, near)
    return found


def _alike(case_class: str, phase: PhaseName, near: tuple[Mapping[str, Any], int]) -> Alike:
    compared = [
        Compared(
            run.id, run.source, figure, expected, estimated, _error(expected, estimated), _distance(run, phase, near)
        )
        for run in _runs(case_class)
        for figure, expected, estimated in run.figures
    ]
    numbers = [abs(item.error) for item in compared if item.error is not None]
    verdicts = [item for item in compared if isinstance(item.expected, str)]
    first: dict[str, Compared] = {}
    for item in sorted(compared, key=lambda item: (item.distance, item.error is None)):
        first.setdefault(item.id, item)
    return Alike(
        case_class,
        len(numbers),
        median(numbers) if numbers else None,
        max(numbers, default=None),
        len(verdicts),
        sum(agrees(item.expected, item.estimated) for item in verdicts),
        tuple(first.values())[:NEAREST],
    )


@dataclass(frozen=True, slots=True)
class _Run:
    id: str
    source: str
    phase: PhaseName
    features: Mapping[str, Any]
    parameters: int
    figures: tuple[tuple[str, int | float | str, int | float | str], ...]


@cache
def _runs(case_class: str) -> tuple[_Run, ...]:
    """The shipped cases of a class, each estimated once."""
    catalog = load_catalog()
    paths = [path for path in shipped_corpora() if path.stem.endswith(MEASURED)]
    cases = (case for path in paths for case in load_corpus(path).cases if isinstance(case, Case))
    return tuple(run for case in cases for run in _run(case, case_class, catalog))


def _run(case: Case, case_class: str, catalog: Catalog) -> Iterator[_Run]:
    try:
        scenario = Scenario.of(case.scenario)
        phases = [
            name for name in PHASES if getattr(scenario.phases, name, None) is not None and name != "preprocessing"
        ]
        phases = [name for name in phases if class_of(scenario, name) == case_class]
        if not phases:
            return
        plan = estimate(scenario, catalog)
    except PlannerError:
        return
    content = plan.to_json()
    for name in phases:
        start = f"phases.{name}."
        figures = [(item.path, item.value, value_at(content, item.path)) for item in case.expect]
        told = tuple(
            (path.removeprefix(start), expected, estimated)
            for path, expected, estimated in figures
            if path.startswith(start) and isinstance(estimated, int | float | str)
        )
        if told:
            yield _Run(case.id, case.source, name, _features(scenario, name), plan.model.parameters, told)


def _features(scenario: Scenario, name: PhaseName) -> Mapping[str, Any]:
    phase = getattr(scenario.phases, name)
    return {feature: getattr(phase, feature, None) for feature in FEATURES}


def _distance(run: _Run, phase: PhaseName, near: tuple[Mapping[str, Any], int]) -> float:
    """Settings that differ, and how many times the model is larger or smaller, in powers of two."""
    features, parameters = near
    apart = [name for name, value in features.items() if run.features[name] != value]
    return len(apart) + (run.phase != phase) + abs(log2(max(run.parameters, 1) / max(parameters, 1)))


def _error(expected: int | float | str, estimated: int | float | str) -> float | None:
    if isinstance(expected, str) or isinstance(estimated, str):
        return None
    return (estimated - expected) / (abs(expected) or 1)
