"""vLLM: a share of the GPU, less weights, what it cannot see, and the profiled activations, is the cache.

    cache = utilization x total - weights - non-torch - profiled activations [- graphs, from 0.21 on]

Start fails when nothing is left for the cache, or when one request of full length does not fit in it.
Rules: vllm/v1/worker/gpu_worker.py, vllm/v1/core/kv_cache_utils.py; 37 of 42 logs agree within 0.03 GiB.
"""

from typing import Any

from planner.engine.kv_cache import every_token, is_causal, total_bytes
from planner.engine.rounding import larger, smaller
from planner.engine.servers.adapters import adapter_terms
from planner.engine.servers.division import GRAPHS, UNCOUNTED, Holdings, ServerPlan, pool_tokens, rate, single, starts
from planner.engine.servers.host_weights import fetched_layer
from planner.engine.servers.torch_engine import engine_cache, engine_weights, padding_term, served_weights
from planner.engine.servers.versions import VersionBand, vllm_band, vllm_rules
from planner.engine.servers.vllm_pages import Pages, alike_pages, shared_pages
from planner.engine.servers.vllm_profile import profile_terms, unprofiled_bytes
from planner.engine.servers.workload import RUNNING, ServingWorkload
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
    weights = (*served_weights(load), *padding_term(load, vllm_rules().mxfp4_hidden_multiple))
    profiled = profile_terms(load, tokens, sequences, band, chosen, overheads)
    activation = (*profiled, *fetched_layer(load, engine_weights(load)))
    pages = shared_pages(load, band, block, tokens)
    cache = _cache(load, band, block, tokens, pages)
    held = Holdings(weights, cache, activation, _overhead(load, chosen, overheads, band))
    counted_graphs = held.graph_bytes if band.graphs_in_budget else 0
    overlooked = _overlooked_bytes(load, band)
    fixed_bytes = held.weights_bytes + held.activation_bytes + held.non_torch_bytes + counted_graphs - overlooked
    total = chosen.capacities.usable_bytes
    budget_bytes = None if total is None else int((load.utilization or DEFAULT_UTILIZATION) * total)
    pool_bytes = _pool_bytes(load, budget_bytes, fixed_bytes)
    keeps_none = single(held.cache_bytes) and not held.cache_bytes
    available = pool_tokens(pool_bytes, held, load, block, pages)
    runs = starts(pool_bytes, available, held, load)
    return ServerPlan(
        held,
        need_bytes=fixed_bytes + held.cache_bytes,
        capacity_bytes=budget_bytes,
        budget=held.budget(total, budget_bytes, 0 if keeps_none and pool_bytes is not None else pool_bytes),
        tokens_available=available,
        blocks_available=_blocks(load, pool_bytes, block, pages),
        slack_bytes=unprofiled_bytes(load, sequences) + overlooked,
        unsure_bytes=_unsure(load, chosen, overheads, band),
        refused=not runs if single(runs) else ~runs,
        refusal=None if not single(runs) or runs else _refusal(load, pool_bytes, held, available),
    )


def step_limits(load: ServingWorkload, chosen: ChosenGpu, band: VersionBand) -> tuple[Number, int]:
    """Tokens and sequences of the largest step, which is what start-up profiles.

    V0 without chunked prefill takes a whole prompt in one step. V1 (arg_utils.py): 8192 tokens and 1024 sequences on
    GPUs of 70 GiB and more except A100, else 2048 and 256 (1024 before 0.9). Models that look both ways take whole
    inputs in a step.
    """
    total = chosen.capacities.usable_bytes or 0
    is_a100 = chosen.gpu is not None and "A100" in chosen.gpu.name
    large = band.generation == "V1" and total >= LARGE_GPU_BYTES and not is_a100
    sequences = load.batched_sequences or (1024 if large else band.small_gpu_sequences)
    if load.batched_tokens is not None:
        return load.batched_tokens, sequences
    if band.generation == "V0":
        return (512 if load.chunked_prefill else larger(load.context_tokens, 2048)), sequences
    tokens: Number = 8192 if large else 2048
    return (tokens if is_causal(load.spec) else larger(load.context_tokens, tokens)), sequences


def _cache(load: ServingWorkload, band: VersionBand, block: int, step: Number, pages: Pages | None) -> tuple[Term, ...]:
    """Cache of all sequences: in shared pages, or layer by layer; older versions kept all tokens for windows, too."""
    if pages is not None:
        return pages.terms(load.sequences, load.context_tokens)
    if band.window_groups and alike_pages(load, band):
        return engine_cache(load, lambda window, held: smaller(window - 1 + step, held), block, SOURCE)
    return engine_cache(load, every_token, block, SOURCE)


