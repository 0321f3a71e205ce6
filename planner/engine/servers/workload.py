"""What a serving engine is asked to do, and what it answers for one GPU, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.engine.kv_cache import total_bytes
from planner.engine.rounding import ceil_div
from planner.engine.term import Number, Term
from planner.model.spec import DenseFeedForward, MixtureOfExperts, ModelSpec
from planner.scenario.serving import Serving


@dataclass(frozen=True, slots=True)
class ServingWorkload:
    """A serving phase as numbers. `sequences` are those of one replica; numeric fields may be arrays of a sweep."""

    spec: ModelSpec
    weights: str
    cache_type: str
    sequences: Number
    context_tokens: Number
    prompt_tokens: Number
    tensor_parallel: int = 1
    pipeline: int = 1
    expert_parallel: int = 1
    version: str | None = None
    utilization: float | None = None
    batched_tokens: int | None = None
    batched_sequences: int | None = None
    block_size: int | None = None
    cuda_graphs: bool = True
    chunked_prefill: bool | None = None
    cache_bytes: int | None = None
    cache_tokens: int | None = None
    gpu_layers: int | None = None
    micro_batch: int | None = None
    flash_attention: bool = True
    full_window: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel * self.pipeline


def serving_workload(phase: Serving, spec: ModelSpec) -> ServingWorkload:
    """The plain form of a validated serving phase. Requests are spread evenly over data-parallel replicas."""
    spread = phase.parallelism
    return ServingWorkload(
        spec=spec,
        weights=phase.weights,
        cache_type=phase.kv_cache_dtype,
        sequences=ceil_div(phase.concurrent_sequences, spread.data),
        context_tokens=phase.context_length,
        prompt_tokens=phase.prompt_tokens or phase.context_length,
        tensor_parallel=spread.tensor,
        pipeline=spread.pipeline,
        expert_parallel=spread.expert,
        version=phase.engine_version,
        utilization=phase.gpu_memory_utilization,
        batched_tokens=phase.max_num_batched_tokens,
        batched_sequences=phase.max_num_seqs,
        block_size=phase.block_size,
        cuda_graphs=phase.cuda_graphs,
        chunked_prefill=phase.chunked_prefill,
        cache_bytes=phase.kv_cache_memory_bytes,
        cache_tokens=phase.max_total_tokens,
        gpu_layers=phase.gpu_layers,
        micro_batch=phase.ubatch_size,
        flash_attention=phase.flash_attention is not False,
        full_window=phase.swa_full,
    )


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """How an engine divides one GPU. Terms are alive at instants of `MOMENTS`."""

    weights: tuple[Term, ...]
    cache: tuple[Term, ...]
    """Keys, values and states of all sequences at full context: what the load needs, not what is reserved."""
    activation: tuple[Term, ...]
    overhead: tuple[Term, ...]
    need_bytes: Number
    """What is compared with `capacity_bytes`: what the engine counts against its budget."""
    capacity_bytes: int | None
    budget: Mapping[str, int | None]
    """The engine's own division of the GPU; None where the usable memory is not known."""
    tokens_available: int | None = None
    refusal: str | None = None
    """Why the engine would not start, in its own terms."""
    buffers: Mapping[str, int] = field(default_factory=dict)
    host: tuple[Term, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        return (*self.weights, *self.cache, *self.activation, *self.overhead)


LOADED = ("load", "prefill", "sampling", "decode")
"""Instants at which weights are alive."""
RUNNING = ("prefill", "sampling", "decode")
"""Instants at which requests are processed."""
MOMENTS: Mapping[str, tuple[str, ...]] = {"load": ("load",), "prefill": ("prefill", "sampling"), "decode": ("decode",)}


def feed_forward_width(spec: ModelSpec) -> int:
    """The widest feed-forward that one token passes: a dense one, or its experts together."""
    widths = [0]
    for group in spec.stack.groups:
        feed_forward = group.feed_forward
        if isinstance(feed_forward, DenseFeedForward):
            widths.append(feed_forward.size)
        elif isinstance(feed_forward, MixtureOfExperts):
            shared = feed_forward.shared.size if feed_forward.shared else 0
            widths.append(feed_forward.size * feed_forward.experts_per_token + shared)
    return max(widths)


def vocabulary(spec: ModelSpec) -> int:
    """Scores per sampled token; 0 for models without a head over a vocabulary."""
    return spec.head.outputs if spec.head is not None and spec.head.kind == "vocabulary" else 0


def pool_tokens(pool_bytes: int, cache: tuple[Term, ...], per_token: Number, load: ServingWorkload, block: int) -> int:
    """Tokens that a cache pool holds: whole blocks where every layer grows alike, else as many requests as fit.

    A model with windows or states has no rate per token: its answer is requests that fit times their length.
    """
    needed = int(total_bytes(cache))
    sequences, tokens = int(load.sequences), int(load.context_tokens)
    rounded = ceil_div(tokens, block) * block
    if per_token and needed == per_token * rounded * sequences:
        return int(pool_bytes // (per_token * block) * block)
    return int(pool_bytes * sequences * tokens // needed) if needed else 0
