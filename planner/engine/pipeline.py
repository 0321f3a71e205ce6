"""Pipeline stages: which layers a rank holds, and how many micro-batches it has in flight.

Source: Megatron-LM `megatron/core/pipeline_parallel/schedules.py` (`get_pp_rank_microbatches`, 1F1B and the interleaved
schedule); Narayanan et al. (arXiv:2104.04473), section 2.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from planner.model.spec import LayerGroup, ModelSpec
from planner.model.weights import Weight, weights

Ends = Literal["both", "first", "last", "none"]
"""Which ends of the model a part of it has: the embeddings in front, the head and the loss behind."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One rank along the pipeline; `chunks` separate runs of layers each."""

    index: int
    stages: int
    chunks: int

    @property
    def is_first(self) -> bool:
        return self.index == 0

    @property
    def is_last(self) -> bool:
        return self.index == self.stages - 1

    @property
    def ends(self) -> Ends:
        return ends_of(first=self.is_first, last=self.is_last)

    def micro_batches_in_flight(self, micro_batches: int) -> tuple[int, ...]:
        """For each chunk, how many micro-batches wait for their backward pass when the first backward starts.

        1F1B: one for each stage that follows, and its own. Interleaved: 2 (p - r - 1) + (v - 1) p chunks warm up and
        one more runs; p micro-batches go through a chunk before the next chunk's turn.
        """
        following = self.stages - self.index - 1
        if self.chunks == 1:
            return (min(micro_batches, following + 1),)
        warm_up = 2 * following + (self.chunks - 1) * self.stages
        counts = [0] * self.chunks
        for turn in range(min(micro_batches * self.chunks, warm_up + 1)):
            counts[turn % (self.stages * self.chunks) // self.stages] += 1
        return tuple(counts)


def may_be_fullest(spec: ModelSpec, stages: int, chunks: int) -> tuple[int, ...]:
    """The stages of which one is the fullest.

    Under 1F1B later stages have fewer micro-batches in flight, so that of those with the same layers between the ends
    none is fuller than the first.
    """
    if chunks > 1:
        return tuple(range(stages))
    orders = [_order(stack.groups) for stack in spec.stacks]
    seen: set[tuple[tuple[tuple[int, int], ...], ...]] = set()
    found: list[int] = []
    for index in range(stages):
        stage = Stage(index, stages, 1)
        layers = tuple(tuple(sorted(_dealt(order, stage, 0).items())) for order in orders)
        if stage.ends != "none" or layers not in seen:
            found.append(index)
        if stage.ends == "none":
            seen.add(layers)
    return tuple(found)


def ends_of(*, first: bool, last: bool) -> Ends:
    """The ends of a part that holds the model's first layer, its last layer, or neither."""
    if first:
        return "both" if last else "first"
    return "last" if last else "none"


def layers_of(spec: ModelSpec, stage: Stage, chunk: int) -> ModelSpec:
    """The model with the layers of one chunk alone. Layers are dealt evenly, in order; the first parts get the rest."""
    return _with_layers(spec, [_dealt(_order(stack.groups), stage, chunk) for stack in spec.stacks])


def stage_layers(spec: ModelSpec, stage: Stage) -> ModelSpec:
    """The model with all layers of a stage."""
    chosen: list[dict[int, int]] = []
    for stack in spec.stacks:
        counts: dict[int, int] = {}
        for chunk in range(stage.chunks):
            for group, count in _dealt(_order(stack.groups), stage, chunk).items():
                counts[group] = counts.get(group, 0) + count
        chosen.append(counts)
    return _with_layers(spec, chosen)


def layer_count(spec: ModelSpec) -> int:
    """Layers of all stacks."""
    return sum(group.count for stack in spec.stacks for group in stack.groups)


def end_weights(spec: ModelSpec, ends: Ends) -> tuple[tuple[Weight, int], ...]:
    """The tensors outside the layers at those ends; for a tied head the last stage holds a copy of the token table."""
    outside = [(weight, copies) for weight, copies in weights(spec) if weight.group is None]
    front = [entry for entry in outside if entry[0].block == "embedding"]
    behind = [entry for entry in outside if entry[0].block != "embedding"]
    if ends == "both":
        return tuple(outside)
    if ends == "first":
        return tuple(front)
    if ends == "none":
        return ()
    tied = spec.head is not None and spec.head.tied
    tables = [(weight, copies) for weight, copies in front if weight.role == "embed_tokens"] if tied else []
    return (*tables, *behind)


def _order(groups: tuple[LayerGroup, ...]) -> list[int]:
    """The group of each layer, in the order in which they run."""
    if any(group.indices for group in groups):
        placed = {index: number for number, group in enumerate(groups) for index in group.indices}
        return [placed[index] for index in sorted(placed)]
    return [number for number, group in enumerate(groups) for _ in range(group.count)]


def _dealt(order: list[int], stage: Stage, chunk: int) -> dict[int, int]:
    """Layers of each group in one chunk; chunk c of stage r is part c p + r of the model."""
    parts, part = stage.stages * stage.chunks, chunk * stage.stages + stage.index
    size, rest = divmod(len(order), parts)
    start = part * size + min(part, rest)
    counts: dict[int, int] = {}
    for group in order[start : start + size + (part < rest)]:
        counts[group] = counts.get(group, 0) + 1
    return counts


def _with_layers(spec: ModelSpec, chosen: list[Mapping[int, int]] | list[dict[int, int]]) -> ModelSpec:
    stacks = tuple(
        replace(
            stack,
            groups=tuple(
                replace(group, count=counts[number], indices=())
                for number, group in enumerate(stack.groups)
                if counts.get(number)
            ),
        )
        for stack, counts in zip(spec.stacks, chosen, strict=True)
    )
    return replace(spec, stacks=stacks)
