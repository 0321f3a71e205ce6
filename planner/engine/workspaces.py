"""Workspaces that training software takes from torch's allocator and keeps, by the GPU it runs on."""

from functools import lru_cache

from planner.engine.moments import ALL
from planner.engine.term import Factor, Term
from planner.hardware import Overheads
from planner.hardware.gpus import Gpu
from planner.model.spec import MixtureOfExperts, ModelSpec

STREAMS = 4
"""Streams over which Transformer Engine spreads a grouped product, each with a workspace (`common/util/
multi_stream.cpp: nvte_get_num_compute_streams`)."""


def workspace_terms(profile: str, spec: ModelSpec, gpu: Gpu | None, overheads: Overheads) -> tuple[Term, ...]:
    """Megatron Core's layers are Transformer Engine's: one workspace, and one per stream where experts are grouped."""
    if profile != "megatron-core":
        return ()
    has_experts = any(
        isinstance(group.feed_forward, MixtureOfExperts) for stack in spec.stacks for group in stack.groups
    )
    return _terms(gpu, overheads, has_experts)


@lru_cache(maxsize=256)
def _terms(gpu: Gpu | None, overheads: Overheads, has_experts: bool) -> tuple[Term, ...]:
    size = overheads.te_workspace(gpu)
    each = Factor("bytes", size.bytes)
    one = Term("temporaries", "Transformer Engine's cuBLAS workspace", (each,), ALL, size.source)
    if not has_experts:
        return (one,)
    grouped = (Factor("streams", STREAMS), each)
    return (one, Term("temporaries", "workspaces of grouped products", grouped, ALL, size.source))


def workspace_bytes(profile: str, spec: ModelSpec, gpu: Gpu | None, overheads: Overheads) -> int:
    """All of them together."""
    return sum(int(item.bytes) for item in workspace_terms(profile, spec, gpu, overheads))
