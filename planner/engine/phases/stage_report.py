"""All stages of a pipeline side by side, and the one that the plan's figures are for."""

from collections.abc import Mapping, Sequence
from typing import Any

from planner.engine.phases.step import plan_pipeline
from planner.engine.pipeline import Stage, layer_count, stage_layers
from planner.engine.traced import SettledPhase
from planner.model.spec import ModelSpec
from planner.scenario.step import TrainingStep


def settled_step(phase: TrainingStep, spec: ModelSpec) -> tuple[SettledPhase, dict[str, Any]]:
    """The reported stage with its moments decided, and `stages`, which lists all of them (empty without pipeline)."""
    stages = [planned.settle() for planned in plan_pipeline(phase, spec)]
    if len(stages) == 1:
        return stages[0], {}
    wanted = phase.parallelism.reported_stage
    place = {"first": 0, "last": len(stages) - 1}.get(wanted)
    if place is None:
        place = max(range(len(stages)), key=lambda index: _top(stages[index])[1])
    return stages[place], {"stages": _listed(phase, spec, stages), "reported_stage": place}


def reported_stage(phase: TrainingStep, details: Mapping[str, Any]) -> Stage | None:
    """The stage that the figures are for; None where there is no pipeline."""
    layout, index = phase.parallelism, details.get("reported_stage")
    return None if index is None else Stage(index, layout.pipeline, layout.pipeline_interleave)


def _listed(phase: TrainingStep, spec: ModelSpec, stages: Sequence[SettledPhase]) -> list[dict[str, Any]]:
    layout, found = phase.parallelism, []
    for index, settled in enumerate(stages):
        stage = Stage(index, layout.pipeline, layout.pipeline_interleave)
        moment, allocated = _top(settled)
        in_flight = stage.micro_batches_in_flight(phase.gradient_accumulation_steps)
        found.append(
            {
                "stage": index,
                "layers": layer_count(stage_layers(spec, stage)),
                "embeddings": stage.is_first,
                "head": stage.is_last,
                "micro_batches_in_flight": in_flight[0] if stage.chunks == 1 else list(in_flight),
                "peak_moment": moment,
                "allocated_bytes": allocated,
                "components": {name: held for name, held in settled.moments[moment].components.items() if held},
            }
        )
    return found


def _top(settled: SettledPhase) -> tuple[str, int]:
    """The fullest moment and its bytes."""
    moment = max(settled.moments.values(), key=lambda moment: moment.allocated_bytes)
    return moment.name, moment.allocated_bytes