def _overhead(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads, band: VersionBand) -> tuple[Term, ...]:
    context = overheads.context_overhead(chosen.gpu)
    links = overheads.nccl_overhead(chosen.gpu, load.gpus, training=False)
    alone_mib, linked_mib = band.non_torch_mib, band.non_torch_parallel_mib
    if alone_mib is None or linked_mib is None:
        unseen, source = context.bytes + links.bytes, f"{band.source}. {context.source}"
    elif load.tensor_parallel > 1 and not _has_link_workspaces(chosen):
        unseen, source = int(alone_mib * MIB) + links.bytes, f"{band.source}. {links.source}"
    else:
        unseen, source = int((linked_mib if load.tensor_parallel > 1 else alone_mib) * MIB), band.source
    source = f"{source}. {vllm_rules().non_torch_seen}"
    terms = [Term("overhead", "non-torch memory", (Factor("bytes", unseen),), ("load", *RUNNING), source)]
    if band.generation == "V1" and alone_mib is not None:
        before = f"vllm/v1/worker/gpu_worker.py: exists before the first snapshot, outside the share. {context.source}"
        terms.append(Term("overhead", UNCOUNTED, (Factor("bytes", context.bytes),), ("load", *RUNNING), before))
    if load.cuda_graphs:
        graphs = overheads.cuda_graphs_overhead(chosen.gpu)
        terms.append(Term("overhead", GRAPHS, (Factor("bytes", graphs.bytes),), RUNNING, graphs.source))
    return tuple(terms)


def _overlooked_bytes(load: ServingWorkload, band: VersionBand) -> int:
    """Places of adapters that V0 made after it had measured the weights, so that they lie beyond its share.

    vllm/worker/model_runner.py load_model measured before `create_lora_manager` (vllm-project/vllm#14450); until 0.6.5
    all memory in use was counted, and V1 makes the places while it measures.
    """
    if load.adapters is None or band.generation != "V0" or band.non_torch_mib is None:
        return 0
    return int(total_bytes(adapter_terms(load)))


def _unsure(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads, band: VersionBand) -> tuple[int, int]:
    """How far captured graphs may lie below and above their allowance, where they count against the budget.

    Those of the default sizes took 0.09 to 2.44 GiB in the logs of vllm-project/vllm#57936 and others: nothing that is
    known of a model told them apart.
    """
    if not load.cuda_graphs or not band.graphs_in_budget:
        return 0, 0
    graphs = overheads.cuda_graphs_overhead(chosen.gpu).bytes
    least, most = (int(size * MIB) for size in vllm_rules().graphs_mib)
    return max(graphs - least, 0), max(most - graphs, 0)


def _has_link_workspaces(chosen: ChosenGpu) -> bool:
    """Whether symmetric-memory and fused all-reduce workspaces exist: compute capability 9.0 and 10.0 only.

    vllm/distributed/device_communicators/symm_mem.py lists these two; other cards hold NCCL's buffers alone.
    """
    return chosen.gpu is None or chosen.gpu.compute_capability in ("9.0", "10.0", "10.3")


def _pool_bytes(load: ServingWorkload, budget_bytes: int | None, fixed_bytes: Any) -> Any:
    """The cache pool: stated in bytes or tokens, else what the budget leaves."""
    if load.cache_bytes is not None:
        return load.cache_bytes
    if load.cache_tokens is not None:
        return load.cache_tokens * rate(load)
    return None if budget_bytes is None else budget_bytes - fixed_bytes


def _blocks(load: ServingWorkload, pool_bytes: Any, block: int, pages: Pages | None) -> Any:
    """What the log calls GPU blocks; None where there is no pool, or nothing grows."""
    unit = pages.unit_bytes if pages is not None else rate(load) * block
    return None if pool_bytes is None or not unit else larger(pool_bytes, 0) // unit


def _refusal(load: ServingWorkload, pool_bytes: int, held: Holdings, available: int) -> str:
    """The words of vllm/v1/core/kv_cache_utils.py check_enough_kv_cache_memory, with what would help."""
    if pool_bytes <= 0:
        return (
            "No available memory for the cache blocks: vLLM would not start. "
            "Raise gpu_memory_utilization, lower max_num_seqs or max_num_batched_tokens, or add GPUs."
        )
    needed = total_bytes(held.cache) / load.sequences / GIB
    return (
        f"To serve at least one request with the model's max seq len ({load.context_tokens}), {needed:.2f} GiB KV "
        f"cache is needed, which is larger than the available KV cache memory ({pool_bytes / GIB:.2f} GiB): vLLM would "
        f"not start. Its cache holds {available} tokens; shorten max_model_len, raise gpu_memory_utilization or add "
        "GPUs."
    )
