"""TensorRT-LLM: a fraction of what a trial run leaves free becomes the cache.

    cache = free_gpu_memory_fraction x (total - peak of the trial run), at most max_tokens and max_gpu_total_bytes

The trial run takes max_num_tokens in prompts as long as may be, so that it makes few rows of logits; its peak holds
what torch allocated at most and all that lies outside torch, captured graphs included. A stated number of tokens or
bytes is taken at its word as long as the GPU could hold it: the engine would also lower it to its fraction, but what a
trial run holds is known too roughly for that (one log: 1.4 %).
Rules: tensorrt_llm/_torch/pyexecutor/_util.py KvCacheCreator (configure_kv_cache_capacity, _cal_max_memory) and, for
built engines, cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp calculateMaxNumBlocks.
"""

from typing import Any

from planner.engine.kv_cache import every_token
from planner.engine.rounding import ceil_div, larger, smaller
from planner.engine.servers.division import Holdings, ServerPlan, pool_tokens, rate, single
from planner.engine.servers.torch_engine import (
    engine_cache,
    forward_term,
    logits_term,
    served_weights,
    torch_overhead,
)
from planner.engine.servers.versions import version_number
from planner.engine.servers.workload import ServingWorkload
from planner.hardware import ChosenGpu, Overheads

DEFAULT_FRACTION = 0.9
DEFAULT_STEP_TOKENS = 8192
DEFAULT_BLOCK = 32
"""tensorrt_llm/llmapi/llm_args.py KvCacheConfig: free_gpu_memory_fraction, tokens_per_block; BuildConfig: 8192."""
ENGINE_BLOCK = 64
"""Tokens per block of built engines before 0.20 (paged_kv_cache's `tokens_per_block`)."""
TORCH_FLOW_FROM = (0, 20, 0)
MILLIONTHS = 10**6
"""A fraction is taken in millionths, so that bytes stay whole numbers in a sweep."""
SOURCE = "cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp: blocks of K and V for every layer"


def plan_tensorrt_llm(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads) -> ServerPlan:
    """How TensorRT-LLM divides one of the GPUs that serve `load`."""
    block = load.block_size or (ENGINE_BLOCK if _is_built(load) else DEFAULT_BLOCK)
    weights = served_weights(load)
    cache = engine_cache(load, every_token, block, SOURCE)
    step = load.batched_tokens or DEFAULT_STEP_TOKENS
    activation = (forward_term(load, step, ("prefill",)), logits_term(load, ceil_div(step, load.context_tokens)))
    graphs = load.cuda_graphs and not _is_built(load)
    held = Holdings(weights, cache, activation, torch_overhead(load, chosen, overheads, graphs=graphs))
    fixed_bytes = held.weights_bytes + held.activation_bytes + held.non_torch_bytes + held.graph_bytes
    total = chosen.capacities.usable_bytes
    fraction = load.utilization or DEFAULT_FRACTION
    free: Any = None if total is None else larger(total - fixed_bytes, 0)
    pool_bytes: Any = None if free is None else free * round(fraction * MILLIONTHS) // MILLIONTHS
    stated = load.cache_bytes if load.cache_tokens is None else load.cache_tokens * rate(load)
    if stated is not None:
        pool_bytes = stated if free is None else smaller(stated, free)
    budget_bytes = None if pool_bytes is None else fixed_bytes + pool_bytes
    refused: Any = False if total is None else fixed_bytes >= total
    available = pool_tokens(pool_bytes, held, load, block)
    return ServerPlan(
        held,
        need_bytes=fixed_bytes + held.cache_bytes,
        capacity_bytes=None if total is None or budget_bytes is None else smaller(total, budget_bytes),
        budget=held.budget(total, budget_bytes, pool_bytes),
        tokens_available=available,
        refused=refused,
        refusal=_refusal(load, refused, available) if single(fixed_bytes) and single(available) else None,
    )


def _refusal(load: ServingWorkload, refused: bool, available: Any) -> str | None:
    """What TensorRT-LLM says (pyexecutor/resource_manager.py): it starts with shorter sequences where some fit."""
    if refused or available == 0:
        return (
            "Impossible to fit in any sequence in kvCache: TensorRT-LLM would not start, because weights and the trial "
            "run leave nothing free. Lower max_num_tokens or add GPUs."
        )
    if available is None or not rate(load) or available >= load.context_tokens:
        return None
    return (
        f"TensorRT-LLM caps max_seq_len at the {available} tokens that its cache holds and refuses longer requests. "
        "Raise free_gpu_memory_fraction, lower max_num_tokens or add GPUs."
    )


def _is_built(load: ServingWorkload) -> bool:
    """Whether the version runs engines that were built before, rather than PyTorch modules; those capture no graphs."""
    number = version_number(load.version) if load.version else None
    return number is not None and number < TORCH_FLOW_FROM
