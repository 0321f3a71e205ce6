"""States and activations that wait in host RAM, or pass through it on their way to NVMe."""

from typing import Any

from planner.engine.host.amounts import HOST, amounts
from planner.engine.host.share import NodeShare
from planner.engine.rounding import ceil_div
from planner.engine.term import Component, Factor, Number, Term

STATES_SOURCE = (
    "DeepSpeed runtime/zero/stage3.py estimate_zero3_model_states_mem_needs: fp32 weights and gradients, two averages "
    "and, where weights are offloaded, 16-bit weights, over the nodes"
)
INITIAL_SOURCE = (
    "DeepSpeed runtime/zero/stage3.py: a model that was not created sharded (zero.Init) stands on every GPU's process "
    "in fp32 first"
)
FSDP_SOURCE = "torch FSDP, CPUOffload: sharded weights, their gradients and so the optimizer's states stay on the CPU"


def offload_terms(
    parameters: Number,
    share: NodeShare,
    *,
    optimizer: bool,
    weights: bool,
    initialised_sharded: bool = True,
    state_bytes: float = 8,
) -> tuple[Term, ...]:
    """States that ZeRO keeps in host RAM, per node.

    DeepSpeed counts 16 bytes per parameter for optimizer offload, 18 with the weights, over the nodes, times a buffer
    factor of 1.5; a model that was not created sharded needs at least 4 bytes per parameter and GPU of the node.
    `state_bytes` are the optimizer's own; Adam's are 8.
    """
    if not optimizer and not weights:
        return ()
    parts: list[tuple[Component, str, float]] = [
        ("optimizer_states", "offloaded optimizer states", state_bytes),
        ("weights", "offloaded fp32 weights", 4),
        ("gradients", "offloaded gradients", 4),
        *([("weights", "offloaded 16-bit weights", 2.0)] if weights else []),  # type: ignore[list-item]
    ]
    width = sum(size for _, _, size in parts)
    unsharded: Any = 4 * share.ranks * parameters
    if not initialised_sharded and _most(unsharded) > _most(width * parameters / share.nodes):
        factors = (Factor("processes", share.ranks), Factor("parameters", parameters), Factor("bytes", 4))
        return (
            Term("weights", "unsharded weights", factors, HOST, INITIAL_SOURCE),
            _buffers(unsharded, "half of what is offloaded"),
        )
    here = Factor("parameters", ceil_div(parameters, share.nodes), "over the nodes")
    terms = [
        Term(component, name, (here, Factor("bytes", size)), HOST, STATES_SOURCE) for component, name, size in parts
    ]
    return (*terms, _buffers(ceil_div(parameters, share.nodes) * width, "half of what is offloaded"))


def _buffers(states: Number, how: str) -> Term:
    buffer = amounts()["deepspeed_buffer"]
    factors = (Factor("bytes offloaded", states, how), Factor("buffers", buffer.value - 1))
    return Term("temporaries", "offload buffers", factors, HOST, buffer.source)


def _most(size: Any) -> float:
    return float(size if isinstance(size, int | float) else size.max())


def fsdp_offload_terms(parameters: Number, share: NodeShare, *, width: float, state_bytes: float) -> tuple[Term, ...]:
    """FSDP with CPU offload: what one node keeps of the sharded weights, gradients and optimizer states."""
    here = Factor("parameters", ceil_div(parameters, share.nodes), "over the nodes")
    parts: tuple[tuple[Component, str, float], ...] = (
        ("weights", "offloaded weights", width),
        ("gradients", "offloaded gradients", width),
        ("optimizer_states", "offloaded optimizer states", state_bytes),
    )
    return tuple(
        Term(component, name, (here, Factor("bytes", size)), HOST, FSDP_SOURCE)
        for component, name, size in parts
        if size
    )


def nvme_buffer_terms(share: NodeShare) -> tuple[Term, ...]:
    """Pinned buffers through which ZeRO-Infinity moves weights to and from NVMe."""
    count, size = amounts()["nvme_buffers"], amounts()["nvme_buffer_elements"]
    factors = (
        Factor("processes", share.ranks), count.factor("buffers"), size.factor("elements"), Factor("bytes", 2),
    )  # fmt: skip
    return (Term("temporaries", "NVMe buffers", factors, HOST, size.source),)


def activation_offload_terms(activation_bytes: Number, share: NodeShare) -> tuple[Term, ...]:
    """Saved activations that wait in pinned host memory, for each GPU of the node."""
    factors = (Factor("processes", share.ranks), Factor("bytes", activation_bytes))
    source = "torch.autograd.graph.save_on_cpu: what backward needs is copied to pinned host memory"
    return (Term("activations", "offloaded activations", factors, HOST, source),)
