"""Serving: which engine answers how many requests of what length."""

from typing import ClassVar

from planner.scenario.choices import (
    AttentionImplementation,
    ExpertsImplementation,
    KvDtype,
    ServingEngine,
    WeightFormat,
)
from planner.scenario.declaration import Declared, declare, declare_part
from planner.scenario.host_work import Loading
from planner.scenario.parallelism import ServingParallelism
from planner.scenario.serving_parts import Drafter, ImagePipeline, ServedAdapters

MAX_BYTES = 10**15
MAX_TOKENS = 10**9
MAX_SEQUENCES = 10**6


class ContextDistribution(Declared):
    """How long the requests in flight really are."""

    mean: int = declare(
        ..., "Mean", "Average length of a request with its answer.", unit="tokens", ge=1, le=MAX_TOKENS, step=256
    )
    p95: int | None = declare(
        None, "95th percentile", "95 of 100 requests are no longer.", unit="tokens", ge=1, le=MAX_TOKENS, step=256
    )
    max: int | None = declare(None, "Longest", "The longest request.", unit="tokens", ge=1, le=MAX_TOKENS, step=256)


class Serving(Declared):
    """The model answers requests. What an engine reserves by policy and what the load needs are two numbers."""

    form_order: ClassVar[tuple[str, ...]] = (
        *("engine", "weights", "kv_cache_dtype", "concurrent_sequences", "context_length"),
        *("gpu_memory_utilization", "max_num_batched_tokens", "max_num_seqs", "cuda_graphs", "gpu_layers"),
    )

    engine: ServingEngine = declare("vllm", "Engine", "The software that serves. Each divides a GPU in its own way.")
    engine_version: str | None = declare(
        None,
        "Engine version",
        "Such as 0.19.0 V1. What is profiled and reserved differs between versions.",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.+-]*$",
        max_length=60,
        advanced=True,
    )
    weights: WeightFormat = declare("bf16", "Weights", "Number format of the served weights.")
    kv_cache_dtype: KvDtype = declare("bf16", "KV cache type", "Number format of cached keys and values.")
    value_cache_dtype: KvDtype | None = declare(
        None,
        "Value cache type",
        "llama.cpp's -ctv, where values are kept in another format than keys. Automatic: as the keys.",
        advanced=True,
    )
    concurrent_sequences: int = declare(
        1,
        "Concurrent requests",
        "Requests in flight at the same time, all held in the KV cache.",
        unit="requests",
        ge=1,
        le=MAX_SEQUENCES,
    )
    context_length: int = declare(
        8192,
        "Context length",
        "Tokens of each request, prompt and answer together.",
        unit="tokens",
        ge=1,
        le=MAX_TOKENS,
        step=1024,
    )
    context_distribution: ContextDistribution | None = declare(
        None, "Length of requests", "Where requests are mostly shorter than the context length.", advanced=True
    )
    prompt_tokens: int | None = declare(
        None,
        "Prompt length",
        "Tokens of the prompt that are processed at once. Automatic: the whole context.",
        unit="tokens",
        ge=1,
        le=MAX_TOKENS,
        advanced=True,
    )
    gpu_memory_utilization: float | None = declare(
        None,
        "GPU share",
        "Share of the GPU that the engine takes (SGLang: mem_fraction_static). Automatic: the engine's own default.",
        ge=0.01,
        le=1.0,
        step=0.01,
    )
    max_num_batched_tokens: int | None = declare(
        None,
        "Tokens per step",
        "Most tokens in one forward pass; its activations are reserved. Automatic: the engine's own default.",
        unit="tokens",
        ge=1,
        le=MAX_TOKENS,
        step=1024,
    )
    max_num_seqs: int | None = declare(
        None,
        "Sequences per step",
        "Most requests in one forward pass; the sampler's memory is reserved for them. Automatic: the engine's own.",
        unit="requests",
        ge=1,
        le=MAX_SEQUENCES,
    )
    cuda_graphs: bool = declare(
        True, "CUDA graphs", "Decoding replays captured graphs, which hold memory of their own.", advanced=True
    )
    chunked_prefill: bool | None = declare(
        None,
        "Chunked prefill",
        "Long prompts are processed piece by piece. Automatic: the engine's own.",
        advanced=True,
    )
    prefix_caching: bool | None = declare(
        None,
        "Prefix caching",
        "Blocks of equal prompt beginnings are shared. Automatic: the engine's own.",
        advanced=True,
    )
    block_size: int | None = declare(
        None,
        "KV block",
        "Tokens per block of the KV cache. Automatic: the engine's own.",
        unit="tokens",
        ge=1,
        le=65_536,
        advanced=True,
    )
    speculative_tokens: int = declare(
        0, "Speculative tokens", "Tokens guessed ahead in each step.", unit="tokens", ge=0, le=1000, advanced=True
    )
    kv_cache_memory_bytes: int | None = declare(
        None,
        "KV cache size",
        "Memory set aside for the KV cache, instead of what the engine finds free.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )
    max_total_tokens: int | None = declare(
        None,
        "KV cache tokens",
        "Tokens that the KV cache holds, instead of what the engine finds room for.",
        unit="tokens",
        ge=1,
        le=10**12,
        advanced=True,
    )
    state_cache_slots: int | None = declare(
        None,
        "State slots",
        "Sequences whose recurrent state is held, for state-space and hybrid models.",
        unit="slots",
        ge=1,
        le=MAX_SEQUENCES,
        advanced=True,
    )
    gpu_layers: int | None = declare(
        None,
        "Layers on the GPU",
        "llama.cpp's -ngl: the last layers, then the output head. Automatic: all of them.",
        unit="layers",
        ge=0,
        le=100_000,
        advanced=True,
    )
    ubatch_size: int | None = declare(
        None,
        "Physical batch",
        "llama.cpp's -ub: tokens per graph, which its compute buffer grows with. Automatic: 512.",
        unit="tokens",
        ge=1,
        le=10**6,
        advanced=True,
    )
    flash_attention: bool | None = declare(
        None, "Flash attention", "llama.cpp's -fa. Automatic: on where it can be.", advanced=True
    )
    swa_full: bool = declare(
        False,
        "Full-size window cache",
        "llama.cpp's --swa-full: sliding-window layers cache the whole context.",
        advanced=True,
    )
    attention_implementation: AttentionImplementation = declare(
        "sdpa", "Attention kernel", "For Transformers: eager writes the whole attention matrix.", advanced=True
    )
    experts_implementation: ExpertsImplementation = declare(
        "grouped_mm", "Expert kernel", "For Transformers: how a mixture-of-experts layer multiplies.", advanced=True
    )
    image_height: int | None = declare(
        None, "Image height", "Height of the images to make.", unit="pixels", ge=1, le=100_000, advanced=True
    )
    image_width: int | None = declare(
        None, "Image width", "Width of the images to make.", unit="pixels", ge=1, le=100_000, advanced=True
    )
    adapters: ServedAdapters = declare_part(ServedAdapters, "Adapters", "LoRA adapters that are served together.")
    images: ImagePipeline = declare_part(ImagePipeline, "Image pipeline", "How images are made and decoded.")
    drafter: Drafter = declare_part(Drafter, "Speculative decoding", "What guesses tokens ahead.")
    swap_space_bytes: int | None = declare(
        None,
        "Swap space",
        "vLLM's --swap-space: pinned host memory per GPU for the cache of requests that wait. Automatic: 4 GiB in V0, "
        "none in V1.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )
    cpu_offload_bytes: int | None = declare(
        None,
        "Weights in host RAM",
        "--cpu-offload-gb: so much of each GPU's weights stays in pinned host memory. Automatic: none.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )
    host_cache_bytes: int | None = declare(
        None,
        "Host cache",
        "KV cache in host RAM: vLLM's --kv-offloading-size for all GPUs of a replica, SGLang's --hicache-size for each "
        "GPU, TensorRT-LLM's host_cache_size for each GPU. Automatic: none.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )
    host_cache_ratio: float | None = declare(
        None,
        "Host cache ratio",
        "SGLang's --hicache-ratio: the host cache is so many times the pool on the GPU. Automatic: no host cache.",
        ge=0.01,
        le=1000.0,
        step=0.5,
        advanced=True,
    )
    memory_map: bool = declare(
        True,
        "Map weight files",
        "llama.cpp maps its file; off (--no-mmap) copies what stays on the host into memory of its own.",
        advanced=True,
    )
    lock_memory: bool = declare(
        False,
        "Lock memory",
        "llama.cpp's --mlock: the mapped file may not leave host RAM.",
        advanced=True,
    )
    loading: Loading = declare_part(Loading, "Loading", "How weights come from files.")
    parallelism: ServingParallelism = declare_part(
        ServingParallelism, "Parallelism", "How one copy of the model is divided over GPUs, and how many copies."
    )
