"""SGLang: weights and cache take a static share of the GPU; activations and graphs live in the rest.

    cache and states = free after loading - free before x (1 - mem_fraction_static)

so that what the process holds before it loads, its context and communication buffers, counts only by the share.
Rules: python/sglang/srt/model_executor/model_runner_kv_cache_mixin.py (profile_max_num_token, handle_max_mamba_cache)
and python/sglang/srt/server_args.py (automatic fraction).
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from planner.engine.kv_cache import every_token
from planner.engine.rounding import larger, smaller
from planner.engine.servers.division import Holdings, ServerPlan, pool_tokens, rate, single
from planner.engine.servers.host_weights import fetched_layer
from planner.engine.servers.torch_engine import (
    engine_cache,
    engine_weights,
    forward_term,
    logits_term,
    served_weights,
    torch_overhead,
)
from planner.engine.servers.versions import version_number
from planner.engine.servers.workload import ServingWorkload
from planner.hardware import ChosenGpu, Overheads
from planner.resources import resource
from planner.units import MIB

SOURCE = "python/sglang/srt/mem_cache/memory_pool.py: K and V of every token and layer, and one state more than slots"


def plan_sglang(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads) -> ServerPlan:
    """How SGLang divides one of the GPUs that serve `load`."""
    total = chosen.capacities.usable_bytes
    settings = _size_class(total or 0)
    chunk = load.batched_tokens or settings["chunk_tokens"]
    sequences = load.batched_sequences or settings["graph_sequences_tp4" if load.tensor_parallel >= 4 else
                                                   "graph_sequences"]  # fmt: skip
    weights = served_weights(load)
    cache = engine_cache(load, every_token, load.block_size or 1, SOURCE)
    activation = (
        forward_term(load, chunk, ("prefill",)),
        logits_term(load, sequences),
        *fetched_layer(load, engine_weights(load)),
    )
    held = Holdings(weights, cache, activation, torch_overhead(load, chosen, overheads, graphs=load.cuda_graphs))
    budget_bytes = None
    if total is not None:
        free_before = total - int(held.non_torch_bytes)
        fraction = load.utilization or automatic_fraction(load, total, chunk, sequences)
        if load.utilization and _older_than(load, _rules()["vision"]["fixed_below"]):
            fraction *= vision_share(load)
        budget_bytes = int(fraction * free_before)
    room: Any = None if budget_bytes is None else budget_bytes - held.weights_bytes
    state_bytes = _state_pool(load, held, room)
    pool_bytes: Any = None if room is None else room - state_bytes
    if load.cache_tokens is not None:
        pool_bytes = load.cache_tokens * rate(load)
    refused = pool_bytes is not None and single(pool_bytes) and pool_bytes <= 0
    available = _tokens(load, held, room, pool_bytes)
    budget = held.budget(total, budget_bytes, pool_bytes)
    return ServerPlan(
        held,
        need_bytes=held.weights_bytes + held.cache_bytes,
        capacity_bytes=budget_bytes,
        budget={**budget, "state_bytes": state_bytes, "reserved_bytes": _with(budget["reserved_bytes"], state_bytes)},
        tokens_available=available,
        refused=refused,
        refusal=_refusal(load, refused, available) if single(available) and single(load.context_tokens) else None,
    )


def _with(reserved_bytes: Any, state_bytes: Any) -> Any:
    """What the process holds, with the states, which have a pool of their own."""
    return None if reserved_bytes is None else reserved_bytes + state_bytes


def _tokens(load: ServingWorkload, held: Holdings, room: Any, pool_bytes: Any) -> Any:
    """Tokens of the cache; where states alone are kept, or keys of an encoder too, requests times their length."""
    if np.any(load.encoder_tokens):
        return pool_tokens(pool_bytes, held, load, load.block_size or 1)
    if rate(load) or not np.any(held.state_bytes):
        return None if pool_bytes is None else larger(pool_bytes, 0) // (rate(load) or 1)
    return pool_tokens(room, held, load, 1)


def _refusal(load: ServingWorkload, refused: bool, available: Any) -> str | None:
    """What SGLang says: at its start, or of each request that is longer than its cache."""
    if refused:
        return (
            "Not enough memory. Please try to increase --mem-fraction-static: SGLang would not start, because weights "
            "and states leave nothing of their share. Raise it or add GPUs."
        )
    if available is None or not rate(load) or available >= load.context_tokens:
        return None
    return (
        f"Input length ({load.context_tokens} tokens) exceeds the maximum allowed length ({available} tokens): SGLang "
        "starts and refuses such requests. Shorten the context, raise mem_fraction_static or add GPUs."
    )


def automatic_fraction(load: ServingWorkload, total: int, chunk: int, sequences: int) -> float:
    """The automatic `mem_fraction_static`: what is left after the reserve that server_args.py computes in MiB.

    Older versions took a share by the number of GPUs, then a reserve by the memory of a GPU.
    """
    rules = _rules()
    reserve, shares, reserves = rules["reserve"], rules["shares_by_gpus"], rules["reserves_by_memory"]
    if _older_than(load, shares["below"]):
        # The tower's share is model_runner.py's there, of any fraction.
        return next(float(share) for gpus, share in shares["shares"] if load.gpus >= gpus) * vision_share(load)
    if _older_than(load, reserves["below"]):
        size = next(item for item in reserves["reserves"] if not item["below_mib"] or total < item["below_mib"] * MIB)
        reserve_mib = (size["gib"] + size["gib_per_gpu"] * load.gpus) * 1024
        return _less(load, total, reserve_mib)
    reserve_mib = (
        reserve["fixed_mib"]
        + reserve["mib_per_chunk_token"] * max(chunk, reserve["least_chunk_tokens"])
        + reserve["mib_per_graph_sequence"] * sequences
        + reserve["mib_per_gpu"] * load.gpus
    )
    if total > reserve["large_gpu_mib"] * MIB:
        reserve_mib = max(reserve_mib, reserve["least_large_gpu_mib"])
    return _less(load, total, reserve_mib)


def _less(load: ServingWorkload, total: int, reserve_mib: float) -> float:
    """The share of a GPU without the reserve, and without what drafts tokens or reads images is given."""
    reserve = _rules()["reserve"]
    if load.speculative_tokens and load.draft_method != "ngram":
        reserve_mib += reserve["draft_model_mib" if load.draft_method == "draft-model" else "draft_mib"]
    return float(max(0.1, round((total - reserve_mib * MIB) / total, 3) * vision_share(load)))


def vision_share(load: ServingWorkload) -> float:
    """What a model that sees images leaves of the fraction, by layers x hidden^2 of its tower against ViT-L/14's.

    `adjust_mem_fraction_for_vlm` of server_args.py (later arg_groups/memory_hook.py), since sgl-project/sglang#6881:
    0.95, a tenth less for each further ViT-L/14, within 0.8 and 1.05 of it. Before, model_runner.py took a fixed share
    of any fraction, also of one that is asked for.
    """
    tower = next((stack for stack in load.spec.stacks[1:] if stack.image is not None), None)
    if tower is None:
        return 1.0
    rules = _rules()["vision"]
    if _older_than(load, rules["fixed_below"]):
        return float(rules["fixed_share"])
    hidden = (
        load.spec.stack.hidden_size if load.spec.model_type in rules["language_width_models"] else tower.hidden_size
    )
    size = tower.layers * hidden**2 / (rules["layers"] * rules["hidden"] ** 2)
    scaled = 1 - rules["per_size"] * (size - 1)
    return float(rules["share"] * min(max(scaled, rules["least"]), rules["most"]))


def _older_than(load: ServingWorkload, first: list[int]) -> bool:
    """Whether a version is stated that is older than the `first` one with a rule."""
    number = version_number(load.version) if load.version else None
    return number is not None and number < tuple(first)


def _state_pool(load: ServingWorkload, held: Holdings, room: Any) -> Any:
    """Recurrent states: of the slots asked for and one more, else a share of the room like that of the cache."""
    if not np.any(held.state_bytes):
        return 0
    per_sequence = held.state_bytes // load.sequences
    if load.state_slots is not None:
        return (load.state_slots + 1) * per_sequence
    tenths = round(10 * _rules()["states_to_cache"])
    share: Any = 0 if room is None else room * tenths // (10 + tenths)
    drafted = per_sequence * load.speculative_tokens * (load.batched_sequences or 0)
    return smaller(larger(share // per_sequence * per_sequence, 0), larger(room or 0, 0)) + drafted


@cache
def _rules() -> Mapping[str, Any]:
    rules: Mapping[str, Any] = json.loads(resource("servers", "sglang.json").read_text("utf-8"))
    return rules


def _size_class(total: int) -> Mapping[str, int]:
    classes: list[Mapping[str, int]] = _rules()["size_classes"]
    return next(item for item in classes if item["below_mib"] is None or total < item["below_mib"] * MIB)
