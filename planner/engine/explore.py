"""One field of a phase over the values worth looking at, with the largest that fits each GPU among them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from planner.catalog import Catalog
from planner.engine.limits import Limit, limit
from planner.engine.plan import PhaseName, VerdictKind
from planner.engine.sweep import REFUSED, VERDICTS, Axis, sweep
from planner.engine.switches import AXES
from planner.model.spec import ModelSpec
from planner.scenario import FieldPath, Scenario

_LONGEST = 131072
_LADDER = (1, *(base << power for power in range(8) for base in (2, 3)))
_LENGTHS = tuple(128 << power for power in range(11))


@dataclass(frozen=True, slots=True)
class Point:
    """One value with what a GPU needs for it, judged by the plan's judge."""

    value: int
    process_bytes: int
    low_bytes: int
    high_bytes: int
    verdict: VerdictKind


@dataclass(frozen=True, slots=True)
class Exploration:
    phase: PhaseName
    path: FieldPath
    points: tuple[Point, ...]
    limits: tuple[Limit, ...]
    """Of each GPU, where the field is a size."""
    refused: tuple[int, ...]
    """Values that a rule does not allow."""


def own_value(scenario: Scenario, path: FieldPath) -> Any:
    """What the plan has there."""
    return reduce(lambda part, step: getattr(part, str(step)), path, scenario)


def values_of(scenario: Scenario, path: FieldPath, spec: ModelSpec | None) -> tuple[int, ...]:
    """Rising values of a field, finer where they are small; the plan's own is one of them."""
    phase: Any = path[1]
    own = own_value(scenario, path)
    name = str(path[-1])
    if AXES[phase].get(name) == "sequence":
        most = min((spec.max_positions if spec else None) or _LONGEST, _LONGEST)
        found = {length for length in _LENGTHS if length <= most}
    elif name == "zero_stage":
        found = {0, 1, 2, 3}
    elif name in ("tensor", "pipeline", "context", "expert"):
        found = {1, 2, 4, 8}
    else:
        found = set(_LADDER)
    return tuple(sorted(found | {own}))


def explore(
    scenario: Scenario,
    path: FieldPath,
    values: Sequence[int],
    catalog: Catalog,
    gpus: Sequence[str],
    cancelled: Callable[[], bool] = lambda: False,
) -> Exploration:
    """Every value, and for sizes the largest that fits each of `gpus`; ends early, with less, when called off."""
    phase: Any = path[1]
    found: list[Limit] = []
    if path[-1] in AXES[phase] and len(path) == 3:
        for gpu in gpus:
            if cancelled():
                break
            found.append(limit(scenario, phase, str(path[-1]), catalog, gpu))
    within = [one.largest for one in found if one.largest is not None and one.largest <= 2 * max(values)]
    axis = Axis(path, tuple(sorted({*values, *within})))
    points: list[Point] = []
    refused: list[int] = []
    for block in sweep(scenario, phase, catalog, [axis]):
        if cancelled():
            break
        own = block.points.get(path)
        told = [block.choices[path]] if own is None else own.tolist()
        rows = zip(told, block.process_bytes, block.low_bytes, block.high_bytes, block.verdicts, strict=True)
        for value, process, low, high, code in rows:
            if code == REFUSED:
                refused.append(value)
            else:
                points.append(Point(value, int(process), int(low), int(high), VERDICTS[code]))
    return Exploration(phase, path, tuple(points), tuple(found), tuple(refused))
