"""Layers of one kind that are treated differently: one in n checkpointed, or only the last ones trained.

The recording repeats one layer of a kind, so such layers become two kinds, one after the other. What is held when
forward ends is the same as if they alternated.
"""

from dataclasses import dataclass, replace

from planner.model.spec import LayerGroup, ModelSpec


@dataclass(frozen=True, slots=True)
class Split:
    """A model with more kinds of layer, and which of them belong to the second half of each pair."""

    spec: ModelSpec
    chosen: frozenset[str]
    origins: tuple[int, ...]
    """For each kind, which one it was before."""

    def descendants(self, kinds: frozenset[str]) -> frozenset[str]:
        """The kinds that were part of `kinds` before."""
        return frozenset(str(index) for index, origin in enumerate(self.origins) if str(origin) in kinds)


def every_nth(spec: ModelSpec, interval: int, *, from_first: bool) -> Split:
    """`chosen` are the layers that keep everything.

    torchtitan checkpoints the n-th, the 2n-th and so on (`distributed/activation_checkpoint.py`); transformers 5.24 the
    first, the one n after it and so on (`modeling_utils.py: activation_checkpointing_enable(every_n_layers=n)`).
    """
    before = interval - 1 if from_first else 0
    kept = (group.count - (group.count + before) // interval for group in spec.stack.groups)
    return _split(spec, tuple(kept), first=True)


def last_layers(spec: ModelSpec, trained: int) -> Split:
    """`chosen` are the last `trained` layers."""
    frozen: list[int] = []
    left = trained
    for group in reversed(spec.stack.groups):
        own = min(left, group.count)
        left -= own
        frozen.insert(0, group.count - own)
    return _split(spec, tuple(frozen), first=False)


def _split(spec: ModelSpec, leading: tuple[int, ...], *, first: bool) -> Split:
    groups: list[LayerGroup] = []
    chosen: set[str] = set()
    origins: list[int] = []
    for origin, (group, count) in enumerate(zip(spec.stack.groups, leading, strict=True)):
        for size, is_first in ((count, True), (group.count - count, False)):
            if size:
                if is_first == first:
                    chosen.add(str(len(groups)))
                groups.append(replace(group, count=size))
                origins.append(origin)
    stack = replace(spec.stack, groups=tuple(groups))
    return Split(replace(spec, stacks=(stack, *spec.stacks[1:])), frozenset(chosen), tuple(origins))
