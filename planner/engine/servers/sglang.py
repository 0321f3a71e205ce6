"""SGLang: weights and cache take a static share of the GPU; activations and graphs live in the rest.

    cache = mem_fraction_static x total - weights

Rules: sglang/srt/model_executor/model_runner.py (profile_max_num_token) and server_args.py (automatic fraction).
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
    logits = logits_term(load, sequences)
    activation = (forward_term(load, chunk, ("prefill",)), logits)
    held = Holdings(weights, cache, activation, torch_overhead(load, chosen, overheads, graphs=load.cuda_graphs))
    budget_bytes = None if total is None else int((load.utilization or _fraction(load, total, chunk)) * total)
    pool_bytes: Any = None if budget_bytes is None else budget_bytes - held.weights_bytes
    if load.cache_tokens is not None:
        pool_bytes = load.cache_tokens * rate(load)
    refused = pool_bytes is not None and pool_bytes <= 0
    refusal = "SGLang would not start: the weights exceed mem_fraction_static. Raise it or add GPUs."
    return ServerPlan(
        held,
        need_bytes=held.weights_bytes + held.cache_bytes,
        capacity_bytes=budget_bytes,
        budget=held.budget(total, budget_bytes, pool_bytes),
        tokens_available=pool_tokens(pool_bytes, held, load, 1),
        refused=refused,
        refusal=refusal if refused else None,
    )


def _fraction(load: ServingWorkload, total: int, chunk: int) -> float:
    """The automatic `mem_fraction_static`: what is left after the reserve that server_args.py computes in MiB."""
    graphs = GRAPH_SEQUENCES if load.cuda_graphs else 0
    reserve_mib = 512 + 1.5 * max(chunk, 2048) + 2 * graphs + load.gpus / 8 * 1024
    reserve_bytes = int(reserve_mib * MIB)
    if total > LARGE_GPU_BYTES:
        reserve_bytes = max(reserve_bytes, 10 * GIB)
    return max(0.1, 1 - reserve_bytes / total)
