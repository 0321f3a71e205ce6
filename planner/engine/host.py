"""Host RAM that each phase needs on one node, to first order, every term with its factors and source.

A phase's RAM is that of its fuller moment: loading the checkpoint, or running. Terms are alive in `host_ram`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.engine.kv_cache import total_bytes
from planner.engine.rounding import ceil_div, larger, smaller
from planner.engine.term import Factor, Number, Term
from planner.resources import resource

HOST = ("host_ram",)
LOADING_SOURCE = (
    "transformers from_pretrained: every process builds the model on the CPU before it moves it to its GPU; "
    "with FSDP's cpu_ram_efficient_loading or DeepSpeed's zero.Init one copy per node is enough"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """A rule of thumb from `resources/host/host.json`."""

    value: float
    source: str

    def factor(self, name: str) -> Factor:
        return Factor(name, int(self.value) if float(self.value).is_integer() else self.value)


@cache
def amounts() -> Mapping[str, Amount]:
    record = json.loads(resource("host", "host.json").read_text("utf-8"))
    return {name: Amount(**entry) for name, entry in record["amounts"].items()}


@dataclass(frozen=True, slots=True)
class NodeShare:
    """How many processes run on a node, and over how many nodes the job spreads."""

    ranks: Number
    nodes: Number

    @classmethod
    def of(cls, ranks: Number, gpus_per_node: Number) -> "NodeShare":
        return cls(smaller(ranks, gpus_per_node), ceil_div(ranks, gpus_per_node))


def fuller(loading: Iterable[Term], running: Iterable[Term]) -> tuple[Term, ...]:
    """The terms of whichever of two moments needs more; with arrays, of the one that needs more somewhere."""
    first, second = tuple(loading), tuple(running)
    return first if _most(total_bytes(first)) > _most(total_bytes(second)) else second


def _most(size: Number) -> int:
    return int(size) if isinstance(size, int | float) else int(size.max())


def runtime_terms(share: NodeShare) -> tuple[Term, ...]:
    """One process per GPU of the node, with the framework's libraries."""
    runtime = amounts()["runtime"]
    factors = (Factor("processes", share.ranks), runtime.factor("bytes"))
    return (Term("overhead", "processes", factors, HOST, runtime.source),)


def loading_terms(parameters: Number, parameter_bytes: float, share: NodeShare, *, per_rank: bool) -> tuple[Term, ...]:
    """The checkpoint while it is loaded: one copy for each process of the node, or one for all."""
    factors = (
        Factor("copies", share.ranks if per_rank else 1), Factor("parameters", parameters),
        Factor("bytes", parameter_bytes),
    )  # fmt: skip
    return (Term("overhead", "loading the checkpoint", factors, HOST, LOADING_SOURCE),)


def loader_terms(samples: Number, sample_bytes: Number, share: NodeShare) -> tuple[Term, ...]:
    """Data-loader workers, the batches they have prepared, and the pinned copies that wait for the GPU.

    `samples` per batch; the pinned copy is one batch per prefetched batch of a process.
    """
    known = amounts()
    workers = (Factor("processes", share.ranks), known["loader_workers"].factor("workers"))
    batch = (known["prefetch"].factor("batches"), Factor("samples", samples), Factor("bytes per sample", sample_bytes))
    source = known["prefetch"].source
    return (
        Term("overhead", "data-loader workers", (*workers, known["worker"].factor("bytes")), HOST,
             known["worker"].source),
        Term("overhead", "prefetched batches", (*workers, *batch), HOST, source),
        Term("overhead", "pinned batches", (Factor("processes", share.ranks), *batch), HOST,
             "torch/utils/data/_utils/pin_memory.py: the pinning thread keeps copies of prefetched batches"),
    )  # fmt: skip


def token_sample_bytes(sequence_length: Number) -> Number:
    """Bytes of one sample of a causal batch: ids, mask and labels as int64."""
    known = amounts()
    size: Number = sequence_length * int(known["batch_tensors"].value) * int(known["token_bytes"].value)
    return size


def offload_terms(
    parameters: Number, share: NodeShare, *, optimizer: bool, weights: bool, initialised_sharded: bool = True
) -> tuple[Term, ...]:
    """States that ZeRO keeps in host RAM, per node.

    DeepSpeed counts 16 bytes per parameter for optimizer offload, 18 with the weights, over the nodes, times a buffer
    factor of 1.5; a model that was not created sharded needs at least 4 bytes per parameter and GPU of the node.
    """
    if not optimizer and not weights:
        return ()
    buffer = amounts()["deepspeed_buffer"]
    states: Any = ceil_div((18 if weights else 16) * parameters, share.nodes)
    if not initialised_sharded:
        unsharded: Any = 4 * share.ranks * parameters
        states = larger(states, unsharded)
    kinds = "weights and optimizer states" if weights else "optimizer states"
    factors = (
        Factor("bytes on this node", states, f"{18 if weights else 16} per parameter over the nodes"),
        buffer.factor("buffers"),
    )
    return (Term("overhead", f"offloaded {kinds}", factors, HOST, buffer.source),)


def activation_offload_terms(activation_bytes: Number, share: NodeShare) -> tuple[Term, ...]:
    """Saved activations that wait in pinned host memory, for each GPU of the node."""
    factors = (Factor("processes", share.ranks), Factor("bytes", activation_bytes))
    source = "torch.autograd.graph.save_on_cpu: what backward needs is copied to pinned host memory"
    return (Term("overhead", "offloaded activations", factors, HOST, source),)


def gathered_logits_terms(samples: Number, tokens: Number, vocabulary: int, share: NodeShare) -> tuple[Term, ...]:
    """Logits of one evaluation batch moved to the host; a loop that keeps all batches needs this for each of them."""
    factors = (
        Factor("processes", share.ranks), Factor("samples", samples), Factor("tokens", tokens),
        Factor("vocabulary", vocabulary), Factor("bytes", 4),
    )  # fmt: skip
    source = "transformers Trainer.evaluation_loop: gathered logits go to the CPU (huggingface/transformers#25313)"
    return (Term("overhead", "logits of one batch", factors, HOST, source),)
