"""A data loader at rest, in a fresh process: batches in shared memory, and what its workers hold of their own.

Called with workers, prefetch factor, samples per batch, elements per sample, and 1 for workers that collect garbage,
which writes to every object and so copies it; prints JSON.
"""

import gc
import json
import os
import sys
import time
from multiprocessing import active_children

import datasets  # noqa: F401 - a part of what workers copy
import torch
from memory import own
from torch.utils.data import DataLoader, Dataset


class Ones(Dataset[torch.Tensor]):
    """Samples of `elements` fp32 ones."""

    def __init__(self, elements: int, collects: bool) -> None:
        self.elements, self.collects = elements, collects

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.collects:
            gc.collect()
        return torch.full((self.elements,), 1.0)


def shared_bytes() -> int:
    """What lies in shared memory, of everybody."""
    mount = os.statvfs("/dev/shm")
    return (mount.f_blocks - mount.f_bfree) * mount.f_frsize


def settled(processes: list[int]) -> list[int]:
    """The workers' own memory once it stops changing."""
    before: list[int] = []
    for _ in range(40):
        now = [own(process) for process in processes]
        if before == now:
            return now
        before = now
        time.sleep(0.5)
    return before


def main(workers: int, prefetch: int, samples: int, elements: int, collects: int) -> None:
    torch.set_num_threads(1)
    before = shared_bytes()
    data = Ones(elements, bool(collects))
    loader = iter(DataLoader(data, batch_size=samples, num_workers=workers, prefetch_factor=prefetch))
    batch = next(loader)
    held = settled([child.pid for child in active_children()])
    json.dump({"shared_bytes": shared_bytes() - before, "worker_bytes": held, "batch": batch.nbytes}, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
