"""Many configurations at once: choices are looped over, batches and lengths are arrays, GPUs share what torch holds.

A block holds the configurations that differ in sizes alone. Blocks come one after the other and are of bounded size,
so that a million configurations need little memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog import Catalog
from planner.engine.assemble import Context
from planner.engine.case import Case
from planner.engine.plan import PhaseName, VerdictKind
from planner.engine.points import Integers
from planner.engine.served import can_be_swept, served
from planner.engine.swept import Kind, Sizes, kind_of, parts_of, sizes_on
from planner.engine.switches import AXES
from planner.engine.verdict import usable_bytes
from planner.errors import Issue, PlannerError
from planner.scenario import FieldPath, Scenario, declaration_at, validate
from planner.scenario.hardware import Hardware
from planner.scenario.issues import gpu_errors, refused_sizes

GPU: FieldPath = ("hardware", "judge")
"""The path of an axis of GPUs: each is the only one of its configurations."""
CHUNK = 1 << 16
"""Most configurations of a block."""
VERDICTS: tuple[Any, ...] = ("fits", "tight", "oom", "unknown", "refused")
"""By their codes; `refused`: a rule does not allow the configuration, and nothing is computed for it."""
FITS, TIGHT, OOM, UNKNOWN, REFUSED = range(5)


@dataclass(frozen=True, slots=True)
class Axis:
    """A field, by its path in the scenario, and the values it takes."""

    path: FieldPath
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Block:
    """Configurations with the same choices on the same GPU. Arrays have one element for each; bytes are per GPU."""

    choices: Mapping[FieldPath, Any]
    points: Mapping[FieldPath, Integers]
    """The sizes of each configuration."""
    process_bytes: Integers
    low_bytes: Integers
    high_bytes: Integers
    verdicts: NDArray[np.uint8]
    """Codes of `VERDICTS`."""
    capacity_bytes: int | None
    """Usable on the GPU, less what is kept free; None where it is not known or where serving engines divide it."""
    refusal: Issue | None = None
    """The rule that refuses all of them, where one does."""

    def __len__(self) -> int:
        return len(self.verdicts)


def count(axes: Sequence[Axis]) -> int:
    """How many configurations there are."""
    return prod(len(axis.values) for axis in axes)


def sweep(
    scenario: Scenario, phase: PhaseName, catalog: Catalog, axes: Sequence[Axis], *, chunk: int = CHUNK
) -> Iterator[Block]:
    """Every configuration of one phase, in blocks; the last axis of sizes runs fastest.

    Raises `PlannerError` for an axis that leads nowhere or a value that its field refuses.
    """
    base = Case.of(scenario, phase, catalog)
    for axis in axes:
        if axis.path != GPU:
            _check(base, axis)
    sizes = [axis for axis in axes if axis.path != GPU and _is_size(base, axis)]
    gpus = next((axis.values for axis in axes if axis.path == GPU), (base.gpu,))
    shows_gpu = any(axis.path == GPU for axis in axes)
    choices = [axis for axis in axes if axis.path != GPU and axis not in sizes]
    hardware = {gpu: Case.of(scenario, phase, catalog, gpu).scenario.hardware for gpu in gpus}
    for own in hardware.values():
        catalog.hardware.resolve(own.gpus[0])
    for values in product(*(axis.values for axis in choices)):
        chosen = dict(zip((axis.path for axis in choices), values, strict=True))
        for gpu, block in _blocks(base.changed(chosen.items()), hardware, sizes, chunk):
            yield replace(block, choices={**chosen, GPU: gpu} if shows_gpu else chosen)


def on_each_gpu(case: Case, hardware: Mapping[str, Hardware]) -> Iterator[tuple[str, Block]]:
    """One configuration on several GPUs that can compute it, each alone in its hardware."""
    return _blocks(case, hardware, (), 1, able=True)


def _check(base: Case, axis: Axis) -> None:
    """Every value must be one that its field takes."""
    found = declaration_at(axis.path)
    if found is None or not axis.values:
        raise PlannerError(f"There is nothing to sweep at {'.'.join(map(str, axis.path))}.")
    if found.kind == "int" and all(type(value) is int for value in axis.values):
        base.changed([(axis.path, value) for value in (min(axis.values), max(axis.values))])
        return
    for value in axis.values:
        base.changed([(axis.path, value)])


def _is_size(base: Case, axis: Axis) -> bool:
    return axis.path[:-1] == base.path() and axis.path[-1] in AXES[base.phase]


def _blocks(
    case: Case, hardware: Mapping[str, Hardware], sizes: Sequence[Axis], chunk: int, *, able: bool = False
) -> Iterator[tuple[str, Block]]:
    """The configurations of one choice, for each GPU; none of these refuses them where all are known to be `able`."""
    shape = tuple(len(axis.values) for axis in sizes)
    columns = [np.array(axis.values, dtype=np.int64) for axis in sizes]
    legal = [~np.array(_refused(case, axis), dtype=bool) for axis in sizes]
    first = [int(column[mask.argmax()]) for column, mask in zip(columns, legal, strict=True)]
    case = case.changed((axis.path, value) for axis, value in zip(sizes, first, strict=True))
    cases = {
        gpu: replace(case, scenario=case.scenario.model_copy(update={"hardware": own})) for gpu, own in hardware.items()
    }
    refusals = _refusals(case, cases, able=able)
    kind = kind_of(case)
    total = prod(shape)
    for start in range(0, total, chunk):
        places = np.unravel_index(np.arange(start, min(start + chunk, total)), shape) if shape else ()
        points = {axis.path: column[place] for axis, column, place in zip(sizes, columns, places, strict=True)}
        allowed = np.ones(min(chunk, total - start), dtype=bool)
        for mask, place in zip(legal, places, strict=True):
            allowed &= mask[place]
        yield from _judged(cases, refusals, kind, points, allowed)


def _refusals(case: Case, cases: Mapping[str, Case], *, able: bool) -> dict[str, Issue | None]:
    """The first error of the choice on each GPU: one that it has anywhere, or of what the GPU cannot do."""
    anywhere = validate(case.scenario, case.spec, None)
    refusal = next((issue for issue in anywhere if issue.severity == "error"), None)
    if able or refusal:
        return dict.fromkeys(cases, refusal)
    known = case.catalog.hardware
    return {gpu: next(iter(gpu_errors(own.scenario, own.phase, known)), None) for gpu, own in cases.items()}


def _refused(case: Case, axis: Axis) -> tuple[bool, ...]:
    return refused_sizes(case.scenario, case.phase, str(axis.path[-1]), axis.values, case.spec)


def _judged(
    cases: Mapping[str, Case],
    refusals: Mapping[str, Issue | None],
    kind: Kind | None,
    points: Mapping[FieldPath, Integers],
    allowed: NDArray[np.bool_],
) -> Iterator[tuple[str, Block]]:
    """One chunk of points on every GPU."""
    asked = {path: values[allowed] for path, values in points.items()} if not allowed.all() else points
    runs = [case for gpu, case in cases.items() if refusals[gpu] is None]
    parts = None
    if kind is not None and runs and allowed.any():
        batch, length = (_size(runs[0], asked, axis, int(allowed.sum())) for axis in ("batch", "sequence"))
        parts = tuple(parts_of(runs[0], kind, batch, length))
    for gpu, case in cases.items():
        context = _context(case)
        capacity = None if case.phase == "serving" else _usable(context)
        if refusals[gpu] is not None or not allowed.any():
            yield gpu, _nothing(points, len(allowed), capacity, refusals[gpu])
            continue
        if parts is not None and kind is not None:
            found = sizes_on(context.judge, parts, kind, context, int(allowed.sum()))
            codes = _codes(found, capacity)
        elif can_be_swept(case):
            requests, length = (_size(case, asked, axis, int(allowed.sum())) for axis in ("batch", "sequence"))
            found, counted, budget = served(case, context, requests, length)
            codes = _codes(counted, budget)
        else:
            found, codes = _one_by_one(case, asked, int(allowed.sum()))
        yield gpu, _spread(points, found, codes, allowed, capacity)


def verdict_without_idle(case: Case) -> VerdictKind:
    """The verdict of a step as if nothing that is reserved were idle, which rises with every size."""
    kind = kind_of(case)
    assert kind is not None
    batch, length = (_size(case, {}, axis, 1) for axis in ("batch", "sequence"))
    parts = [replace(part, idle=np.zeros(1, dtype=np.int64)) for part in parts_of(case, kind, batch, length)]
    context = _context(case)
    found = sizes_on(context.judge, parts, kind, context, 1)
    verdict: VerdictKind = VERDICTS[int(_codes(found, _usable(context))[0])]
    return verdict


def _size(case: Case, points: Mapping[FieldPath, Integers], axis: str, size: int) -> Integers:
    """The batches or lengths of all points, where they are swept or not."""
    field = next(name for name, kind in AXES[case.phase].items() if kind == axis)
    swept = points.get(case.path(field))
    return np.full(size, getattr(case.fields, field), dtype=np.int64) if swept is None else swept


def _one_by_one(case: Case, points: Mapping[FieldPath, Integers], size: int) -> tuple[Sizes, NDArray[np.uint8]]:
    """Single estimates, for what does not take arrays."""
    found = np.empty((3, size), dtype=np.int64)
    codes = np.empty(size, dtype=np.uint8)
    for index in range(size):
        one = case.changed((path, int(values[index])) for path, values in points.items())
        peak = one.plan.peak
        found[:, index] = peak.process_bytes, peak.low_bytes, peak.high_bytes
        codes[index] = VERDICTS.index(one.verdict.verdict)
    return Sizes(*found), codes


def _context(case: Case) -> Context:
    hardware: Hardware = case.scenario.hardware
    gpu = case.catalog.hardware.resolve(hardware.gpus[0], total_bytes=hardware.gpu_total_bytes)
    return Context((gpu,), gpu, case.catalog.hardware, hardware.headroom_percent)


def _usable(context: Context) -> int | None:
    usable = context.judge.capacities.usable_bytes
    return None if usable is None else int(usable_bytes(usable, context.headroom_percent))


def _codes(found: Sizes, capacity: int | Integers | None) -> NDArray[np.uint8]:
    if capacity is None:
        return np.full(len(found.process), UNKNOWN, dtype=np.uint8)
    return np.where(found.high <= capacity, FITS, np.where(found.low <= capacity, TIGHT, OOM)).astype(np.uint8)


def _spread(
    points: Mapping[FieldPath, Integers],
    found: Sizes,
    codes: NDArray[np.uint8],
    allowed: NDArray[np.bool_],
    capacity: int | None,
) -> Block:
    """The answers at their places among all points, of which some are refused."""
    if allowed.all():
        return Block({}, points, found.process, found.low, found.high, codes, capacity)
    verdicts = np.full(len(allowed), REFUSED, dtype=np.uint8)
    verdicts[allowed] = codes
    whole = np.zeros((3, len(allowed)), dtype=np.int64)
    whole[:, allowed] = found.process, found.low, found.high
    process, low, high = whole
    return Block({}, points, process, low, high, verdicts, capacity)


def _nothing(points: Mapping[FieldPath, Integers], size: int, capacity: int | None, refusal: Issue | None) -> Block:
    zeros = np.zeros(size, dtype=np.int64)
    return Block({}, points, zeros, zeros, zeros, np.full(size, REFUSED, dtype=np.uint8), capacity, refusal)
