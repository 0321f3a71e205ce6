"""Errors summed up per path: how many, how far off in the middle, at worst, and to which side."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from planner.evidence.result import Result


@dataclass(frozen=True, slots=True)
class NumberSummary:
    """A path whose values are numbers. Errors are relative; all but `bias` are absolute values."""

    path: str
    count: int
    missing: int
    """Expectations for which the plan holds no figure; they are not part of `count`."""
    median: float | None
    p90: float | None
    largest: float | None
    bias: float | None
    """Mean signed error: positive when estimates are too high."""

    def to_json(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in NumberSummary.__slots__}


@dataclass(frozen=True, slots=True)
class VerdictSummary:
    """A path whose values are verdicts. `tight` agrees with either; `unknown` with none."""

    path: str
    count: int
    missing: int
    agreement: float | None
    tight: float | None

    def to_json(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in VerdictSummary.__slots__}


PathSummary = NumberSummary | VerdictSummary


def summarize(results: Iterable[Result]) -> tuple[PathSummary, ...]:
    """One row per path, in order of first appearance; verdicts of all GPUs of a phase are also taken together."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.path, []).append(result)
        together = over_all_gpus(result.path)
        if together != result.path:
            groups.setdefault(together, []).append(result)
    return tuple(_summary(path, group) for path, group in groups.items())


def over_all_gpus(path: str) -> str:
    """`phases.training.verdicts.*.verdict` for the verdict on any GPU; other paths as they are."""
    head, verdicts, _ = path.partition(".verdicts.")
    return f"{head}.verdicts.*.verdict" if verdicts and path.endswith(".verdict") else path


def agrees(expected: object, estimated: object) -> bool:
    """Whether an estimated verdict agrees with what happened."""
    return estimated == "tight" or estimated == expected


def percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest ranks, as numpy's default."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * share
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _summary(path: str, results: Sequence[Result]) -> PathSummary:
    held = [result for result in results if result.estimated is not None]
    missing = len(results) - len(held)
    if any(isinstance(result.expected, str) for result in results):
        return VerdictSummary(
            path,
            len(held),
            missing,
            _share(agrees(result.expected, result.estimated) for result in held),
            _share(result.estimated == "tight" for result in held),
        )
    errors = [result.error for result in held if result.error is not None]
    if not errors:
        return NumberSummary(path, 0, missing, None, None, None, None)
    sizes = [abs(error) for error in errors]
    return NumberSummary(path, len(errors), missing, median(sizes), percentile(sizes, 0.9), max(sizes), fmean(errors))


def _share(answers: Iterable[bool]) -> float | None:
    listed = list(answers)
    return sum(listed) / len(listed) if listed else None
