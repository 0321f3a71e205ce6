"""All stages of a pipeline side by side, and the one that the plan's figures are for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.engine.phases.role_report import Between, before_step
from planner.engine.phases.role_update import value_step
from planner.engine.phases.step import plan_pipeline
from planner.engine.pipeline import Stage, layer_count, stage_layers
from planner.engine.plan import Moment
from planner.engine.term import Term
from planner.engine.traced import SettledPhase, TracedPhase
from planner.model.spec import ModelSpec
from planner.scenario.step import TrainingStep


@dataclass(frozen=True)
class SettledStage:
    """A rank's step with its moments decided, those before the step included."""

    settled: SettledPhase
    between: tuple[Between, ...]
    stage: Stage | None
    """None where there is no pipeline."""

    @property
    def moments(self) -> Mapping[str, Moment]:
        return {**{one.moment.name: one.moment for one in self.between}, **self.settled.moments}

    @property
    def fullest(self) -> Moment:
        return max(self.moments.values(), key=lambda moment: moment.allocated_bytes)

    def terms(self) -> tuple[Term, ...]:
        told = self.settled.terms()
        for one in self.between:
            told = one.told(told)
        return told


def settled_step(
    phase: TrainingStep, spec: ModelSpec, workspaces: tuple[Term, ...] = ()
) -> tuple[SettledStage, dict[str, Any]]:
    """The reported stage, and `stages`, which lists all of them (empty without pipeline).

    `workspaces` are those that the software keeps on this GPU, in every stage.
    """
    layout, planned = phase.parallelism, plan_pipeline(phase, spec)
    if workspaces:
        planned = tuple(replace(step, standing=(*step.standing, *workspaces)) for step in planned)
    stages = [_settled(phase, spec, index, step) for index, step in enumerate(planned)]
    if len(stages) == 1:
        return stages[0], {}
    place = {"first": 0, "last": len(stages) - 1}.get(layout.reported_stage)
    if place is None:
        place = max(range(len(stages)), key=lambda index: stages[index].fullest.allocated_bytes)
    return stages[place], {"stages": [_listed(phase, spec, stage) for stage in stages], "reported_stage": place}


def _settled(phase: TrainingStep, spec: ModelSpec, index: int, planned: TracedPhase) -> SettledStage:
    layout, settled = phase.parallelism, planned.settle()
    stage = Stage(index, layout.pipeline, layout.pipeline_interleave) if layout.pipeline > 1 else None
    further = (before_step(phase, spec, stage, settled), value_step(phase, spec, index, settled))
    return SettledStage(settled, tuple(one for one in further if one is not None), stage)


def _listed(phase: TrainingStep, spec: ModelSpec, settled: SettledStage) -> dict[str, Any]:
    stage, moment = settled.stage, settled.fullest
    assert stage is not None
    in_flight = stage.micro_batches_in_flight(phase.gradient_accumulation_steps)
    return {
        "stage": stage.index,
        "layers": layer_count(stage_layers(spec, stage)),
        "embeddings": stage.is_first,
        "head": stage.is_last,
        "micro_batches_in_flight": in_flight[0] if stage.chunks == 1 else list(in_flight),
        "peak_moment": moment.name,
        "allocated_bytes": moment.allocated_bytes,
        "components": {name: held for name, held in moment.components.items() if held},
    }
