"""The bytes of a traced phase at many points, as `assemble` finds them for one: allocated, reserved, and the process's.

Every formula is that of the single estimate, with arrays in it; `tests/engine/test_sweep.py` holds both to one another.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.engine.activations.lower import Lowered
from planner.engine.assemble import Context
from planner.engine.band import band, case_class
from planner.engine.case import Case
from planner.engine.overhead import allocator_term, process_overhead, workspace_term
from planner.engine.phases.inference import plan_forward
from planner.engine.phases.step import kinds_of_points, own_length, plan_pipeline
from planner.engine.phases.trial import reduced, trial_step
from planner.engine.points import Integers, Points
from planner.engine.streams import idle_terms
from planner.engine.term import Term
from planner.engine.traced import SettledPhase, TracedPhase
from planner.engine.workspaces import workspace_bytes
from planner.hardware import ChosenGpu
from planner.model.spec import ModelSpec
from planner.scenario.phases import Design, Evaluation, FineTuning
from planner.scenario.step import TrainingStep

IdleTerms = Callable[[SettledPhase, str], tuple[Term, ...]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the process needs at each point, in bytes, on one GPU, and the band around it."""

    process: Integers
    low: Integers
    high: Integers


@dataclass(frozen=True)
class Part:
    """Points with one case class, wherever they lie in the sweep: what torch holds there, on any GPU."""

    where: Integers
    allocated: Integers
    idle: Integers
    """Reserved beside it, and of no use at the fullest moment."""
    managed: Integers
    """CUDA managed memory."""
    case_class: str


@dataclass(frozen=True)
class Kind:
    """How one kind of phase runs: which stages it has at a batch and a length, and what its process brings along."""

    stages: Callable[[Integers, Integers], Sequence[TracedPhase]]
    own_length: Callable[[Integers], Integers]
    """Tokens of a sequence on one GPU."""
    reported: str
    profile: str
    ranks: int
    training: bool
    backward: bool
    expandable_segments: bool
    idle: IdleTerms | None
    """None where nothing can be reserved and idle."""
    trained: ModelSpec | None = None
    """The model whose training software keeps workspaces of its own; None where it is only tried or run."""


def kind_of(case: Case) -> Kind | None:
    """How the phase runs; None for one that is estimated point by point."""
    fields, spec = case.fields, case.spec
    if isinstance(fields, TrainingStep):
        return _step(fields, spec)
    if isinstance(fields, Evaluation):
        return _forward(fields, spec, training=False, logits=fields.logits, loss=fields.computes_loss)
    if not isinstance(fields, Design) or fields.smoke_test not in ("forward", "forward_backward"):
        return None
    spec = reduced(spec, fields.trial_layers)
    if fields.smoke_test == "forward":
        return _forward(fields, spec, training=True, logits="all", loss=True)
    trial = _step(trial_step(fields), spec)
    return None if trial is None else replace(trial, expandable_segments=False, idle=None, trained=None)


def _step(phase: TrainingStep, spec: ModelSpec) -> Kind | None:
    if isinstance(phase, FineTuning) and phase.objective != "sft":
        return None
    layout = phase.parallelism

    def stages(batch: Integers, length: Integers) -> Sequence[TracedPhase]:
        every = layout.reported_stage != "fullest"
        return plan_pipeline(phase, spec, micro_batch_size=batch, sequence_length=length, every_stage=every)

    def idle(settled: SettledPhase, moment: str) -> tuple[Term, ...]:
        return idle_terms(phase, settled, moment)

    def own(length: Integers) -> Integers:
        return np.asarray(own_length(phase, length))

    return Kind(
        stages=stages,
        own_length=own,
        reported=layout.reported_stage,
        profile=phase.activation_profile,
        ranks=layout.ranks,
        training=True,
        backward=True,
        expandable_segments=phase.expandable_segments,
        idle=idle,
        trained=spec,
    )


