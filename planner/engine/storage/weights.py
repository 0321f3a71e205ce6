"""Weights as files, and how much of a disk can be filled."""

from functools import lru_cache

from planner.engine.gguf import GgufMix
from planner.engine.quantization import weight_format, weight_terms
from planner.engine.term import Factor, Term
from planner.model.prediction import prediction_file
from planner.model.spec import ModelSpec

STORAGE = ("storage",)
FILE_SOURCE = "safetensors: the tensors' bytes and a header of a few hundred kB"
PREDICTION_SOURCE = (
    "README_WEIGHTS.md of DeepSeek-V3: 14B of multi-token prediction beside 671B; the files of its repository are "
    "688 586 727 753 bytes"
)
USABLE_SHARE = 0.8
"""Of a shared file system only about 80 % can be relied on (stas00/ml-engineering, storage): 100 TB needs 125 TB."""


@lru_cache(maxsize=256)
def weight_file_terms(
    spec: ModelSpec, name: str, title: str = "weights", *, published: bool = False
) -> tuple[Term, ...]:
    """The model's weights as files in format `name`.

    A `published` file also holds the layers for multi-token prediction with their copies of token table and head; one
    that transformers saves, or a GGUF file of an architecture that llama.cpp converts without them, does not.
    """
    size = sum(int(item.bytes) for item in weight_terms(spec, name, 1, STORAGE))
    factors = (Factor("bytes", size, f"all tensors in {name}"),)
    terms = [Term("weights", title, factors, STORAGE, FILE_SOURCE)]
    extra = prediction_file(spec) if published and not isinstance(weight_format(name), GgufMix) else None
    if extra is not None:
        more = sum(int(item.bytes) for item in weight_terms(extra, name, 1, STORAGE))
        layers = (Factor("bytes", more, f"all tensors in {name}, copies of token table and head among them"),)
        terms.append(Term("weights", f"{title}: prediction layers", layers, STORAGE, PREDICTION_SOURCE))
    return tuple(terms)


def required_capacity(stored_bytes: int) -> int:
    """The size of file system to buy for `stored_bytes`, of which four fifths can be relied on."""
    return -(-stored_bytes * 5 // 4)
