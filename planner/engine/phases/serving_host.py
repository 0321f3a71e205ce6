"""Host RAM and disk around a serving engine: processes, files being read, weights and cache kept in host memory."""

from collections.abc import Sequence

from planner.engine import host, storage
from planner.engine.plan import Surroundings
from planner.engine.quantization import weight_terms
from planner.engine.servers import serving_workload
from planner.engine.servers.host_weights import layer_bytes
from planner.engine.servers.torch_engine import engine_weights
from planner.engine.term import Factor, Number, Term
from planner.model.counts import parameters
from planner.model.spec import ModelSpec
from planner.scenario.hardware import Hardware
from planner.scenario.serving import Serving

WEIGHTS_ON_HOST = "weights on the host"
"""The term of `llama_cpp.py` for what stays off the GPU."""
OFFLOAD_SOURCE = (
    "vllm/config: cpu_offload_gb of each GPU's weights lie in pinned host memory and are read from there (UVA)"
)
VLLM_SOURCE = "vllm/config/cache.py: kv_offloading_size is the buffer of all ranks of a replica together, in host RAM"
SGLANG_SOURCE = (
    "sglang/srt/mem_cache: hicache_size is each rank's host pool; without it, hicache_ratio times the device's pool"
)
TENSORRT_SOURCE = "tensorrt_llm KvCacheConfig: host_cache_size is each rank's secondary pool"
HOST_CACHES = {"vllm": VLLM_SOURCE, "sglang": SGLANG_SOURCE, "tensorrt-llm": TENSORRT_SOURCE}
MLOCK_SOURCE = "llama.cpp --mlock: the pages of the mapped file are locked in memory as they are loaded (llama_mlock)"
COPY_SOURCE = (
    "every process reads the whole checkpoint into memory of its own (sgl-project/sglang#34902: 57 to 58 GiB per rank "
    "for files of 61.7 GiB)"
)


def serving_surroundings(
    phase: Serving,
    spec: ModelSpec,
    hardware: Hardware,
    engine_terms: Sequence[Term] = (),
    *,
    pool_bytes: int | None = None,
) -> Surroundings:
    """What a node holds while it serves. `engine_terms` are the engine's own host buffers (`ServingPlan.host_terms`).

    `pool_bytes` is the KV pool on one GPU, which a host cache may be a multiple of.
    """
    share = host.NodeShare.of(phase.parallelism.ranks, hardware.gpus_per_node)
    size = sum(int(item.bytes) for item in weight_terms(spec, phase.weights, 1, host.HOST))
    ram = (
        *host.runtime_terms(share),
        *_files(phase, spec, size, share),
        *_swap(phase, share),
        *_offloaded(phase, spec, share),
        *_cache(phase, share, pool_bytes),
        *(placed for item in engine_terms if (placed := _placed(item, phase)) is not None),
    )
    return Surroundings(
        tuple(item for item in ram if item.bytes),
        storage.weight_file_terms(spec, phase.weights, "served weights", published=True),
    )


def _files(phase: Serving, spec: ModelSpec, size: int, share: host.NodeShare) -> tuple[Term, ...]:
    """The weight files: mapped or read whole; engines stream them to the GPU unless it is said otherwise."""
    asked = phase.loading
    copies: dict[str, Number] = {"every_process": share.ranks, "one_process": 1}
    count = parameters(spec)
    width = size / count
    checkpoint = host.Checkpoint(
        count, width, {"fp32": 4, "bf16": 2, "fp16": 2}.get(asked.file_dtype or "", width),
        pickled=asked.file_format == "pickle", shard_bytes=asked.shard_bytes,
    )  # fmt: skip
    found = host.loading_terms(checkpoint, copies=copies.get(asked.strategy, 0), readers=share.ranks)
    if phase.engine == "llama.cpp" and not phase.memory_map:
        return tuple(item for item in found if item.alive == host.HOST)
    locked = phase.engine == "llama.cpp" and phase.lock_memory
    return tuple(_locked(item) if locked and item.alive == host.CACHED else item for item in found)


def _locked(item: Term) -> Term:
    return Term(item.component, "locked weight file", item.factors, host.HOST, MLOCK_SOURCE)


def _placed(item: Term, phase: Serving) -> Term | None:
    """llama.cpp's weights on the host are pages of its mapped file: without them every token waits for the disk."""
    locked = phase.lock_memory and phase.memory_map
    return None if item.name == WEIGHTS_ON_HOST and locked else item


def _swap(phase: Serving, share: host.NodeShare) -> tuple[Term, ...]:
    known = host.amounts()["vllm_swap"]
    old = phase.engine == "vllm" and phase.engine_version is not None and phase.engine_version.endswith("V0")
    if phase.swap_space_bytes is None and not old:
        return ()
    size = known.factor("bytes") if phase.swap_space_bytes is None else Factor("bytes", phase.swap_space_bytes)
    return (Term("kv_cache", "swap space", (Factor("GPUs", share.ranks), size), host.HOST, known.source),)


def _offloaded(phase: Serving, spec: ModelSpec, share: host.NodeShare) -> tuple[Term, ...]:
    """No more than the layers hold: nothing else moves."""
    if phase.cpu_offload_bytes is None:
        return ()
    size = min(phase.cpu_offload_bytes, layer_bytes(engine_weights(serving_workload(phase, spec))))
    factors = (Factor("GPUs", share.ranks), Factor("bytes", size))
    return (Term("weights", "weights in host RAM", factors, host.HOST, OFFLOAD_SOURCE),)


def _cache(phase: Serving, share: host.NodeShare, pool_bytes: int | None) -> tuple[Term, ...]:
    """The KV cache in host RAM. vLLM's size is for the GPUs of a replica together, the others' for each."""
    if phase.engine not in HOST_CACHES:
        return ()
    source = HOST_CACHES[phase.engine]
    if phase.host_cache_bytes is not None:
        if phase.engine == "vllm":
            replica = phase.parallelism.tensor * phase.parallelism.pipeline
            where = Factor("replicas", share.ranks / replica, f"{share.ranks} GPUs here / {replica} of a replica")
        else:
            where = Factor("GPUs", share.ranks)
        factors = (where, Factor("bytes", phase.host_cache_bytes))
        return (Term("kv_cache", "host cache", factors, host.HOST, source),)
    if phase.host_cache_ratio is not None and pool_bytes:
        times = Factor("ratio", phase.host_cache_ratio)
        pools = (Factor("GPUs", share.ranks), times, Factor("bytes", pool_bytes, "the pool on one GPU"))
        return (Term("kv_cache", "host cache", pools, host.HOST, source),)
    return ()