def _forward(phase: Evaluation | Design, spec: ModelSpec, *, training: bool, logits: str, loss: bool) -> Kind:
    def stages(batch: Integers, length: Integers) -> Sequence[TracedPhase]:
        return (plan_forward(phase, spec, batch=batch, sequence=length, logits=logits, computes_loss=loss),)

    return Kind(
        stages=stages,
        own_length=lambda length: length,
        reported="first",
        profile=phase.activation_profile,
        ranks=phase.parallelism.ranks,
        training=training,
        backward=False,
        expandable_segments=False,
        idle=None,
    )


def parts_of(case: Case, kind: Kind, batch: Integers, length: Integers) -> Iterator[Part]:
    """The points of a sweep, divided by what the framework runs at them and by the stage that is fullest."""
    groups = kinds_of_points(case.spec, batch, kind.own_length(length))
    everywhere = np.arange(len(batch))
    for where in [everywhere[group] for group in groups] or [everywhere]:
        stages = kind.stages(batch[where], length[where])
        points = [stage.at_points() for stage in stages]
        tops = [_fullest(stage, at, kind, len(where)) for stage, at in zip(stages, points, strict=True)]
        place = {"first": 0, "last": len(stages) - 1}.get(kind.reported)
        chosen = np.array([top[0] for top in tops]).argmax(axis=0) if place is None else np.full(len(where), place)
        for index, (stage, (allocated, idle, managed)) in enumerate(zip(stages, tops, strict=True)):
            mine = chosen == index if len(stages) > 1 else slice(None)
            if len(where[mine]):
                yield Part(
                    where[mine], allocated[mine], idle[mine], managed[mine], _case_class(case, kind, stage.lowered)
                )


def _case_class(case: Case, kind: Kind, lowered: Lowered) -> str:
    rough = case.spec.approximate is not None or bool(lowered.approximations)
    return case_class(
        case.phase, ranks=kind.ranks, profile=kind.profile, approximate=rough, quantized=lowered.recipe.quantized_base
    )


def _fullest(stage: TracedPhase, points: Points, kind: Kind, count: int) -> tuple[Integers, Integers, Integers]:
    """Allocated, idle and managed bytes at the fullest moment of each point."""
    nothing = np.zeros(count, dtype=np.int64)
    managed = [item for item in stage.standing if item.component == "overhead"]
    sharded = kind.idle is not None and stage.lowered.recipe.sharding is not None
    if not managed and not sharded:
        return np.broadcast_to(points.highest(), count), nothing, nothing
    allocated, places = (np.broadcast_to(found, count) for found in points.fullest)
    idle, held = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for place in np.unique(places):
        here = places == place
        row, moment = int(points.row_of[place]), stage.rename[points.moments[points.moment_of[place]]]
        if kind.idle is not None and sharded:
            for item in kind.idle(SettledPhase(stage, {}, {moment: row}), moment):
                idle[here] += np.broadcast_to(item.bytes, count)[here]
        held[here] += sum(int(item.bytes) for item in managed if moment in item.alive)
    return allocated, idle, held


def sizes_on(gpu: ChosenGpu, parts: Sequence[Part], kind: Kind, context: Context, count: int) -> Sizes:
    """What the process needs on this GPU at all points."""
    process, low, high = (np.empty(count, dtype=np.int64) for _ in range(3))
    overheads = context.hardware.overheads
    standing = process_overhead(gpu.gpu, overheads, (), gpus=kind.ranks, training=kind.training).bytes
    workspace = int(workspace_term(gpu.gpu, overheads, (), training=kind.backward).bytes)
    kept = workspace_bytes(kind.profile, kind.trained, gpu.gpu, overheads) if kind.trained else 0
    for part in parts:
        allocated = part.allocated + kept
        term = allocator_term(allocated, (), expandable_segments=kind.expandable_segments)
        slack = np.asarray(term.bytes, dtype=np.int64)
        needed = allocated + slack + part.idle + (workspace + standing)
        whole = needed + part.managed
        below, above = band(part.case_class).around_all(needed)
        process[part.where], low[part.where] = whole, below
        high[part.where] = np.where(part.managed > 0, np.maximum(above, whole), above)
    return Sizes(process, low, high)
