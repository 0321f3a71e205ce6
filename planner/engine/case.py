"""One phase of a scenario on one GPU: what limits, sweeps and advice try changes of."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from planner.catalog import Catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhaseName, PhasePlan, Verdict
from planner.engine.speed import Speed, rough_speed
from planner.errors import Issue, PlannerError
from planner.model import resolve_model
from planner.model.spec import ModelSpec
from planner.scenario import FieldPath, Scenario, validate
from planner.scenario.issues import lapsed_fields
from planner.scenario.phases import Phases

Edit = tuple[FieldPath, Any]
"""A path of a scenario and its new value; None takes a value back to its default."""


@dataclass(frozen=True)
class Case:
    """A scenario that holds this phase alone and one GPU."""

    scenario: Scenario
    phase: PhaseName
    catalog: Catalog
    spec: ModelSpec

    @classmethod
    def of(cls, scenario: Scenario, phase: PhaseName, catalog: Catalog, gpu: str | None = None) -> Self:
        """The phase as the scenario plans it, on `gpu` or on the GPU that judges. Raises `PlannerError`."""
        planned = getattr(scenario.phases, phase)
        if planned is None:
            raise PlannerError(f"The plan has no {phase.replace('_', ' ')} phase.")
        alone = scenario.model_copy(update={"phases": Phases(**{phase: planned}), "hardware": _alone(scenario, gpu)})
        return cls(alone, phase, catalog, resolve_model(scenario.model, catalog.presets))

    @property
    def gpu(self) -> str:
        return self.scenario.hardware.judged_by

    @property
    def fields(self) -> Any:
        """The phase's own part of the scenario."""
        return getattr(self.scenario.phases, self.phase)

    def path(self, *fields: str) -> FieldPath:
        """Where a field of the phase stands in the scenario."""
        return ("phases", self.phase, *fields)

    def changed(self, edits: Iterable[Edit]) -> Self:
        """The case after these edits. Raises `ScenarioError` for a value that its field refuses."""
        scenario = self.scenario
        for path, value in edits:
            scenario = scenario.with_value(path, value)
        return replace(self, scenario=scenario)

    def lapsed(self) -> frozenset[str]:
        """Stated fields of the phase that mean nothing while the others are as they are."""
        return frozenset(lapsed_fields(self.scenario, self.phase))

    @cached_property
    def issues(self) -> tuple[Issue, ...]:
        """Errors and warnings of the rules."""
        return validate(self.scenario, self.spec, self.catalog.hardware)

    @property
    def errors(self) -> tuple[Issue, ...]:
        return tuple(issue for issue in self.issues if issue.severity == "error")

    def says_more_than(self, other: "Case", tolerated: frozenset[str] = frozenset()) -> bool:
        """Whether a rule forbids or doubts something here that it did not there; some doubts are `tolerated`."""
        return not self._said(tolerated) <= other._said(frozenset())

    def _said(self, without: frozenset[str]) -> frozenset[tuple[str, str, str]]:
        told = (issue for issue in self.issues if issue.severity == "error" or issue.code not in without)
        return frozenset((issue.code, issue.path, issue.severity) for issue in told)

    @cached_property
    def plan(self) -> PhasePlan:
        """What the phase needs."""
        return estimate(self.scenario, self.catalog).phases[self.phase]

    @cached_property
    def speed(self) -> Speed | None:
        """Roughly how fast it is at best; None for what has no speed."""
        return rough_speed(self.scenario, self.phase, self.catalog)

    @property
    def works_on_cpu(self) -> bool:
        """Whether the processor computes a part, which no rough speed counts: layers, or the optimizer's update."""
        fields = self.fields
        offload = getattr(fields, "offload", None)
        if offload is not None and offload.optimizer != "none":
            return True
        return getattr(fields, "gpu_layers", None) is not None

    @property
    def verdict(self) -> Verdict:
        return self.plan.verdicts[self.gpu]


def _alone(scenario: Scenario, gpu: str | None) -> Any:
    """The hardware with one GPU: one of the plan's own entries, or another of the catalogue."""
    hardware = scenario.hardware
    wanted = gpu or hardware.judged_by
    entries = dict(zip(hardware.keys, hardware.gpus, strict=True))
    if wanted != hardware.judged_by:
        hardware = hardware.replaced("price_per_gpu_hour", None)
    return hardware.replaced("gpus", (entries.get(wanted, wanted),)).replaced("judge", wanted)
