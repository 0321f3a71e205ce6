"""vLLM's one pool for layers of different kinds: groups of equally many layers, whose pages are all the same size.

    page   = the state of one layer and sequence, or the keys and values of one block of tokens
    block  = the smallest multiple of 16 tokens whose keys and values fill a state's page
    pages  = pool / (layers per group x page)

Rules: vllm/v1/core/kv_cache_utils.py (groups), vllm/model_executor/models/config.py (block size of hybrids),
vllm/v1/core/single_type_kv_cache_manager.py; sixteen logs of hybrid models agree to the token.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from planner.engine.kv_cache import cached_mixers, state_elements
from planner.engine.quantization import cache_element_bytes
from planner.engine.rounding import ceil_div, round_up, smaller
from planner.engine.servers.drafts import drafted_caches
from planner.engine.servers.versions import VersionBand, vllm_rules
from planner.engine.servers.workload import RUNNING, ServingWorkload
from planner.engine.term import Factor, Number, Term
from planner.model.spec import Attention, Block, LatentAttention, ModelSpec, ParallelMixers

ALIGNMENT = 16
"""Tokens that a block of a hybrid model is rounded up to."""
PADDED_SHARE = 1.25
"""Kinds of layers that differ in number by less than this share one group size, the larger one."""
SOURCE = "vllm/v1/core/kv_cache_utils.py: equal pages for all groups of layers; hybrid logs agree to the token"


@dataclass(frozen=True, slots=True)
class Pages:
    """How the layers of one GPU share the pool."""

    layers: int
    """Per group: a page is held once for each of them."""
    page_bytes: int
    block_tokens: int
    full_groups: int
    windows: tuple[tuple[int, int], ...]
    """(window, groups)"""
    state_groups: int
    states: int
    """Pages per sequence and state group: running, kept for prefix caching, and one per drafted token."""
    step_tokens: Number

    @property
    def unit_bytes(self) -> int:
        """A page of every layer of a group, the unit that the pool is counted in."""
        return self.layers * self.page_bytes

    def growing(self, tokens: Number) -> Any:
        """Pages of one request's keys and values."""
        whole = ceil_div(tokens, self.block_tokens)
        held: Any = self.full_groups * whole
        for window, groups in self.windows:
            seen = smaller(window - 1 + self.step_tokens, tokens)
            held = held + groups * smaller(ceil_div(seen, self.block_tokens) + 1, whole)
        return held

    def per_request(self, tokens: Number) -> Any:
        return self.growing(tokens) + self.state_groups * self.states

    def terms(self, sequences: Number, tokens: Number) -> tuple[Term, ...]:
        """The cache of all sequences."""
        unit = (Factor("layers per group", self.layers), Factor("page bytes", self.page_bytes))
        pages = Factor("pages per request", self.growing(tokens), f"blocks of {self.block_tokens} tokens")
        terms = [Term("kv_cache", "KV cache in shared pages", (Factor("sequences", sequences), pages, *unit), RUNNING,
                      SOURCE)]  # fmt: skip
        if self.state_groups:
            held = Factor("pages per request", self.state_groups * self.states,
                          f"{self.state_groups} groups x {self.states}")  # fmt: skip
            terms.append(
                Term("kv_cache", "recurrent states in shared pages", (Factor("sequences", sequences), held, *unit),
                     RUNNING, SOURCE)
            )  # fmt: skip
        return tuple(terms)

    def tokens(self, pool_bytes: Any, tokens: Number) -> Any:
        """Tokens that the engine prints for a pool: requests of full length that fit, times their length."""
        per_request = self.per_request(tokens)
        return pool_bytes // self.unit_bytes * tokens // per_request


def shared_pages(load: ServingWorkload, band: VersionBand, block: int, step_tokens: Number) -> Pages | None:
    """The pages of a model with layers of several kinds; None where every layer caches alike, or the version did."""
    kinds = _kinds(load)
    has_states = any(kind == "state" for kind, _ in kinds)
    if band.generation == "V0" or len({kind for kind, _ in kinds}) < 2 or not (has_states or band.window_groups):
        return None
    if not alike_pages(load, band):
        return None
    rate = max((rate for kind, rate in kinds if kind != "state"), default=0)
    if not rate:
        return None
    state_bytes = max((size for kind, size in kinds if kind == "state"), default=0)
    block_tokens = max(block, round_up(ceil_div(state_bytes, rate), ALIGNMENT)) if has_states else block
    counts = list(kinds.values())
    layers = max(counts) if max(counts) < min(counts) * PADDED_SHARE else min(counts)
    groups = {key: ceil_div(count, layers) for key, count in kinds.items()}
    states = 1 + load.speculative_tokens + (1 if load.prefix_caching is not False else 0)
    return Pages(
        layers, block_tokens * rate, block_tokens,
        full_groups=sum(count for (kind, _), count in groups.items() if kind == "full"),
        windows=tuple((int(kind), count) for (kind, _), count in groups.items() if kind not in ("full", "state")),
        state_groups=sum(count for (kind, _), count in groups.items() if kind == "state"),
        states=states, step_tokens=step_tokens,
    )  # fmt: skip


def alike_pages(load: ServingWorkload, band: VersionBand) -> bool:
    """Whether this version can put layers of these cache widths into one pool.

    Before 0.21 layers of two widths (Gemma 4) were all charged in full (vllm-project/vllm#43308).
    """
    return band.unequal_pages or len({rate for kind, rate in _kinds(load) if kind != "state"}) < 2


def _kinds(load: ServingWorkload) -> Mapping[tuple[str, int], int]:
    """Layers on one rank by (`full`, `state` or the window, bytes per token or of the state), with those that draft."""
    width = cache_element_bytes(load.cache_type)
    found = _layer_kinds(load.spec, width, load.tensor_parallel, load.pipeline, load.speculative_tokens)
    if not load.speculative_tokens:
        return found
    both = dict(found)
    for drafted in drafted_caches(load):
        for key, count in _layer_kinds(drafted.spec, width, load.tensor_parallel, 1, 0).items():
            both[key] = both.get(key, 0) + count
    return both


@lru_cache(maxsize=512)
def _layer_kinds(
    spec: ModelSpec, width: float, tensor_parallel: int, pipeline: int, speculative_tokens: int
) -> Mapping[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for group, mixer in cached_mixers(spec):
        key: tuple[str, int]
        if isinstance(mixer, Block | ParallelMixers):
            continue
        if isinstance(mixer, Attention):
            if not mixer.cached_elements:
                continue
            heads = ceil_div(mixer.kv_heads, tensor_parallel)
            kind = "full" if mixer.window is None else str(mixer.window)
            key = (kind, int(heads * (mixer.head_dim + mixer.value_dim) * width))
        elif isinstance(mixer, LatentAttention):
            key = ("full", int(mixer.cached_elements * width))
        else:
            recurrent, convolution = state_elements(mixer, 1 - speculative_tokens)
            state_width = 4 if spec.model_type in vllm_rules().fp32_state_models else 2
            sizes = ceil_div(recurrent, tensor_parallel) * state_width
            key = ("state", int(sizes + ceil_div(convolution, tensor_parallel) * 2))
        found[key] = found.get(key, 0) + ceil_div(group.count, pipeline)
    return found
