"""What a serving engine is asked to do, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.engine.kv_cache import with_expanded_latents
from planner.engine.rounding import ceil_div
from planner.engine.servers.versions import vllm_band
from planner.engine.term import Number
from planner.model import resolve_model
from planner.model.spec import DenseFeedForward, MixtureOfExperts, ModelSpec
from planner.scenario.model_source import PresetModel
from planner.scenario.serving import Serving

SPEECH_FRAMES = 1500
"""Whisper's encoder always sees thirty seconds (modeling_whisper.py max_source_positions)."""


@dataclass(frozen=True, slots=True)
class AdapterPlaces:
    """LoRA adapters that stand on the GPU together."""

    count: int
    rank: int
    targets: str | tuple[str, ...] = "all-linear"
    dtype: str | None = None
    fully_sharded: bool = False


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
    expert_share: float = 1
    """Ranks over which experts are spread beyond tensor-parallel ones (`ServingParallelism.expert_share`)."""
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
    prefix_caching: bool | None = None
    speculative_tokens: int = 0
    draft_method: str = "automatic"
    draft_spec: ModelSpec | None = None
    draft_vocabulary: int = 32_000
    adapters: AdapterPlaces | None = None
    value_cache_type: str | None = None
    """Format of cached values where it is not that of keys."""
    host_weights_bytes: int = 0
    """Bytes of each GPU's weights that stay in host RAM."""
    state_slots: int | None = None
    image_height: int | None = None
    image_width: int | None = None
    guidance: bool | None = None
    attention: str = "sdpa"
    attention_slicing: bool = False
    decodes_singly: bool = False
    decodes_tiles: bool = False
    pipeline_offload: str = "none"
    packs_sparse: bool = False
    """The engine keeps the keys of a sparse indexer in 8 bits."""
    engine: str = "vllm"
    expands_latent: bool = False
    """The engine caches expanded keys and values instead of the latent."""

    @property
    def cached_spec(self) -> ModelSpec:
        """The model as the engine caches it."""
        return with_expanded_latents(self.spec) if self.expands_latent else self.spec

    @property
    def encoder_tokens(self) -> Number:
        """Length of what cross-attention looks at: frames of thirty seconds of speech, else the prompt."""
        crosses = any(group.cross_attention for stack in self.spec.stacks for group in stack.groups)
        if not crosses:
            return 0
        return SPEECH_FRAMES if self.spec.task == "speech-seq2seq" else self.prompt_tokens

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
        expert_share=spread.expert_share,
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
        prefix_caching=phase.prefix_caching,
        speculative_tokens=phase.speculative_tokens,
        draft_method=phase.drafter.method,
        draft_spec=_draft(phase),
        draft_vocabulary=phase.drafter.vocabulary,
        adapters=_adapters(phase),
        value_cache_type=phase.value_cache_dtype,
        host_weights_bytes=phase.cpu_offload_bytes or 0,
        state_slots=phase.state_cache_slots,
        image_height=phase.image_height,
        image_width=phase.image_width,
        guidance=phase.images.guidance,
        attention=phase.attention_implementation,
        attention_slicing=phase.images.attention_slicing,
        decodes_singly=phase.images.vae_slicing,
        decodes_tiles=phase.images.vae_tiling,
        pipeline_offload=phase.images.offload,
        engine=phase.engine,
        packs_sparse=phase.engine in ("vllm", "sglang"),
        expands_latent=phase.engine == "vllm" and not vllm_band(phase.engine_version).latent,
    )


def _adapters(phase: Serving) -> AdapterPlaces | None:
    served = phase.adapters
    if not served.count:
        return None
    return AdapterPlaces(served.count, served.rank, served.target_modules, served.dtype, served.fully_sharded)


def _draft(phase: Serving) -> ModelSpec | None:
    """The structure of the draft model, where tokens are drafted by one."""
    drafter = phase.drafter
    if not phase.speculative_tokens or drafter.method != "draft-model" or drafter.model is None:
        return None
    return resolve_model(PresetModel(preset=drafter.model))


LOADED = ("load", "encoding", "prefill", "sampling", "decode")
"""Instants at which weights are alive."""
RUNNING = ("encoding", "prefill", "sampling", "decode")
"""Instants at which requests are processed."""
MOMENTS: Mapping[str, tuple[str, ...]] = {
    "load": ("load",),
    "prefill": ("encoding", "prefill", "sampling"),
    "decode": ("decode",),
}
"""Instants by moment; `encoding` is the pass of a vision tower before the model's own."""


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
    """Scores per sampled token; 0 for models without a head over a vocabulary.

    Masked language models are served as embedders, without their heads (vllm/model_executor/models/bert.py,
    python/sglang/srt/models/bert.py): nothing is sampled from them.
    """
    head = spec.head
    return head.outputs if head is not None and head.kind == "vocabulary" and spec.task != "masked-lm" else 0
