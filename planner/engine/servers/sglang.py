"""SGLang: weights and cache take a static share of the GPU; activations and graphs live in the rest.

    cache = mem_fraction_static x total - weights

Rules: sglang/srt/model_executor/model_runner.py (profile_max_num_token) and server_args.py (automatic fraction).
"""

from planner.engine.kv_cache import every_token, kv_bytes_per_token, total_bytes
from planner.engine.quantization import cache_element_bytes
from planner.engine.servers.torch_engine import engine_cache, engine_weights, forward_term
from planner.engine.servers.workload import RUNNING, ServerPlan, ServingWorkload, pool_tokens, vocabulary
from planner.engine.term import Factor, Term
from planner.hardware import ChosenGpu, Overheads
from planner.units import GIB, MIB

DEFAULT_CHUNK = 8192
SMALL_GPU_CHUNK = 2048
LARGE_GPU_BYTES = 60 * 10**9
GRAPH_SEQUENCES = 160
SOURCE = "sglang/srt/mem_cache/memory_pool.py: K and V of every token and layer"


def plan_sglang(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads) -> ServerPlan:
    """How SGLang divides one of the GPUs that serve `load`."""
    total = chosen.capacities.usable_bytes
    large = (total or 0) > LARGE_GPU_BYTES
    chunk = load.batched_tokens or (DEFAULT_CHUNK if large else SMALL_GPU_CHUNK)
    weights = engine_weights(load)
    cache = engine_cache(load, every_token, load.block_size or 1, SOURCE)
    sequences = load.batched_sequences or GRAPH_SEQUENCES
    logits = Term(
        "logits", "logits of one step",
        (Factor("sequences per step", sequences), Factor("vocabulary", vocabulary(load.spec)), Factor("bytes", 4)),
        ("sampling", "decode"), "sglang/srt/layers/logits_processor.py: fp32 logits of the last positions",
    )  # fmt: skip
    activation = (forward_term(load, chunk, ("prefill",)), logits)
    context = overheads.context_overhead(chosen.gpu)
    overhead = [Term("overhead", "CUDA context and libraries", (Factor("bytes", context.bytes),), ("load", *RUNNING),
                     context.source)]  # fmt: skip
    nccl = overheads.nccl_overhead(chosen.gpu, load.gpus, training=False)
    if nccl.bytes:
        overhead.append(Term("overhead", "communication buffers", (Factor("bytes", nccl.bytes),), ("load", *RUNNING),
                             nccl.source))  # fmt: skip
    if load.cuda_graphs:
        graphs = overheads.cuda_graphs_overhead(chosen.gpu)
        overhead.append(Term("overhead", "CUDA graphs", (Factor("bytes", graphs.bytes),), RUNNING, graphs.source))

    weights_bytes, needed = int(total_bytes(weights)), total_bytes(cache)
    per_token = kv_bytes_per_token(
        load.spec, cache_element_bytes(load.cache_type), tensor_parallel=load.tensor_parallel, pipeline=load.pipeline
    )
    budget_bytes = None if total is None else int((load.utilization or _fraction(load, total, chunk)) * total)
    pool_bytes = None if budget_bytes is None else budget_bytes - weights_bytes
    if load.cache_tokens is not None:
        pool_bytes = int(load.cache_tokens * per_token)
    graph_bytes = sum(int(item.bytes) for item in overhead if item.name == "CUDA graphs")
    budget = {
        "total_bytes": total,
        "budget_bytes": budget_bytes,
        "weights_bytes": weights_bytes,
        "activation_bytes": max(int(item.bytes) for item in activation),
        "non_torch_bytes": int(total_bytes(overhead)) - graph_bytes,
        "cuda_graph_bytes": graph_bytes,
        "kv_cache_bytes": None if pool_bytes is None else max(0, pool_bytes),
        "state_bytes": sum(int(item.bytes) for item in cache if "state" in item.name),
    }
    refusal = None
    if pool_bytes is not None and pool_bytes <= 0:
        refusal = "SGLang would not start: the weights exceed mem_fraction_static. Raise it or add GPUs."
    available = None if pool_bytes is None else pool_tokens(max(0, pool_bytes), cache, per_token, load, 1)
    return ServerPlan(
        weights, cache, activation, tuple(overhead),
        need_bytes=weights_bytes + needed,
        capacity_bytes=budget_bytes,
        budget=budget,
        tokens_available=available,
        refusal=refusal,
    )  # fmt: skip


def _fraction(load: ServingWorkload, total: int, chunk: int) -> float:
    """The automatic `mem_fraction_static`: what is left after the reserve that server_args.py computes in MiB."""
    graphs = GRAPH_SEQUENCES if load.cuda_graphs else 0
    reserve_mib = 512 + 1.5 * max(chunk, 2048) + 2 * graphs + load.gpus / 8 * 1024
    reserve_bytes = int(reserve_mib * MIB)
    if total > LARGE_GPU_BYTES:
        reserve_bytes = max(reserve_bytes, 10 * GIB)
    return max(0.1, 1 - reserve_bytes / total)
