"""From a file named on the command line to a plan: read, check, estimate."""

from dataclasses import dataclass
from pathlib import Path

from planner.catalog import Catalog, load_catalog
from planner.chart.build import lifecycle_chart
from planner.chart.captions import phase_captions
from planner.chart.names import PHASE_NAMES
from planner.chart.spec import ChartSpec
from planner.cli.reading import open_scenario
from planner.engine.estimate import estimate
from planner.engine.plan import Plan
from planner.engine.speed import Speed, rough_speed
from planner.errors import PlannerError
from planner.hardware import ChosenGpu
from planner.model import resolve_model
from planner.scenario import Scenario, declaration_at, issue_line, validate
from planner.units import SizeUnit


@dataclass(frozen=True, slots=True)
class Planning:
    """A scenario together with everything that was derived from it."""

    scenario: Scenario
    catalog: Catalog
    plan: Plan
    warnings: tuple[str, ...]

    @property
    def judge(self) -> str:
        """The GPU whose verdict counts: the one the plan names, or else its first."""
        return self.scenario.hardware.judge or next((gpu.id for gpu in self.gpus), "")

    @property
    def gpus(self) -> tuple[ChosenGpu, ...]:
        """The GPUs that are compared."""
        hardware = self.scenario.hardware
        resolve = self.catalog.hardware.resolve
        return tuple(resolve(entry, total_bytes=hardware.gpu_total_bytes) for entry in hardware.gpus)


def plan_file(path: Path, gpu: str | None = None) -> Planning:
    """Plan the scenario, or the model, that the file holds; `gpu` replaces the GPUs it names.

    Raises `PlannerError` with every contradiction in it, one a line.
    """
    scenario, notes = open_scenario(path)
    if gpu is not None:
        scenario = scenario.with_value(("hardware", "gpus"), (gpu,)).with_value(("hardware", "judge"), gpu)
    return plan_scenario(scenario, notes)


def plan_scenario(scenario: Scenario, notes: tuple[str, ...] = ()) -> Planning:
    """Check a scenario against its model and the catalogue, then estimate it."""
    catalog = load_catalog()
    issues = validate(scenario, resolve_model(scenario.model), catalog.hardware)
    errors = [issue for issue in issues if issue.severity == "error"]
    if errors:
        raise PlannerError(
            "\n".join(["this plan contradicts itself:", *(f"  {issue_line(issue)}" for issue in errors)])
        )
    return Planning(scenario, catalog, estimate(scenario, catalog), (*notes, *map(issue_line, issues)))


def speeds_of(planning: Planning) -> tuple[Speed, ...]:
    """The rough speeds of all phases that have one, on the GPU that judges."""
    found = (rough_speed(planning.scenario, name, planning.catalog) for name in planning.plan.phases)
    return tuple(speed for speed in found if speed is not None)


def chart_of(planning: Planning, unit: SizeUnit) -> ChartSpec:
    """The lifecycle chart of a plan."""
    captions = phase_captions(planning.scenario.phases)
    return lifecycle_chart(planning.plan, gpus=planning.gpus, judge=planning.judge, captions=captions, unit=unit)


def timeline_of(planning: Planning, phase: str | None, unit: SizeUnit) -> ChartSpec:
    """The chart of one phase's step. Raises `PlannerError` for a phase that is not planned or needs no VRAM."""
    from planner.chart.timeline import timeline_chart
    from planner.cli.axes import phase_named

    name = phase_named(planning.scenario, phase)
    chart = timeline_chart(planning.plan, name, gpus=planning.gpus, judge=planning.judge, unit=unit)
    if chart is None:
        raise PlannerError(f"{PHASE_NAMES[name]} uses no VRAM, so there is nothing to draw over its step.")
    return chart


def exploration_of(planning: Planning, phase: str | None, field: str | None, unit: SizeUnit) -> ChartSpec:
    """What one phase needs over the values of one field; its first size, when none is named.

    Raises `PlannerError` for a phase or field that the plan does not have, and for one that is no number.
    """
    from planner.chart.explore import explore_chart
    from planner.cli.axes import field_path, phase_named
    from planner.engine.explore import explore, own_value, values_of
    from planner.engine.switches import AXES

    scenario, catalog = planning.scenario, planning.catalog
    name = phase_named(scenario, phase)
    first = next(iter(AXES.get(name, ())), None)
    path = ("phases", name, first) if field is None and first else field_path(field or "", scenario, name)
    declared = declaration_at(path)
    own = None if declared is None or declared.kind != "int" else own_value(scenario, path)
    if declared is None or not isinstance(own, int):
        raise PlannerError(f"{PHASE_NAMES[name]} has nothing to explore there. Name a field that is a number.")
    values = values_of(scenario, path, resolve_model(scenario.model))
    found = explore(scenario, path, values, catalog, [gpu.id for gpu in planning.gpus])
    label = declared.label
    chart = explore_chart(found, planning.plan, label, own, gpus=planning.gpus, judge=planning.judge, unit=unit)
    if chart is None:
        raise PlannerError(f"{PHASE_NAMES[name]} fits with no value of {label}, so there is nothing to draw.")
    return chart
