"""transformers `generate`: no pool and no budget; weights, a cache that grows by one token, and what a pass works with.

Rule: cache_utils.py DynamicCache appends with torch.cat, so that one layer's old keys stand beside the new ones. Each
step frees blocks a little too small for the next, so that up to the cache's size again may stay reserved: generating
with Qwen-7B took 1.06 GB per sequence of 1024 tokens for a cache of 0.54 GB (QwenLM/Qwen README.md).
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from planner.engine.kv_cache import CachePolicy, kv_cache_terms, total_bytes
from planner.engine.overhead import process_overhead
from planner.engine.quantization import cache_element_bytes, weight_terms
from planner.engine.rounding import larger, smaller
from planner.engine.servers.adapters import adapter_terms
from planner.engine.servers.diffusion import OFFLOAD_SOURCE, offloads, pipeline_weights
from planner.engine.servers.division import Holdings, ServerPlan, pool_tokens
from planner.engine.servers.workload import LOADED, RUNNING, ServingWorkload
from planner.engine.term import Factor, Number, Term
from planner.hardware import ChosenGpu, Overheads
from planner.model.weights import weights as weights_of

CONVERTED_ON_LOADING = ("nf4", "nf4-double", "fp4", "int8")
CONVERSION_SOURCE = (
    "transformers/quantizers/quantizer_bnb_4bit.py converts tensor by tensor; versions that read ahead hold more "
    "(huggingface/transformers#43032: a 14B model that needs 9 GB ran out of 16)"
)
WORKSPACE = "cuBLAS workspace"
SOURCE = "transformers/cache_utils.py DynamicCache: exactly the tokens seen; slopes of the Qwen3 speed tables are exact"


def plan_transformers(
    load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads, working_set: Sequence[Term]
) -> ServerPlan:
    """What `generate` holds on one GPU.

    `working_set`: tensors of the prefill and decode passes, by instant; the cache of the decode pass, where it is
    among them, says how much more than the context's own there is at its fullest instant.
    """
    weights = weight_terms(
        load.spec, load.weights, load.tensor_parallel, LOADED,
        pipeline=load.pipeline, expert_parallel=load.expert_share, keeps_fp32=True,
    )  # fmt: skip
    weights += adapter_terms(load) if load.spec.task != "diffusion" else ()
    if offloads(load):
        return _taking_turns(load, chosen, overheads, working_set)
    prefill = _cache(load, load.prompt_tokens, ("prefill", "sampling"))
    decode = _cache(load, load.context_tokens, ("decode",))
    caches = tuple(item for item in working_set if item.component == "kv_cache")
    growth = _traced_growth(caches, decode) or _growth(decode)
    standing = process_overhead(chosen.gpu, overheads, ("load", *RUNNING), gpus=load.gpus, training=False).terms
    overhead = tuple(item for item in standing if item.name != WORKSPACE)
    activation = (*(item for item in working_set if item not in caches), *growth, _workspace(chosen, overheads))
    held = Holdings(weights, decode, activation, overhead)
    alive = (*prefill, *decode, *activation)
    peak_bytes = reduce(
        larger, (total_bytes(item for item in alive if instant in item.alive) for instant in RUNNING), 0
    )
    total = chosen.capacities.usable_bytes
    fixed_bytes = held.weights_bytes + held.non_torch_bytes
    grows = np.any(np.asarray(load.context_tokens) > np.asarray(load.prompt_tokens))
    room = None if total is None else larger(total - fixed_bytes - peak_bytes + held.cache_bytes, 0)
    loading = _conversion(load)
    return ServerPlan(
        Holdings(weights, (*prefill, *decode), (*activation, *loading), overhead),
        need_bytes=fixed_bytes + peak_bytes,
        capacity_bytes=total,
        budget={
            **held.budget(total, total, held.cache_bytes),
            "activation_bytes": peak_bytes - held.cache_bytes,
            "reserved_bytes": fixed_bytes + peak_bytes,
        },
        tokens_available=pool_tokens(room, held, load, 1),
        slack_bytes=held.cache_bytes if grows else 0,
    )


def _taking_turns(
    load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads, working_set: Sequence[Term]
) -> ServerPlan:
    """A pipeline whose components wait on the host: each with what it works with, the fullest counts."""
    weights = pipeline_weights(load)
    standing = process_overhead(chosen.gpu, overheads, ("load", *RUNNING), gpus=1, training=False).terms
    overhead = tuple(item for item in standing if item.name != WORKSPACE)
    activation = (*working_set, _workspace(chosen, overheads))
    held = Holdings(weights, (), activation, overhead)
    fullest = {
        instant: total_bytes(item for item in (*weights, *activation) if instant in item.alive) for instant in RUNNING
    }
    top = max(fullest, key=lambda instant: int(fullest[instant]))
    own = total_bytes(item for item in weights if top in item.alive)
    need = fullest[top] + held.non_torch_bytes
    total = chosen.capacities.usable_bytes
    budget = {
        **held.budget(total, total, 0),
        "weights_bytes": own,
        "activation_bytes": fullest[top] - own,
        "reserved_bytes": need,
    }
    size = total_bytes(weight_terms(load.spec, load.weights, 1, ("host_ram",)))
    host = (Term("overhead", "components that wait", (Factor("bytes", size),), ("host_ram",), OFFLOAD_SOURCE),)
    return ServerPlan(held, need_bytes=need, capacity_bytes=total, budget=budget, host=host)


def _conversion(load: ServingWorkload) -> tuple[Term, ...]:
    """Formats made while loading: the largest matrix stands in 16 bits beside what it becomes."""
    if load.weights not in CONVERTED_ON_LOADING:
        return ()
    sizes = (weight.elements for weight, _ in weights_of(load.spec) if weight.quantizable)
    factors = (Factor("elements of the largest matrix", max(sizes, default=0)), Factor("bytes", 2))
    return (Term("temporaries", "matrix before its conversion", factors, ("load",), CONVERSION_SOURCE),)


def _workspace(chosen: ChosenGpu, overheads: Overheads) -> Term:
    """torch takes it from its own allocator, so that allocated memory counts it: 32 MiB of the Qwen3 tables' peaks."""
    size = overheads.cublas_workspace(chosen.gpu)
    return Term("temporaries", WORKSPACE, (Factor("bytes", size.bytes),), RUNNING, size.source)


