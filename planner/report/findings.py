"""What takes seconds to find out and stands in a report all the same: advice, GPUs needed, and measured cases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planner.catalog import Catalog
from planner.chart.names import PHASE_NAMES
from planner.engine.advisor import Advice, advise
from planner.engine.fleet import Row, find_fleet
from planner.engine.plan import PhaseName, Plan
from planner.scenario import Scenario

Tell = Callable[[str, int, int], None]
"""Hears what is looked for, how much is done, and of how much; may raise to call the search off."""


class ComparedCase(Protocol):
    """One figure of one measured run, and what the engine says of it (`planner.evidence.alike`)."""

    @property
    def id(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def figure(self) -> str: ...
    @property
    def expected(self) -> int | float | str: ...
    @property
    def estimated(self) -> int | float | str: ...
    @property
    def error(self) -> float | None: ...


class CasesAlike(Protocol):
    """All measured figures of the class of a phase, and the nearest of them."""

    @property
    def case_class(self) -> str: ...
    @property
    def sizes(self) -> int: ...
    @property
    def median_error(self) -> float | None: ...
    @property
    def largest_error(self) -> float | None: ...
    @property
    def verdicts(self) -> int: ...
    @property
    def agreeing(self) -> int: ...
    @property
    def nearest(self) -> Sequence[ComparedCase]: ...


@dataclass(frozen=True, slots=True)
class Findings:
    """Whatever was looked for; what was not is left out of the report."""

    advice: Mapping[PhaseName, Advice] = field(default_factory=dict)
    fleet: tuple[Row, ...] = ()
    alike: Mapping[PhaseName, CasesAlike] = field(default_factory=dict)


def search_advice(scenario: Scenario, plan: Plan, catalog: Catalog, tell: Tell) -> Mapping[PhaseName, Advice]:
    """Advice for each phase that does not fit the judging GPU, or only nearly."""
    judge = scenario.hardware.judge or next(iter(scenario.hardware.keys), "")
    found: dict[PhaseName, Advice] = {}
    for name, phase in plan.phases.items():
        verdict = phase.own_verdicts.get(judge)
        if verdict is not None and verdict.verdict in ("oom", "tight"):
            what = f"What would make {PHASE_NAMES[name].lower()} fit"
            found[name] = advise(
                scenario,
                name,
                catalog,
                tell=lambda done, most, what=what: tell(what, done, most),  # type: ignore[misc]
            )
    return found


def search_fleet(scenario: Scenario, catalog: Catalog, tell: Tell) -> tuple[Row, ...]:
    """How many of each chosen GPU the phases need; those that the catalogue does not know are left out."""
    known = catalog.hardware.gpus
    gpus = [known[key] for key in dict.fromkeys(scenario.hardware.keys) if key in known]
    if not gpus:
        return ()

    def proceed(done: int, of: int) -> bool:
        tell("How many GPUs each phase needs", done, of)
        return True

    return find_fleet(scenario, catalog, gpus, proceed=proceed)
