"""What the window shows, as values: a scenario and everything that follows from it."""

from dataclasses import dataclass, replace
from typing import cast, get_args

from planner.catalog import Catalog
from planner.chart.spec import WHOLE, BarName, Resource
from planner.engine.estimate import estimate
from planner.engine.plan import PHASES, PhaseName, Plan
from planner.engine.term import Component
from planner.errors import PlannerError
from planner.hardware import ChosenGpu
from planner.model import resolve_model
from planner.model.spec import ModelSpec
from planner.scenario import Issue, Scenario, issue_text, validate
from planner.units import SizeUnit


@dataclass(frozen=True, slots=True)
class State:
    """A scenario with its model, GPUs, issues and plan.

    Phases in `stale` have errors: they show their last valid figures until these are mended. `problem` says why
    there is no plan for this scenario at all.
    """

    scenario: Scenario
    spec: ModelSpec | None = None
    gpus: tuple[ChosenGpu, ...] = ()
    issues: tuple[Issue, ...] = ()
    plan: Plan | None = None
    stale: frozenset[PhaseName] = frozenset()
    problem: str = ""

    def issues_at(self, path: tuple[str | int, ...]) -> tuple[Issue, ...]:
        """The issues of one field."""
        dotted = ".".join(str(part) for part in path)
        return tuple(issue for issue in self.issues if issue.path == dotted)

    def has_error_below(self, path: tuple[str | int, ...]) -> bool:
        """Whether some field of the part at `path` is wrong."""
        start = ".".join(str(part) for part in path) + "."
        return any(issue.severity == "error" and issue.path.startswith(start) for issue in self.issues)

    @property
    def wrong_phases(self) -> frozenset[PhaseName]:
        """The phases with errors in their settings."""
        return _wrong_phases(self.issues)

    def first_error(self, phase: PhaseName) -> str:
        """What is wrong in a phase, or the first of several things."""
        wrong = (issue for issue in self.issues if issue.severity == "error" and _phase_of(issue) == phase)
        return next((issue_text(issue) for issue in wrong), "")

    @property
    def judge(self) -> str:
        """The id of the GPU that judges: the chosen one, or the first."""
        ids = [gpu.id for gpu in self.gpus]
        wanted = self.scenario.hardware.judge
        return wanted if wanted in ids else (ids[0] if ids else "")


@dataclass(frozen=True, slots=True)
class ViewState:
    """What the user looks at; not part of the plan, never undone."""

    phase: PhaseName = "training"
    resource: Resource = "vram"
    whole: bool = False
    """Whether all phases together are looked at; then `phase` is the one looked at before."""
    component: Component | None = None
    moment: str = ""
    """The moment of the phase that is looked at; empty for its peak."""
    group: str = ""
    """The role whose own GPUs are looked at over a step; empty for those that run the phase itself."""
    unit: SizeUnit = "GiB"

    @property
    def bar(self) -> BarName:
        return WHOLE if self.whole else self.phase


def derive(scenario: Scenario, catalog: Catalog, previous: State | None) -> State:
    """Everything that follows from `scenario`. Parts that did not change are taken from `previous`."""
    spec, problem = _spec(scenario, catalog, previous)
    gpus, gpu_problem = _gpus(scenario, catalog, previous)
    issues = validate(scenario, spec, catalog.hardware)
    wrong = _wrong_phases(issues)
    general = [issue for issue in issues if issue.severity == "error" and _phase_of(issue) is None]
    problem = problem or gpu_problem or " ".join(issue_text(issue) for issue in general)
    state = State(scenario, spec, gpus, issues, problem=problem)
    if not problem:
        try:
            plan = estimate(_without(scenario, wrong), catalog)
        except PlannerError as error:
            state = replace(state, problem=error.message)
        else:
            plan, stale = _with_last_valid(plan, scenario, wrong, previous)
            return replace(state, plan=plan, stale=stale)
    last = previous.plan if previous and previous.scenario.model == scenario.model else None
    return replace(state, plan=last, stale=frozenset(last.phases) if last else frozenset())


def _spec(scenario: Scenario, catalog: Catalog, previous: State | None) -> tuple[ModelSpec | None, str]:
    if previous and previous.spec and previous.scenario.model == scenario.model:
        return previous.spec, ""
    try:
        return resolve_model(scenario.model, catalog.presets), ""
    except PlannerError as error:
        return None, error.message


def _gpus(scenario: Scenario, catalog: Catalog, previous: State | None) -> tuple[tuple[ChosenGpu, ...], str]:
    hardware = scenario.hardware
    if previous and previous.gpus and previous.scenario.hardware == hardware:
        return previous.gpus, ""
    chosen: list[ChosenGpu] = []
    problem = ""
    for entry in hardware.gpus:
        try:
            chosen.append(catalog.hardware.resolve(entry, total_bytes=hardware.gpu_total_bytes))
        except PlannerError as error:
            problem = problem or error.message
    return tuple(chosen), problem


def _phase_of(issue: Issue) -> PhaseName | None:
    parts = issue.path.split(".")
    if len(parts) > 1 and parts[0] == "phases" and parts[1] in get_args(PhaseName):
        return cast(PhaseName, parts[1])
    return None


def _wrong_phases(issues: tuple[Issue, ...]) -> frozenset[PhaseName]:
    found = (_phase_of(issue) for issue in issues if issue.severity == "error")
    return frozenset(phase for phase in found if phase is not None)


def _without(scenario: Scenario, phases: frozenset[PhaseName]) -> Scenario:
    for phase in phases:
        scenario = scenario.with_value(("phases", phase), None)
    return scenario


def _with_last_valid(
    plan: Plan, scenario: Scenario, wrong: frozenset[PhaseName], previous: State | None
) -> tuple[Plan, frozenset[PhaseName]]:
    """`plan` completed by the last valid figures, for the same model, of the phases that are wrong now."""
    same_model = previous is not None and previous.scenario.model == scenario.model
    last = previous.plan.phases if previous and previous.plan and same_model else {}
    stale = frozenset(phase for phase in wrong if phase in last)
    if not stale:
        return plan, stale
    phases = {**plan.phases, **{phase: last[phase] for phase in stale}}
    return replace(plan, phases={name: phases[name] for name in PHASES if name in phases}), stale
