"""vLLM: a share of the GPU, less weights, what it cannot see, and the profiled activations, is the cache.

    cache = utilization x total - weights - non-torch - max(forward, sampler) [- graphs, from 0.21 on]

Start fails when nothing is left for the cache, or when one request of full length does not fit in it.
Rules: vllm/v1/worker/gpu_worker.py, vllm/v1/core/kv_cache_utils.py; 37 of 42 logs agree within 0.03 GiB.
"""

from planner.engine.kv_cache import kv_bytes_per_token, total_bytes
from planner.engine.quantization import cache_element_bytes
from planner.engine.rounding import larger, smaller
from planner.engine.servers.torch_engine import engine_cache, engine_weights, forward_term
from planner.engine.servers.versions import VersionBand, vllm_band
from planner.engine.servers.workload import RUNNING, ServerPlan, ServingWorkload, pool_tokens, vocabulary
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
    overhead = _overhead(load, chosen, overheads, band)

    weights_bytes = int(total_bytes(weights))
    activation_bytes = max(int(item.bytes) for item in activation)
    graph_bytes = sum(int(item.bytes) for item in overhead if item.name == "CUDA graphs")
    non_torch_bytes = sum(int(item.bytes) for item in overhead) - graph_bytes
    counted_graphs = graph_bytes if band.graphs_in_budget else 0
    fixed_bytes = weights_bytes + activation_bytes + non_torch_bytes + counted_graphs
    per_token = kv_bytes_per_token(
        load.spec, cache_element_bytes(load.cache_type), tensor_parallel=load.tensor_parallel, pipeline=load.pipeline
    )
    needed = total_bytes(cache)
    total = chosen.capacities.usable_bytes
    budget_bytes = None if total is None else int((load.utilization or DEFAULT_UTILIZATION) * total)
    pool_bytes = _pool_bytes(load, budget_bytes, fixed_bytes, per_token)
    state_bytes = sum(int(item.bytes) for item in cache if "state" in item.name)
    budget = {
        "total_bytes": total,
        "budget_bytes": budget_bytes,
        "weights_bytes": weights_bytes,
        "activation_bytes": activation_bytes,
        "non_torch_bytes": non_torch_bytes,
        "cuda_graph_bytes": graph_bytes,
        "kv_cache_bytes": None if pool_bytes is None else max(0, pool_bytes),
        "state_bytes": state_bytes,
    }
    available = None if pool_bytes is None else pool_tokens(max(0, pool_bytes), cache, per_token, load, block)
    return ServerPlan(
        weights, cache, activation, overhead,
        need_bytes=fixed_bytes + needed,
        capacity_bytes=budget_bytes,
        budget=budget,
        tokens_available=available,
        refusal=_refusal(load, pool_bytes, available, needed),
    )  # fmt: skip


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
    if load.cuda_graphs:
        graphs = overheads.cuda_graphs_overhead(chosen.gpu)
        terms.append(Term("overhead", "CUDA graphs", (Factor("bytes", graphs.bytes),), RUNNING, graphs.source))
    return tuple(terms)


def _pool_bytes(load: ServingWorkload, budget_bytes: int | None, fixed_bytes: int, per_token: Number) -> int | None:
    """The cache pool: stated in bytes or tokens, else what the budget leaves."""
    if load.cache_bytes is not None:
        return load.cache_bytes
    if load.cache_tokens is not None:
        return int(load.cache_tokens * per_token)
    return None if budget_bytes is None else budget_bytes - fixed_bytes


def _refusal(load: ServingWorkload, pool_bytes: int | None, available: int | None, needed: Number) -> str | None:
    if pool_bytes is None or available is None or not needed:
        return None
    if pool_bytes <= 0:
        return "vLLM would not start: no memory is left for cache blocks. Raise the GPU share or add GPUs."
    if available < load.context_tokens:
        return (
            f"vLLM would not start: one request of {load.context_tokens} tokens is longer than the cache, "
            f"which holds {available}. Shorten the context or add GPUs."
        )
    return None
