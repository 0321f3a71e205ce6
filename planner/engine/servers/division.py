"""How a GPU is divided: what is held there, what the engine gives itself, and what its cache pool holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np

from planner.engine.kv_cache import kv_bytes_per_token, total_bytes
from planner.engine.quantization import cache_element_bytes
from planner.engine.rounding import larger, round_up
from planner.engine.servers.drafts import drafted_caches
from planner.engine.servers.vllm_pages import Pages
from planner.engine.servers.workload import ServingWorkload
from planner.engine.term import Number, Term
from planner.model.spec import ModelSpec

GRAPHS = "CUDA graphs"
UNCOUNTED = "CUDA context before profiling"
"""Names of terms that engines count apart from other overhead, or not at all."""


@dataclass(frozen=True)
class Holdings:
    """What one GPU holds. Terms are alive at instants of `MOMENTS`."""

    weights: tuple[Term, ...]
    cache: tuple[Term, ...]
    """Keys, values and states of all sequences at full context: what the load needs, not what is reserved."""
    activation: tuple[Term, ...]
    """What a pass works with, by the instants at which it is alive: the fullest instant counts."""
    overhead: tuple[Term, ...]

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        return (*self.weights, *self.cache, *self.activation, *self.overhead)

    @cached_property
    def weights_bytes(self) -> Any:
        return total_bytes(self.weights)

    @cached_property
    def cache_bytes(self) -> Any:
        return total_bytes(self.cache)

    @cached_property
    def state_bytes(self) -> Any:
        return total_bytes(item for item in self.cache if "state" in item.name)

    @cached_property
    def activation_bytes(self) -> Any:
        instants = dict.fromkeys(instant for item in self.activation for instant in item.alive)
        sums = (total_bytes(item for item in self.activation if instant in item.alive) for instant in instants)
        return reduce(larger, sums, 0)

    @cached_property
    def graph_bytes(self) -> Any:
        return total_bytes(item for item in self.overhead if item.name == GRAPHS)

    @cached_property
    def non_torch_bytes(self) -> Any:
        return total_bytes(item for item in self.overhead if item.name not in (GRAPHS, UNCOUNTED))

    def budget(self, gpu_bytes: int | None, budget_bytes: Any, pool_bytes: Any) -> dict[str, Any]:
        """The engine's own division of the GPU, as a plan tells it; `pool_bytes` holds the recurrent states, too.

        `reserved_bytes` is what the process holds once it has started, whatever the load needs of it.
        """
        held = self.weights_bytes + self.activation_bytes + total_bytes(self.overhead)
        return {
            "total_bytes": gpu_bytes,
            "budget_bytes": budget_bytes,
            "reserved_bytes": None if pool_bytes is None else held + larger(pool_bytes, 0),
            "weights_bytes": self.weights_bytes,
            "activation_bytes": self.activation_bytes,
            "non_torch_bytes": self.non_torch_bytes,
            "cuda_graph_bytes": self.graph_bytes,
            "kv_cache_bytes": None if pool_bytes is None else larger(pool_bytes, 0),
            "state_bytes": self.state_bytes,
        }


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """An engine's answer for one GPU. Bytes and tokens may be arrays over the points of a sweep."""

    holdings: Holdings
    need_bytes: Any
    """What is compared with `capacity_bytes`: what the engine counts against its budget."""
    capacity_bytes: Any
    """None where the usable memory of the GPU is not known."""
    budget: Mapping[str, Any]
    tokens_available: Any = None
    slack_bytes: Any = 0
    """What may be held beyond the need without being used, such as freed blocks of sizes nobody asks for again."""
    unsure_bytes: tuple[int, int] = (0, 0)
    """How much less and how much more the allowances among the need may turn out to be."""
    blocks_available: Any = None
    """Blocks of the pool, for engines that count in them."""
    refused: Any = False
    """Whether the engine would not start; an array in a sweep."""
    refusal: str | None = None
    """Why, in the engine's own terms, for a single workload."""
    buffers: Mapping[str, int] = field(default_factory=dict)
    host: tuple[Term, ...] = ()


def rate(load: ServingWorkload) -> Any:
    """Cache bytes that one more token of one sequence takes on one GPU."""
    keys = cache_element_bytes(load.cache_type)
    values = None if load.value_cache_type is None else cache_element_bytes(load.value_cache_type)
    own = _rate(load.cached_spec, keys, values, load.tensor_parallel, load.pipeline, load.packs_sparse)
    if not load.speculative_tokens:
        return own
    return own + sum(rate(other) for other in drafted_caches(load))


@lru_cache(maxsize=512)
def _rate(
    spec: ModelSpec, keys: float, values: float | None, tensor_parallel: int, pipeline: int, packs_sparse: bool
) -> Number:
    return kv_bytes_per_token(
        spec, keys, value_bytes=values, tensor_parallel=tensor_parallel, pipeline=pipeline, packs_sparse=packs_sparse
    )


def pool_tokens(
    pool_bytes: Any, holdings: Holdings, load: ServingWorkload, block: int, pages: Pages | None = None
) -> Any:
    """Tokens that a cache pool holds: whole blocks where every layer grows alike, else as many requests as fit.

    A model with windows or states has no rate per token: its answer is requests that fit times their length.
    """
    if pool_bytes is None:
        return None
    if pages is not None:
        return pages.tokens(larger(pool_bytes, 0), load.context_tokens)
    room, needed, per_token = larger(pool_bytes, 0), holdings.cache_bytes, rate(load)
    if not per_token and not np.any(needed):
        return 0
    in_flight: Any = load.sequences * load.context_tokens
    by_requests = room * in_flight // larger(needed, 1)
    if not per_token:
        return by_requests
    by_blocks = room // (per_token * block) * block
    alike = needed == per_token * load.sequences * round_up(load.context_tokens, block)
    return (
        np.where(alike, by_blocks, by_requests)
        if isinstance(alike, np.ndarray)
        else by_blocks
        if alike
        else by_requests
    )


def starts(pool_bytes: Any, available: Any, holdings: Holdings, load: ServingWorkload) -> Any:
    """Whether something is left for the cache, and one request of full length fits in it."""
    if pool_bytes is None or available is None:
        return True
    fits: Any = (pool_bytes > 0) & (available >= load.context_tokens)
    return fits | (holdings.cache_bytes == 0)


def single(value: Number | None) -> bool:
    """Whether a value is one number, so that it can be told in a sentence."""
    return not isinstance(value, np.ndarray)
