"""Memory beside the tensors: allocator rounding, the process on the GPU, and communication buffers.

Reserved bytes are allocated bytes plus what the caching allocator keeps; process bytes are those plus contexts,
libraries and communication buffers, each from the catalogue's allowances with their band.
"""

import json
from dataclasses import dataclass
from functools import cache, lru_cache

from planner.engine.term import Factor, Number, Term
from planner.hardware import Gpu, Overhead, Overheads
from planner.resources import resource


@dataclass(frozen=True, slots=True)
class ProcessOverhead:
    """Terms of the component `overhead`, with the band in which their sum may lie."""

    terms: tuple[Term, ...]
    low_bytes: int
    high_bytes: int

    @property
    def bytes(self) -> int:
        return sum(int(item.bytes) for item in self.terms)


def allocator_term(
    allocated_bytes: Number,
    alive: tuple[str, ...],
    *,
    expandable_segments: bool = False,
    variable_shapes: bool = False,
) -> Term:
    """What torch's caching allocator keeps beyond the tensors: rounding, fragmentation, one pool per stream."""
    shapes = "variable shapes" if variable_shapes else "fixed shapes"
    share, source = _shares()["expandable segments" if expandable_segments else shapes]
    factors = (Factor("allocated bytes", allocated_bytes), Factor("share", share))
    return Term("overhead", "allocator rounding and fragmentation", factors, alive, source)


@lru_cache(maxsize=256)
def process_overhead(
    gpu: Gpu | None, overheads: Overheads, alive: tuple[str, ...], *, gpus: int = 1, training: bool = True
) -> ProcessOverhead:
    """Context and libraries of one process, and communication buffers among `gpus` GPUs: nothing torch allocates."""
    parts = [
        ("CUDA context and libraries", overheads.context_overhead(gpu)),
        ("communication buffers", overheads.nccl_overhead(gpu, gpus, training=training)),
    ]
    return _gathered(parts, alive)


@lru_cache(maxsize=256)
def workspace_term(gpu: Gpu | None, overheads: Overheads, alive: tuple[str, ...], *, training: bool = True) -> Term:
    """The cuBLAS workspaces, which torch takes from its own allocator: they are reserved memory.

    There is one per handle and stream, and handles belong to threads: backward runs on a thread of its own (torch
    `aten/src/ATen/cuda/CublasHandlePool.cpp`). Peaks measured on an RTX A6000 are two workspaces of 8.125 MiB above
    the traces of the same steps.
    """
    size = overheads.cublas_workspace(gpu)
    factors = (Factor("handles", 2 if training else 1), Factor("bytes", size.bytes))
    return Term("overhead", "cuBLAS workspace", factors, alive, size.source)


def llama_cpp_overhead(gpu: Gpu | None, overheads: Overheads, alive: tuple[str, ...]) -> ProcessOverhead:
    """Context and libraries of a llama.cpp process, which uses neither torch nor NCCL."""
    return _gathered([("CUDA context and libraries", overheads.llama_cpp_overhead(gpu))], alive)


def _gathered(parts: list[tuple[str, Overhead]], alive: tuple[str, ...]) -> ProcessOverhead:
    terms = tuple(
        Term("overhead", name, (Factor("bytes", part.bytes),), alive, part.source) for name, part in parts if part.bytes
    )
    return ProcessOverhead(terms, sum(part.low_bytes for _, part in parts), sum(part.high_bytes for _, part in parts))


@cache
def _shares() -> dict[str, tuple[float, str]]:
    record = json.loads(resource("bands", "allocator.json").read_text("utf-8"))
    return {name: (entry["share"], entry["source"]) for name, entry in record["shares"].items()}
