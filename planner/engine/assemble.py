"""From settled moments to a phase of the plan: peak, band, overhead and verdicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.engine.band import band
from planner.engine.overhead import allocator_term, process_overhead, workspace_term
from planner.engine.plan import NO_ROOM, Moment, Peak, PhasePlan, Room, Surroundings, Verdict, worst
from planner.engine.term import COMPONENTS, Component, Term
from planner.engine.verdict import judge
from planner.hardware import ChosenGpu, HardwareCatalog


@dataclass(frozen=True)
class Context:
    """What all phases of one plan share."""

    gpus: Sequence[ChosenGpu]
    judge: ChosenGpu
    hardware: HardwareCatalog
    headroom_percent: float
    room: Room = NO_ROOM


@dataclass(frozen=True)
class Need:
    """A phase before its peak is judged."""

    moments: Mapping[str, Moment]
    terms: Callable[[], tuple[Term, ...]]
    case_class: str
    ranks: int = 1
    training: bool = False
    backward: bool = False
    """Whether a backward pass runs, on a thread with cuBLAS handles of its own."""
    managed_terms: tuple[Term, ...] = ()
    """CUDA managed memory (paged optimizers), which torch's allocator does not know."""
    expandable_segments: bool = False
    idle_terms: Callable[[str], tuple[Term, ...]] = lambda _moment: ()
    """Memory that the allocator holds at a moment and cannot use for it, beyond its usual share."""
    layer_activation_bytes: Callable[[], int] = lambda: 0
    surround: Callable[[], Surroundings] = Surroundings
    warnings: tuple[str, ...] = ()
    describe: Callable[[], Mapping[str, Any]] = dict
    groups: Mapping[str, PhasePlan] = field(default_factory=dict)
    find_gpus: Callable[[ChosenGpu], int | None] = lambda _gpu: None


def assemble(need: Need, context: Context) -> PhasePlan:
    """The phase of the plan, judged on every GPU by the process's bytes."""
    top = max(need.moments.values(), key=lambda moment: moment.allocated_bytes)
    standing = process_overhead(
        context.judge.gpu, context.hardware.overheads, (top.name,), gpus=need.ranks, training=need.training
    )
    slack = allocator_term(top.allocated_bytes, (top.name,), expandable_segments=need.expandable_segments)
    alive, overheads = (top.name,), context.hardware.overheads
    workspace = workspace_term(context.judge.gpu, overheads, alive, training=need.backward)
    idle = need.idle_terms(top.name)
    managed = tuple(replace(item, alive=alive) for item in need.managed_terms if top.name in item.alive)
    overhead = (slack, workspace, *idle, *managed, *standing.terms)
    reserved = top.allocated_bytes + int(slack.bytes) + int(workspace.bytes)
    reserved += sum(int(item.bytes) for item in idle)
    needed = reserved + standing.bytes
    process = needed + sum(int(item.bytes) for item in managed)
    # The driver moves managed memory to the host when the GPU is full, so it never runs out for it.
    low, high = band(need.case_class).around(needed)
    high = max(high, process if managed else 0)
    peak = Peak(top.name, top.allocated_bytes, reserved, process, low, high)
    own = {gpu.id: _verdict(peak, gpu, context, need) for gpu in context.gpus}
    return PhasePlan(
        peak=peak,
        components={**top.components, "overhead": process - top.allocated_bytes},
        moments=need.moments,
        tell=lambda: (*need.terms(), *overhead),
        verdicts={gpu: _of_all(gpu, verdict, need.groups) for gpu, verdict in own.items()} if need.groups else own,
        count_layer_activations=need.layer_activation_bytes,
        surround=need.surround,
        warnings=need.warnings,
        describe=need.describe,
        groups=need.groups,
        policy_verdicts=own if need.groups else {},
        room=context.room,
        case_class=need.case_class,
    )


def _of_all(gpu: str, own: Verdict, groups: Mapping[str, PhasePlan]) -> Verdict:
    """A phase fits where each of its groups of GPUs does."""
    others = (replace(plan.verdicts[gpu], group=role) for role, plan in groups.items())
    return worst((own, *others)) or own


def _verdict(peak: Peak, gpu: ChosenGpu, context: Context, need: Need) -> Verdict:
    return judge(
        peak.low_bytes,
        peak.process_bytes,
        peak.high_bytes,
        gpu.capacities.usable_bytes,
        headroom_percent=context.headroom_percent,
        find_gpus=lambda: need.find_gpus(gpu),
    )


def no_vram(context: Context, moment: str, need: Need) -> PhasePlan:
    """A phase that runs without a GPU: everything fits."""
    nothing: dict[Component, int] = dict.fromkeys(COMPONENTS, 0)
    held: dict[Component, int] = {name: 0 for name in COMPONENTS if name != "overhead"}
    return PhasePlan(
        peak=Peak(moment, 0, 0, 0, 0, 0),
        components=nothing,
        moments={moment: Moment(moment, moment, 0, held)},
        tell=tuple,
        verdicts={gpu.id: _nothing_held(gpu, context) for gpu in context.gpus},
        surround=need.surround,
        warnings=need.warnings,
        room=context.room,
    )


def _nothing_held(gpu: ChosenGpu, context: Context) -> Verdict:
    """It fits even where a GPU's usable memory is not known."""
    usable = gpu.capacities.usable_bytes
    if usable is None:
        return Verdict("fits", None, None, lambda: 0)
    return judge(0, 0, 0, usable, headroom_percent=context.headroom_percent, find_gpus=lambda: 0)
