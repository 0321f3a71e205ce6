"""Ratios of our time to another tool's, both measured in one run on one machine."""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two medians in seconds and the largest ratio we allow ourselves; None where the ratio is only for information."""

    name: str
    ours: float
    theirs: float
    limit: float | None

    @property
    def value(self) -> float:
        return self.ours / self.theirs

    @property
    def kept(self) -> bool:
        return self.limit is None or self.value <= self.limit

    def line(self) -> str:
        limit = "" if self.limit is None else f"  limit {self.limit:.4g}  {'kept' if self.kept else 'EXCEEDED'}"
        return f"{self.name}: {self.value:.4g}  (ours {_time(self.ours)}, theirs {_time(self.theirs)}){limit}"


def compare(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    limit: float | None,
    rounds: int,
    calls: tuple[int, int] = (1, 1),
) -> Ratio:
    """Time both in turn, so that a busy moment of the machine hits both, and compare the medians per call.

    `calls` is how often each is called within one round.
    """
    ours()
    theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for taken, function, count in zip(times, (ours, theirs), calls, strict=True):
            gc.collect()
            start = time.perf_counter()
            for _ in range(count):
                function()
            taken.append((time.perf_counter() - start) / count)
    return Ratio(name, statistics.median(times[0]), statistics.median(times[1]), limit)


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
