"""Disk that each phase needs for the whole job: checkpoints, exported weights, data sets. To first order.

Terms are alive in `storage`.
"""

from collections.abc import Sequence
from functools import lru_cache

from planner.engine.host import amounts
from planner.engine.optimizer import ParameterTensor, state_terms
from planner.engine.quantization import weight_terms
from planner.engine.term import Factor, Number, Term
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
    return (Term("overhead", title, factors, STORAGE, source),)


@lru_cache(maxsize=256)
def checkpoint_terms(
    tensors: Sequence[ParameterTensor],
    optimizer: str,
    implementation: str | None,
    *,
    master_weights: bool = False,
    kept: int | None = None,
    state_bytes: float | None = None,
) -> tuple[Term, ...]:
    """Checkpoints from which training can go on: weights, fp32 master weights where there are, optimizer states.

    Mixed precision with AdamW: 2 + 4 + 8 = 14 bytes per parameter. `state_bytes` is as in `optimizer.state_terms`.
    """
    parameters = sum(tensor.elements * tensor.multiplicity for tensor in tensors)
    weights = sum(tensor.elements * tensor.multiplicity * tensor.dtype_bytes for tensor in tensors)
    width = 4 if master_weights and state_bytes is None else state_bytes
    states = state_terms(optimizer, implementation, tensors, STORAGE, state_bytes=width)
    number = amounts()["kept_checkpoints"]
    copies = number.factor("checkpoints") if kept is None else Factor("checkpoints", kept)
    source = "torch.save of model and optimizer state_dict: tensors in their own width"
    parts: list[tuple[str, tuple[Factor, ...]]] = [
        ("weights in checkpoints", (copies, Factor("bytes", weights, f"{parameters} parameters"))),
        ("optimizer states in checkpoints",
         (copies, Factor("bytes", sum(int(item.bytes) for item in states), "as the optimizer keeps them"))),
    ]  # fmt: skip
    if master_weights:
        master = (copies, Factor("parameters", parameters), Factor("bytes", 4))
        parts.insert(1, ("master weights in checkpoints", master))
    return tuple(Term("overhead", name, factors, STORAGE, source) for name, factors in parts)


def data_terms(samples: Number, raw_bytes: Number, tokens: Number) -> tuple[Term, ...]:
    """A text data set on its way: raw files, their Arrow copy, tokenized samples, packed sequences."""
    known = amounts()
    count = Factor("samples", samples)
    arrow, packed = known["arrow_token_bytes"], known["packed_token_bytes"]
    return (
        Term("overhead", "raw data", (count, Factor("bytes per sample", raw_bytes)), STORAGE, "the files as they are"),
        Term("overhead", "Arrow copy of the raw data", (count, Factor("bytes per sample", raw_bytes)), STORAGE,
             "datasets load_dataset: every file is converted to Arrow in the cache"),
        Term("overhead", "tokenized data", (count, Factor("tokens", tokens), arrow.factor("bytes")), STORAGE,
             arrow.source),
        Term("overhead", "packed sequences", (count, Factor("tokens", tokens), packed.factor("bytes")), STORAGE,
             packed.source),
    )  # fmt: skip


def required_capacity(stored_bytes: int) -> int:
    """The size of file system to buy for `stored_bytes`, of which four fifths can be relied on."""
    return -(-stored_bytes * 5 // 4)
