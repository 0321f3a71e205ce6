"""transformers `generate`: no pool and no budget; weights, a cache that grows by one token, and what a pass works with.

Rule: cache_utils.py DynamicCache appends with torch.cat, so that one layer's old keys stand beside the new ones.
"""

from collections.abc import Sequence

from planner.engine.kv_cache import CachePolicy, kv_bytes_per_token, kv_cache_terms, total_bytes
from planner.engine.overhead import process_overhead
from planner.engine.quantization import cache_element_bytes, weight_terms
from planner.engine.rounding import smaller
from planner.engine.servers.workload import LOADED, RUNNING, ServerPlan, ServingWorkload
from planner.engine.term import Factor, Number, Term
from planner.hardware import ChosenGpu, Overheads

SOURCE = "transformers/cache_utils.py DynamicCache: exactly the tokens seen; slopes of the Qwen3 speed tables are exact"


def plan_transformers(
    load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads, working_set: Sequence[Term]
) -> ServerPlan:
    """What `generate` holds on one GPU. `working_set`: tensors of the prefill and decode passes, by instant."""
    weights = weight_terms(
        load.spec, load.weights, load.tensor_parallel, LOADED,
        pipeline=load.pipeline, expert_parallel=load.expert_parallel,
    )  # fmt: skip
    prefill = _cache(load, load.prompt_tokens, ("prefill", "sampling"))
    decode = _cache(load, load.context_tokens, ("decode",))
    growth = _growth(decode)
    overhead = process_overhead(chosen.gpu, overheads, ("load", *RUNNING), gpus=load.gpus, training=False).terms
    activation = (*working_set, *growth)
    fixed = total_bytes(weights) + total_bytes(overhead)
    by_instant = [
        total_bytes(item for item in (*prefill, *decode, *activation) if instant in item.alive) for instant in RUNNING
    ]
    total = chosen.capacities.usable_bytes
    peak = max(int(size) for size in by_instant)
    cache_bytes = int(total_bytes(decode))
    per_token = kv_bytes_per_token(
        load.spec, cache_element_bytes(load.cache_type), tensor_parallel=load.tensor_parallel
    )
    room = None if total is None else max(0, total - int(fixed) - peak + cache_bytes)
    return ServerPlan(
        weights, (*prefill, *decode), activation, overhead,
        need_bytes=fixed + peak,
        capacity_bytes=total,
        budget={
            "total_bytes": total, "budget_bytes": total, "weights_bytes": int(total_bytes(weights)),
            "activation_bytes": max(0, peak - cache_bytes), "non_torch_bytes": int(total_bytes(overhead)),
            "cuda_graph_bytes": 0, "kv_cache_bytes": cache_bytes,
            "state_bytes": sum(int(item.bytes) for item in decode if "state" in item.name),
        },
        tokens_available=int(room // per_token) if room is not None and per_token else None,
    )  # fmt: skip


def _cache(load: ServingWorkload, tokens: Number, alive: tuple[str, ...]) -> tuple[Term, ...]:
    def held(window: int, seen: Number) -> Number:
        cells: Number = smaller(window - 1, seen)
        return cells

    policy = CachePolicy(cache_element_bytes(load.cache_type), 1, held, source=SOURCE)
    return kv_cache_terms(
        load.spec, policy, alive, sequences=load.sequences, tokens=tokens,
        tensor_parallel=load.tensor_parallel, pipeline=load.pipeline,
    )  # fmt: skip


def _growth(cache: tuple[Term, ...]) -> tuple[Term, ...]:
    """One layer's keys a second time while torch.cat makes the longer ones."""
    growing = [item for item in cache if any(factor.name == "K and V" for factor in item.factors)]
    if not growing:
        return ()
    largest = max(growing, key=lambda item: int(_of_one_layer(item).bytes))
    return (_of_one_layer(largest),)


def _of_one_layer(item: Term) -> Term:
    kept = tuple(factor for factor in item.factors if factor.name not in ("layers", "K and V"))
    one = Factor("layers", 1)
    source = "transformers/cache_utils.py: torch.cat of one layer's keys beside the old ones"
    return Term("temporaries", "longer keys of one layer", (one, *kept), ("decode",), source)
