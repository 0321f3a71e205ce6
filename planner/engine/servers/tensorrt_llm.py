"""TensorRT-LLM: a fraction of what is free after engine and activations becomes the cache.

    cache = kv_cache_free_gpu_mem_fraction x (total - weights - activations - context)

Rules: tensorrt_llm/_torch/pyexecutor/_util.py and cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp.
"""

from planner.engine.kv_cache import every_token, kv_bytes_per_token, total_bytes
from planner.engine.quantization import cache_element_bytes
from planner.engine.servers.torch_engine import engine_cache, engine_weights, forward_term
from planner.engine.servers.workload import RUNNING, ServerPlan, ServingWorkload, pool_tokens, vocabulary
from planner.engine.term import Factor, Term
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
    sequences = load.batched_sequences or DEFAULT_SEQUENCES
    logits = Term(
        "logits", "logits of one step",
        (Factor("sequences per step", sequences), Factor("vocabulary", vocabulary(load.spec)), Factor("bytes", 4)),
        ("sampling", "decode"), "tensorrt_llm/_torch/pyexecutor/sampler.py: fp32 logits of one step",
    )  # fmt: skip
    activation = (forward_term(load, load.batched_tokens or DEFAULT_STEP_TOKENS, ("prefill",)), logits)
    context = overheads.context_overhead(chosen.gpu)
    nccl = overheads.nccl_overhead(chosen.gpu, load.gpus, training=False)
    overhead = tuple(
        Term("overhead", name, (Factor("bytes", part.bytes),), ("load", *RUNNING), part.source)
        for name, part in (("CUDA context and libraries", context), ("communication buffers", nccl))
        if part.bytes
    )
    weights_bytes, needed = int(total_bytes(weights)), total_bytes(cache)
    activation_bytes = max(int(item.bytes) for item in activation)
    fixed_bytes = weights_bytes + activation_bytes + int(total_bytes(overhead))
    total = chosen.capacities.usable_bytes
    per_token = kv_bytes_per_token(
        load.spec, cache_element_bytes(load.cache_type), tensor_parallel=load.tensor_parallel, pipeline=load.pipeline
    )
    fraction = load.utilization or DEFAULT_FRACTION
    pool_bytes = None if total is None else int(fraction * max(0, total - fixed_bytes))
    if load.cache_tokens is not None:
        pool_bytes = int(load.cache_tokens * per_token)
    budget = {
        "total_bytes": total,
        "budget_bytes": None if pool_bytes is None else fixed_bytes + pool_bytes,
        "weights_bytes": weights_bytes,
        "activation_bytes": activation_bytes,
        "non_torch_bytes": int(total_bytes(overhead)),
        "cuda_graph_bytes": 0,
        "kv_cache_bytes": pool_bytes,
        "state_bytes": sum(int(item.bytes) for item in cache if "state" in item.name),
    }
    refusal = None
    if total is not None and fixed_bytes >= total:
        refusal = "TensorRT-LLM would not start: engine and activations leave nothing free for the cache."
    return ServerPlan(
        weights, cache, activation, overhead,
        need_bytes=fixed_bytes + needed,
        capacity_bytes=None if total is None else min(total, fixed_bytes + (pool_bytes or 0)),
        budget=budget,
        tokens_available=None if pool_bytes is None else pool_tokens(pool_bytes, cache, per_token, load, block),
        refusal=refusal,
    )  # fmt: skip
