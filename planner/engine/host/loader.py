"""A data loader's RAM: its workers, what they work on, and the batches that wait."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.engine.host.amounts import HOST, amounts
from planner.engine.rounding import larger
from planner.engine.term import Factor, Number, Term

QUEUE_SOURCE = (
    "torch/utils/data/dataloader.py: prefetch_factor x workers batches are under way in shared memory, and one more is "
    "in the loop's hands; measured on real loaders"
)
PINNED_SOURCE = (
    "torch/utils/data/_utils/pin_memory.py: finished batches are copied to pinned memory and wait there; "
    "ATen/core/CachingHostAllocator.h rounds each tensor up to a power of two"
)
COLLATE_SOURCE = (
    "torch/utils/data/_utils/fetch.py: a worker holds the samples of a batch until they are collated; glibc keeps "
    "freed blocks below 32 MiB; measured on real loaders"
)
COPIES_SOURCE = (
    "torch DataLoader documentation, pytorch/pytorch#13246: counting references copies the Python objects that workers "
    "touch into each of them"
)


@dataclass(frozen=True, slots=True)
class Samples:
    """What a loader hands over: `tensors` equal tensors for a batch of `count` samples."""

    count: Number
    sample_bytes: Number
    tensors: int = 1

    @property
    def batch_bytes(self) -> Number:
        size: Number = self.count * self.sample_bytes
        return size

    def pinned_bytes(self) -> Any:
        """Bytes of one batch in page-locked memory."""
        each = self.batch_bytes / self.tensors
        if isinstance(each, np.ndarray):
            return self.tensors * np.exp2(np.ceil(np.log2(each))).astype(np.int64)
        return self.tensors * (1 << max(int(-(-each // 1)) - 1, 0).bit_length())


def worker_terms(workers: Number, processes: Number, *, start: str, copied_bytes: int | None) -> tuple[Term, ...]:
    """Worker processes, and what reference counting copies into each."""
    own = amounts()["worker" if start == "fork" else "spawned_worker"]
    who = (Factor("processes", processes), Factor("workers", workers))
    terms = [Term("overhead", "data-loader workers", (*who, own.factor("bytes")), HOST, own.source)]
    if copied_bytes:
        copied = (*who, Factor("bytes", copied_bytes))
        terms.append(Term("data", "data set's objects in each worker", copied, HOST, COPIES_SOURCE))
    return tuple(item for item in terms if np.any(item.bytes))


def loader_terms(
    samples: Samples, processes: Number, *, workers: Number, prefetch: Number, pinned: bool
) -> tuple[Term, ...]:
    """Samples being collated and batches under way, for `processes` loops with `workers` each."""
    who = Factor("processes", processes)
    waiting: Number = workers * prefetch + 1
    how = "workers x prefetch, and the one in use"
    collated = (
        who, Factor("workers", larger(workers, 1)), Factor("samples", samples.count),
        Factor("bytes per sample", samples.sample_bytes),
    )  # fmt: skip
    terms = [Term("data", "samples being collated", collated, HOST, COLLATE_SOURCE)]
    if pinned:
        held = (who, Factor("batches", waiting, how), Factor("bytes", samples.pinned_bytes(), "powers of two"))
        passed = (who, Factor("bytes", samples.batch_bytes, "one batch"))
        terms.append(Term("data", "pinned batches", held, HOST, PINNED_SOURCE))
        terms.append(Term("data", "batch being pinned", passed, HOST, PINNED_SOURCE))
    else:
        batches = (
            who, Factor("batches", waiting, how), Factor("samples", samples.count),
            Factor("bytes per sample", samples.sample_bytes),
        )  # fmt: skip
        terms.append(Term("data", "prefetched batches", batches, HOST, QUEUE_SOURCE))
    return tuple(terms)


def token_sample_bytes(sequence_length: Number) -> Number:
    """Bytes of one sample of a causal batch: ids, mask and labels as int64."""
    known = amounts()
    size: Number = sequence_length * int(known["batch_tensors"].value) * int(known["token_bytes"].value)
    return size
