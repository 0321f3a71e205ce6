"""Serving: what the load needs on each GPU, beside what the engine reserves there by policy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any

from planner.engine.kv_cache import cached_mixers, total_bytes
from planner.engine.ledger import Ledger
from planner.engine.phases.serving_answers import Asker, answers_json
from planner.engine.phases.serving_kinds import unserved
from planner.engine.phases.serving_layout import Trace
from planner.engine.quantization import weight_terms
from planner.engine.rounding import larger, smaller
from planner.engine.servers import MOMENTS, ServerPlan, ServingWorkload, plan_server, rate, serving_workload
from planner.engine.servers.drafts import OWN_LAYER, drafts_itself
from planner.engine.servers.llama_cpp import FILE_TYPES
from planner.engine.servers.versions import possible_versions, vllm_rules
from planner.engine.term import Term
from planner.hardware import ChosenGpu, HardwareCatalog, Overheads
from planner.model.counts import parameters
from planner.model.spec import ModelSpec
from planner.scenario.serving import Serving

UNWISE_UTILIZATION = 0.95


@dataclass(frozen=True, slots=True)
class PolicyNeed:
    """What one GPU's verdict compares: the need as the engine counts it, and the budget it gives itself."""

    need_bytes: int
    capacity_bytes: int | None
    """None where the usable memory of the GPU is not known."""
    refusal: str | None
    """Why the engine would not start, in its own terms."""
    low_bytes: int
    high_bytes: int
    """The need by the rules of other versions, where the version is not stated, with blocks that stay unused, and with
    allowances at their ends."""


@dataclass(frozen=True)
class ServingPlan:
    """A serving phase before bands and verdicts."""

    ledger: Ledger
    """On the judging GPU. Overhead terms (context, non-torch, graphs) are among its terms."""
    needs: Mapping[str, PolicyNeed]
    """By GPU id."""
    describe: Callable[[], Mapping[str, Any]]
    """Finds `details`: `kv`, `engine_budget` and, for llama.cpp, `buffers`, as in the plan's file format."""
    host_terms: tuple[Term, ...]
    """Host buffers of the engine itself; loading and caches of the operating system are `host.py`'s."""
    warnings: tuple[str, ...]

    @cached_property
    def details(self) -> Mapping[str, Any]:
        return self.describe()


def plan_serving(
    phase: Serving,
    spec: ModelSpec,
    gpus: Sequence[ChosenGpu],
    judge: ChosenGpu,
    hardware: HardwareCatalog,
    working_set: Sequence[Term] = (),
    *,
    gpus_per_node: int = 8,
    trace: Trace | None = None,
) -> ServingPlan:
    """Plan a serving phase on each of `gpus`; the ledger is that of `judge`.

    `working_set`, for the engine `transformers` only: terms of one forward pass with instants among `prefill`,
    `sampling` and `decode`; `trace` makes such terms for other workloads.
    """
    load = serving_workload(phase, spec)
    overheads = hardware.overheads
    plans = {gpu.id: plan_server(phase.engine, load, gpu, overheads, working_set) for gpu in gpus}
    judging = plans.get(judge.id) or plan_server(phase.engine, load, judge, overheads, working_set)
    spread = versions_apart(phase, load)
    needs = {
        gpu.id: _need(plans[gpu.id], *((0, 0) if spread is None else _spread(spread, gpu, overheads))) for gpu in gpus
    }

    def describe() -> Mapping[str, Any]:
        asker = Asker(phase.engine, load, hardware, gpus_per_node, phase.concurrent_sequences, trace)
        found = {gpu.id: asker.answers(gpu, phase.context_distribution) for gpu in gpus}
        return {
            "kv": {**_kv(phase, load, plans), **answers_json(found)},
            "engine_budget": {gpu_id: dict(plan.budget) for gpu_id, plan in plans.items()},
            "weights": {"format": phase.weights, "bits_per_weight": bits_per_weight(phase, spec)},
            **({"buffers": dict(judging.buffers)} if judging.buffers else {}),
        }

    ledger = Ledger(MOMENTS, judging.holdings.terms)
    warnings = (*_warnings(phase, judging), *_draft_warnings(phase, spec), *unserved(phase, spec))
    return ServingPlan(ledger, needs, describe, judging.host, warnings)


def _need(plan: ServerPlan, below: int, above: int) -> PolicyNeed:
    need, low, high = needs_of(plan, below, above)
    return PolicyNeed(int(need), plan.capacity_bytes, plan.refusal, int(low), int(high))