def _cache(load: ServingWorkload, tokens: Number, alive: tuple[str, ...]) -> tuple[Term, ...]:
    """Keys and values seen so far; the text encoders of a diffusion pipeline keep none."""
    if load.spec.task == "diffusion":
        return ()

    def held(window: int, seen: Number) -> Number:
        cells: Number = smaller(window - 1, seen)
        return cells

    policy = CachePolicy(cache_element_bytes(load.cache_type), 1, held, source=SOURCE)
    return kv_cache_terms(
        load.spec, policy, alive, sequences=load.sequences, tokens=tokens, encoder_tokens=load.encoder_tokens,
        tensor_parallel=load.tensor_parallel, pipeline=load.pipeline,
    )  # fmt: skip


def _traced_growth(traced: Sequence[Term], cache: Sequence[Term]) -> tuple[Term, ...]:
    """The new token's keys and values in all layers, and old ones that still stand beside longer ones."""
    held, context = total_bytes(traced), total_bytes(cache)
    if not traced or np.any(np.asarray(held) < np.asarray(context)):
        return ()
    factors = (Factor("bytes", held - context, f"{held} at the fullest instant, less the {context} of the context"),)
    return (Term("temporaries", "longer cache of this step", factors, ("decode",), SOURCE),)


def _growth(cache: tuple[Term, ...]) -> tuple[Term, ...]:
    """One layer's keys a second time while torch.cat makes the longer ones."""
    growing = [item for item in cache if any(factor.name == "K and V" for factor in item.factors)]
    if not growing:
        return ()
    largest = max(growing, key=lambda item: float(np.max(_of_one_layer(item).bytes)))
    return (_of_one_layer(largest),)


def _of_one_layer(item: Term) -> Term:
    kept = tuple(factor for factor in item.factors if factor.name not in ("layers", "K and V"))
    one = Factor("layers", 1)
    source = "transformers/cache_utils.py: torch.cat of one layer's keys beside the old ones"
    return Term("temporaries", "longer keys of one layer", (one, *kept), ("decode",), source)
