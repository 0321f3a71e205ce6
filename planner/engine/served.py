"""Serving at many points: how an engine divides a GPU for arrays of requests and lengths, as it does for one load."""

from dataclasses import replace

import numpy as np

from planner.engine.assemble import Context
from planner.engine.band import Band, band, case_class
from planner.engine.case import Case
from planner.engine.phases.serving import needs_of, version_spread, versions_apart
from planner.engine.points import Integers
from planner.engine.rounding import ceil_div
from planner.engine.servers import MOMENTS, POOLED, ServerPlan, plan_server, serving_workload
from planner.engine.swept import Sizes
from planner.engine.term import Number
from planner.engine.verdict import usable_bytes
from planner.scenario.serving import Serving


def can_be_swept(case: Case) -> bool:
    """Whether the engine's rules take arrays: those whose passes are traced, or that make images, go one by one."""
    fields = case.fields
    return isinstance(fields, Serving) and fields.engine in POOLED and case.spec.task != "diffusion"


def served(case: Case, context: Context, requests: Integers, length: Integers) -> tuple[Sizes, Sizes, Integers | None]:
    """What the process needs at each point; what the engine counts of it, and the budget that it compares that with."""
    phase, count = case.fields, len(requests)
    load = replace(
        serving_workload(phase, case.spec),
        sequences=ceil_div(requests, phase.parallelism.data),
        context_tokens=length,
        prompt_tokens=phase.prompt_tokens or length,
    )
    overheads = context.hardware.overheads
    plan = plan_server(phase.engine, load, context.judge, overheads)
    apart = versions_apart(phase, load)
    spread = (0, 0) if apart is None else version_spread(apart, context.judge, overheads)
    need, least, most = (np.broadcast_to(np.asarray(size), count) for size in needs_of(plan, *spread))
    chosen = _band(phase, case)
    process = _process(plan, count)
    low, high = chosen.around_all(process)
    counted = Sizes(need, chosen.around_all(least)[0], chosen.around_all(most)[1])
    budget = None if plan.capacity_bytes is None else np.broadcast_to(np.asarray(plan.capacity_bytes), count)
    kept_free = None if budget is None else usable_bytes(budget, context.headroom_percent)
    return Sizes(process, low + (least - need), high + (most - need)), counted, kept_free


def _band(phase: Serving, case: Case) -> Band:
    approximate = case.spec.approximate is not None
    return band(
        case_class("serving", engine=phase.engine, engine_version=phase.engine_version, approximate=approximate)
    )


def _process(plan: ServerPlan, count: int) -> Integers:
    """Bytes at the fullest instant, the first where several are, with the overhead that is there then."""
    instants = [instant for instants in MOMENTS.values() for instant in instants]
    held: dict[str, Number] = dict.fromkeys(instants, 0)
    beside: dict[str, Number] = dict.fromkeys(instants, 0)
    for item in plan.holdings.terms:
        into = beside if item.component == "overhead" else held
        for instant in item.alive:
            into[instant] = into[instant] + item.bytes
    allocated = np.array([np.broadcast_to(np.asarray(size), count) for size in held.values()])
    overhead = np.array([np.broadcast_to(np.asarray(size), count) for size in beside.values()])
    fullest = allocated.argmax(axis=0)[None, :]
    found: Integers = np.take_along_axis(allocated + overhead, fullest, axis=0)[0]
    return found
