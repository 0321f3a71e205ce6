"""Reading one checkpoint in each way, in a fresh process: anonymous memory that it takes while its tensors live.

Writes where it is started, and prints JSON.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from memory import growth
from safetensors.torch import load_file, save_file


def held(read: Callable[[], dict[str, torch.Tensor]]) -> int:
    size, tensors = growth(read)
    assert all(float(tensor[0, 0]) == 1 for tensor in tensors.values())
    return size


def main() -> None:
    weights = {f"layer {number}": torch.ones(4096, 4096) for number in range(6)}
    pickled, mapped = Path("model.bin"), Path("model.safetensors")
    torch.save(weights, pickled)
    save_file(weights, mapped)
    del weights
    json.dump(
        {
            "file_bytes": pickled.stat().st_size,
            "pickled_bytes": held(lambda: torch.load(pickled)),
            "pickled_mapped_bytes": held(lambda: torch.load(pickled, mmap=True)),
            "safetensors_bytes": held(lambda: load_file(mapped)),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
