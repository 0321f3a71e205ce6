"""Weights as files, and how much of a disk can be filled."""

from functools import lru_cache

from planner.engine.quantization import weight_terms
from planner.engine.term import Factor, Term
from planner.model.spec import ModelSpec

STORAGE = ("storage",)
USABLE_SHARE = 0.8
"""Of a shared file system only about 80 % can be relied on (stas00/ml-engineering, storage): 100 TB needs 125 TB."""


@lru_cache(maxsize=256)
def weight_file_terms(spec: ModelSpec, name: str, title: str = "weights") -> tuple[Term, ...]:
    """The model's weights as files in format `name`."""
    size = sum(int(item.bytes) for item in weight_terms(spec, name, 1, STORAGE))
    factors = (Factor("bytes", size, f"all tensors in {name}"),)
    source = "safetensors: the tensors' bytes and a header of a few hundred kB"
    return (Term("weights", title, factors, STORAGE, source),)


def required_capacity(stored_bytes: int) -> int:
    """The size of file system to buy for `stored_bytes`, of which four fifths can be relied on."""
    return -(-stored_bytes * 5 // 4)
