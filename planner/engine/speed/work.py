"""Work for one resource of a GPU, and how long it takes at best: an amount over the peak rate of that resource.

This is the roofline model (Williams et al. 2009, "Roofline"): whatever overlaps, nothing is done before its busiest
resource is. Amounts and rates are products of named factors, as the terms of memory are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from planner.engine.term import Factor

Resource = Literal["compute", "memory", "interconnect", "network", "host link"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)
"""Arithmetic units, the GPU's memory, links to GPUs of the same server, links to other servers, links to its RAM."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one GPU does with one resource. `rate` is per second; None where the catalogue does not know it."""

    resource: Resource
    name: str
    factors: tuple[Factor, ...]
    rate: Factor | None
    source: str

    @property
    def unit(self) -> str:
        return "FLOP" if self.resource == "compute" else "bytes"

    @property
    def amount(self) -> float:
        """The product of the factors."""
        product = 1.0
        for factor in self.factors:
            product *= float(factor.value)
        return product

    @property
    def seconds(self) -> float | None:
        """At the peak rate; None where that is not known."""
        return None if self.rate is None else self.amount / float(self.rate.value)


@dataclass(frozen=True, slots=True)
class Pass:
    """Work of which all may overlap. What cannot overlap, such as an update after all gradients, is another pass."""

    name: str
    works: tuple[Work, ...]

    @property
    def busy(self) -> dict[Resource, float]:
        """Seconds of each resource."""
        found: dict[Resource, float] = {}
        for work in self.works:
            if work.seconds is not None:
                found[work.resource] = found.get(work.resource, 0.0) + work.seconds
        return found

    @property
    def seconds(self) -> float:
        """At best: no shorter than its busiest resource needs."""
        return max(self.busy.values(), default=0.0)

    @property
    def in_turn_seconds(self) -> float:
        """At peak rates where nothing overlaps."""
        return sum(self.busy.values())

    @property
    def bound(self) -> Resource | None:
        """The busiest resource."""
        busy = self.busy
        return max(busy, key=busy.__getitem__, default=None)

    @property
    def is_told(self) -> bool:
        """Whether its arithmetic is counted. Without it, what is at best says little of training or of prompts."""
        arithmetic = [work for work in self.works if work.resource == "compute"]
        return bool(arithmetic) and all(work.rate is not None for work in arithmetic)


def worth_counting(works: Iterable[Work]) -> tuple[Work, ...]:
    """Those that amount to something."""
    return tuple(work for work in works if work.amount)
