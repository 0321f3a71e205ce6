"""A serving phase of the plan: the engine's division of each GPU, judged by its own budget."""

from functools import partial

from planner.engine.assemble import Context
from planner.engine.band import Band, band, case_class
from planner.engine.phases.serving import PolicyNeed, ServingPlan, plan_serving
from planner.engine.phases.serving_encoded import generation_terms
from planner.engine.phases.serving_host import serving_surroundings
from planner.engine.phases.serving_layout import Trace, serving_gpus_needed
from planner.engine.plan import Peak, PhasePlan, Verdict
from planner.engine.servers import ServingWorkload, serving_workload
from planner.engine.term import Term
from planner.engine.verdict import judge
from planner.hardware import ChosenGpu
from planner.model.spec import ModelSpec
from planner.scenario.hardware import Hardware
from planner.scenario.serving import Serving


def serving_phase(phase: Serving, spec: ModelSpec, context: Context, hardware: Hardware) -> PhasePlan:
    """What the load needs on the judging GPU, and a verdict for each GPU by what the engine would do there."""
    trace = _trace(phase, spec)
    working_set = generation_terms(phase, spec) if trace is not None else ()
    planned = plan_serving(
        phase, spec, context.gpus, context.judge, context.hardware, working_set, gpus_per_node=hardware.gpus_per_node,
        trace=trace,
    )  # fmt: skip
    moments, tell = planned.ledger.settle()
    top = max(moments.values(), key=lambda moment: moment.allocated_bytes)
    overhead = sum(
        int(item.bytes) for item in planned.ledger.terms if item.component == "overhead" and top.instant in item.alive
    )
    kind = case_class(
        "serving",
        engine=phase.engine,
        engine_version=phase.engine_version,
        approximate=spec.approximate is not None,
    )
    chosen = band(kind)
    process = top.allocated_bytes + overhead
    low, high = chosen.around(process)
    spread = planned.needs.get(context.judge.id)
    if spread is not None:
        low, high = low + spread.low_bytes - spread.need_bytes, high + spread.high_bytes - spread.need_bytes
    return PhasePlan(
        peak=Peak(top.name, top.allocated_bytes, top.allocated_bytes, process, low, high),
        components={**top.components, "overhead": overhead},
        moments=moments,
        tell=tell,
        verdicts={gpu.id: _verdict(planned.needs[gpu.id], chosen, gpu, phase, spec, context) for gpu in context.gpus},
        surround=lambda: serving_surroundings(
            phase, spec, hardware, planned.host_terms, pool_bytes=_pool(phase, planned, context.judge.id)
        ),
        room=context.room,
        case_class=kind,
        warnings=planned.warnings,
        describe=planned.describe,
    )


def _pool(phase: Serving, planned: ServingPlan, gpu: str) -> int | None:
    """The KV pool on one GPU, looked up only where a host cache is a multiple of it."""
    if phase.host_cache_ratio is None:
        return None
    budget = planned.details["engine_budget"].get(gpu, {})
    size: int | None = budget.get("kv_cache_bytes")
    return size


def _trace(phase: Serving, spec: ModelSpec) -> Trace | None:
    """How passes over other workloads are traced, for the one engine whose passes are."""
    traced = phase.engine == "transformers" and spec.task != "diffusion"
    return partial(_traced_anew, phase) if traced else None


def _traced_anew(phase: Serving, load: ServingWorkload) -> tuple[Term, ...]:
    """What `generate` works with for another workload than the phase's own."""
    spread = phase.parallelism.model_copy(
        update={"tensor": load.tensor_parallel, "pipeline": load.pipeline, "data": 1, "expert": load.expert_parallel}
    )
    asked = {
        "concurrent_sequences": int(load.sequences),
        "context_length": int(load.context_tokens),
        "prompt_tokens": int(min(load.prompt_tokens, load.context_tokens)),
        "parallelism": spread,
    }
    return generation_terms(phase.model_copy(update=asked), load.spec)


def _verdict(
    need: PolicyNeed, chosen: Band, gpu: ChosenGpu, phase: Serving, spec: ModelSpec, context: Context
) -> Verdict:
    (low, _), (_, high) = chosen.around(need.low_bytes), chosen.around(need.high_bytes)
    return judge(
        low,
        need.need_bytes,
        high,
        need.capacity_bytes,
        headroom_percent=context.headroom_percent,
        find_gpus=lambda: serving_gpus_needed(
            phase.engine,
            serving_workload(phase, spec),
            gpu,
            context.hardware,
            high_share=high / need.need_bytes,
            trace=_trace(phase, spec),
        ),
    )
