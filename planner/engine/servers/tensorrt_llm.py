"""TensorRT-LLM: a fraction of what is free after engine and activations becomes the cache.

    cache = kv_cache_free_gpu_mem_fraction x (total - weights - activations - context)

Rules: tensorrt_llm/_torch/pyexecutor/_util.py and cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp.
"""

from typing import Any

from planner.engine.kv_cache import every_token
from planner.engine.servers.division import Holdings, ServerPlan, pool_tokens, rate
from planner.engine.servers.torch_engine import (
    engine_cache,
    engine_weights,
    forward_term,
    logits_term,
    torch_overhead,
)
from planner.engine.servers.workload import ServingWorkload
from planner.hardware import ChosenGpu, Overheads

DEFAULT_FRACTION = 0.9
DEFAULT_STEP_TOKENS = 8192
DEFAULT_SEQUENCES = 256
DEFAULT_BLOCK = 64
SOURCE = "cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp: blocks of K and V for every layer"


def plan_tensorrt_llm(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads) -> ServerPlan:
    """How TensorRT-LLM divides one of the GPUs that serve `load`."""
    block = load.block_size or DEFAULT_BLOCK
    weights = engine_weights(load)
    cache = engine_cache(load, every_token, block, SOURCE)
    logits = logits_term(load, load.batched_sequences or DEFAULT_SEQUENCES)
    activation = (forward_term(load, load.batched_tokens or DEFAULT_STEP_TOKENS, ("prefill",)), logits)
    held = Holdings(weights, cache, activation, torch_overhead(load, chosen, overheads, graphs=False))
    fixed_bytes = held.weights_bytes + held.activation_bytes + held.non_torch_bytes
    total = chosen.capacities.usable_bytes
    fraction = load.utilization or DEFAULT_FRACTION
    pool_bytes: Any = None if total is None else int(fraction * max(0, total - fixed_bytes))
    if load.cache_tokens is not None:
        pool_bytes = load.cache_tokens * rate(load)
    budget_bytes = None if pool_bytes is None else fixed_bytes + pool_bytes
    refused = total is not None and fixed_bytes >= total
    refusal = "TensorRT-LLM would not start: engine and activations leave nothing free for the cache."
    return ServerPlan(
        held,
        need_bytes=fixed_bytes + held.cache_bytes,
        capacity_bytes=None if total is None or budget_bytes is None else min(total, budget_bytes),
        budget=held.budget(total, budget_bytes, pool_bytes),
        tokens_available=pool_tokens(pool_bytes, held, load, block),
        refused=refused,
        refusal=refusal if refused else None,
    )