def needs_of(plan: ServerPlan, below: Any, above: Any) -> tuple[Any, Any, Any]:
    """The need by the assumed version, and how far those of other versions lie below and above it."""
    need, (less, more) = plan.need_bytes, plan.unsure_bytes
    return need, need - below - less, need + larger(above, plan.slack_bytes) + more


def versions_apart(phase: Serving, load: ServingWorkload) -> ServingWorkload | None:
    """The load by which versions are compared where none is stated.

    Versions differ in what they profile and leave to others, but not in what a token takes, unless a model has
    windows, which older ones charge in full. Without them the spread is that of a single token, whatever the load is.
    """
    if phase.engine != "vllm" or phase.engine_version is not None:
        return None
    windowed = any(getattr(mixer, "window", None) for _, mixer in cached_mixers(load.spec))
    return load if windowed else replace(load, sequences=1, context_tokens=1, prompt_tokens=1)


@lru_cache(maxsize=256)
def _spread(load: ServingWorkload, gpu: ChosenGpu, overheads: Overheads) -> tuple[int, int]:
    below, above = version_spread(load, gpu, overheads)
    return int(below), int(above)


def version_spread(load: ServingWorkload, gpu: ChosenGpu, overheads: Overheads) -> tuple[Any, Any]:
    """How much less and how much more other versions need."""
    need = plan_server("vllm", load, gpu, overheads).need_bytes
    others = [
        plan_server("vllm", replace(load, version=version), gpu, overheads).need_bytes
        for version in possible_versions()
    ]
    return need - reduce(smaller, others, need), reduce(larger, others, need) - need


def _kv(phase: Serving, load: ServingWorkload, plans: Mapping[str, ServerPlan]) -> dict[str, Any]:
    """Cache rates and capacities per GPU id; tokens are those of one replica, None for a model that keeps none."""
    available = {gpu_id: plan.tokens_available if plan.holdings.cache_bytes else None for gpu_id, plan in plans.items()}
    spread = phase.context_distribution
    expected = {} if spread is None else {"tokens_expected": int(load.sequences) * spread.mean}
    return {
        "bytes_per_token": int(rate(load)),
        "tokens_needed": int(load.sequences) * int(load.context_tokens),
        **expected,
        "bytes_needed": {
            gpu_id: int(total_bytes(item for item in plan.holdings.cache if "decode" in item.alive))
            for gpu_id, plan in plans.items()
        },
        "tokens_available": available,
        **_blocks(plans),
        "max_concurrency": {
            gpu_id: None if tokens is None else round(tokens / int(load.context_tokens), 2)
            for gpu_id, tokens in available.items()
        },
    }


def _blocks(plans: Mapping[str, ServerPlan]) -> dict[str, Any]:
    """Blocks of the pools, for an engine that counts in them."""
    found = {gpu_id: plan.blocks_available for gpu_id, plan in plans.items() if plan.blocks_available is not None}
    return {"blocks_available": found} if found else {}


def _warnings(phase: Serving, judging: ServerPlan) -> tuple[str, ...]:
    """What is allowed but unwise, and why the engine would not start on the judging GPU."""
    found = [] if judging.refusal is None else [judging.refusal]
    utilization = phase.gpu_memory_utilization
    if phase.engine == "vllm" and utilization is not None and utilization > UNWISE_UTILIZATION:
        found.append(
            f"A GPU share of {utilization:g} leaves no room for CUDA graphs and peaks outside the profile; "
            "0.90 to 0.95 is usual."
        )
    if phase.engine == "vllm" and phase.engine_version is None:
        oldest = vllm_rules().spread_from
        found.append(
            f"The vLLM version is not stated: the rules of {vllm_rules().assumed_version} are used, and the band "
            f"covers versions from {oldest[0]}.{oldest[1]} on, which profile differently."
        )
    return tuple(found)


def bits_per_weight(phase: Serving, spec: ModelSpec) -> float | None:
    """Bits that a parameter takes on average, with scales and all that stays wider; None for a model without any."""
    name = FILE_TYPES.get(phase.weights, phase.weights) if phase.engine == "llama.cpp" else phase.weights
    count = parameters(spec)
    return round(8 * total_bytes(weight_terms(spec, name, 1, ("load",))) / count, 2) if count else None


def _draft_warnings(phase: Serving, spec: ModelSpec) -> tuple[str, ...]:
    """Tokens that nothing guesses: the model has no draft layer, and nothing else was chosen."""
    if not phase.speculative_tokens or phase.drafter.method not in OWN_LAYER or drafts_itself(spec):
        return ()
    return (
        "No draft layer of this model is known, so that nothing is counted for guessing tokens ahead: choose a smaller "
        "model or an EAGLE head.",
    )
