"""What a file of weights holds, told from its header."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple


class TensorEntry(NamedTuple):
    """One tensor of a file: shape as torch has it, and its exact bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    size_bytes: int

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class TensorSummary:
    """All tensors of a checkpoint."""

    entries: tuple[TensorEntry, ...]

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def elements(self) -> int:
        return sum(map(prod, [entry.shape for entry in self.entries]))

    def by_dtype(self) -> Mapping[str, tuple[int, int]]:
        """(elements, bytes) of each dtype, largest first."""
        sums: dict[str, tuple[int, int]] = {}
        for entry in self.entries:
            elements, size = sums.get(entry.dtype, (0, 0))
            sums[entry.dtype] = (elements + entry.elements, size + entry.size_bytes)
        return dict(sorted(sums.items(), key=lambda item: -item[1][1]))


def together(summaries: Iterable[TensorSummary]) -> TensorSummary:
    """The tensors of all parts of a split checkpoint."""
    return TensorSummary(tuple(entry for summary in summaries for entry in summary.entries))
