"""vLLM: a share of the GPU, less weights, what it cannot see, and the profiled activations, is the cache.

    cache = utilization x total - weights - non-torch - max(forward, sampler) [- graphs, from 0.21 on]

Start fails when nothing is left for the cache, or when one request of full length does not fit in it.
Rules: vllm/v1/worker/gpu_worker.py, vllm/v1/core/kv_cache_utils.py; 37 of 42 logs agree within 0.03 GiB.
"""

from typing import Any

from planner.engine.rounding import larger, smaller
from planner.engine.servers.division import GRAPHS, UNCOUNTED, Holdings, ServerPlan, pool_tokens, rate, single, starts
from planner.engine.servers.torch_engine import engine_cache, engine_weights, forward_term
from planner.engine.servers.versions import VersionBand, vllm_band
from planner.engine.servers.workload import RUNNING, ServingWorkload, vocabulary
from planner.engine.term import Factor, Number, Term
from planner.hardware import ChosenGpu, Overheads
from planner.units import GIB, MIB

DEFAULT_UTILIZATION = 0.9
DEFAULT_BLOCK = 16
LARGE_GPU_BYTES = 70 * GIB
SOURCE = "vllm/v1/core/kv_cache_utils.py: blocks of all layers, K and V"


def plan_vllm(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads) -> ServerPlan:
    """How vLLM divides one of the GPUs that serve `load`."""
    band = vllm_band(load.version)
    block = load.block_size or DEFAULT_BLOCK
    tokens, sequences = step_limits(load, chosen, band)
    weights = engine_weights(load)
    forward = forward_term(load, tokens, ("prefill",))
    activation = (forward, *sampler_terms(load, band, sequences))
    window_step = tokens if band.generation == "V1" else 0
    cache = engine_cache(load, lambda window, held: smaller(window - 1 + window_step, held), block, SOURCE)
    held = Holdings(weights, cache, activation, _overhead(load, chosen, overheads, band))
    counted_graphs = held.graph_bytes if band.graphs_in_budget else 0
    fixed_bytes = held.weights_bytes + held.activation_bytes + held.non_torch_bytes + counted_graphs
    total = chosen.capacities.usable_bytes
    budget_bytes = None if total is None else int((load.utilization or DEFAULT_UTILIZATION) * total)
    pool_bytes = _pool_bytes(load, budget_bytes, fixed_bytes)
    available = pool_tokens(pool_bytes, held, load, block)
    runs = starts(pool_bytes, available, held, load)
    return ServerPlan(
        held,
        need_bytes=fixed_bytes + held.cache_bytes,
        capacity_bytes=budget_bytes,
        budget=held.budget(total, budget_bytes, pool_bytes),
        tokens_available=available,
        refused=not runs if single(runs) else ~runs,
        refusal=None if not single(runs) or runs else _refusal(load, pool_bytes, available),
    )


def step_limits(load: ServingWorkload, chosen: ChosenGpu, band: VersionBand) -> tuple[Number, int]:
    """Tokens and sequences of the largest step, which is what start-up profiles.

    V0 without chunked prefill takes a whole prompt in one step. V1 (arg_utils.py): 8192 tokens and 1024 sequences on
    GPUs of 70 GiB and more except A100, else 2048 and 256.
    """
    total = chosen.capacities.usable_bytes or 0
    is_a100 = chosen.gpu is not None and "A100" in chosen.gpu.name
    large = band.generation == "V1" and total >= LARGE_GPU_BYTES and not is_a100
    sequences = load.batched_sequences or (1024 if large else 256)
    if load.batched_tokens is not None:
        return load.batched_tokens, sequences
    if band.generation == "V0":
        return (512 if load.chunked_prefill else larger(load.context_tokens, 2048)), sequences
    return (8192 if large else 2048), sequences


def sampler_terms(load: ServingWorkload, band: VersionBand, sequences: int) -> tuple[Term, ...]:
    """Profiled memory of sampling: not divided by tensor parallelism, because logits are gathered first.

    V0 with chunked prefill did not profile it.
    """
    if not vocabulary(load.spec) or (band.generation == "V0" and load.chunked_prefill):
        return ()
    factors = (
        Factor("sequences per step", sequences), Factor("vocabulary", vocabulary(load.spec)),
        Factor("bytes", band.sampler_bytes),
    )  # fmt: skip
    return (Term("logits", "sampler", factors, ("sampling", "decode"), band.source),)


def _overhead(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads, band: VersionBand) -> tuple[Term, ...]:
    mib = band.non_torch_parallel_mib if load.tensor_parallel > 1 else band.non_torch_mib
    terms = [Term("overhead", "non-torch memory", (Factor("bytes", int(mib * MIB)),), ("load", *RUNNING), band.source)]
    if band.generation == "V1":
        context = overheads.context_overhead(chosen.gpu)
        source = f"vllm/v1/worker/gpu_worker.py: exists before the first snapshot, outside the share. {context.source}"
        terms.append(Term("overhead", UNCOUNTED, (Factor("bytes", context.bytes),), ("load", *RUNNING), source))
    if load.cuda_graphs:
        graphs = overheads.cuda_graphs_overhead(chosen.gpu)
        terms.append(Term("overhead", GRAPHS, (Factor("bytes", graphs.bytes),), RUNNING, graphs.source))
    return tuple(terms)


def _pool_bytes(load: ServingWorkload, budget_bytes: int | None, fixed_bytes: Any) -> Any:
    """The cache pool: stated in bytes or tokens, else what the budget leaves."""
    if load.cache_bytes is not None:
        return load.cache_bytes
    if load.cache_tokens is not None:
        return load.cache_tokens * rate(load)
    return None if budget_bytes is None else budget_bytes - fixed_bytes


def _refusal(load: ServingWorkload, pool_bytes: int, available: int) -> str:
    if pool_bytes <= 0:
        return "vLLM would not start: no memory is left for cache blocks. Raise the GPU share or add GPUs."
    return (
        f"vLLM would not start: one request of {load.context_tokens} tokens is longer than the cache, "
        f"which holds {available}. Shorten the context or add GPUs."
    )
