"""The largest batch, length or number of requests with which a phase still fits a GPU: exactly, the next does not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from planner.catalog import Catalog
from planner.engine.case import Case
from planner.engine.phases.methods import joined_tokens
from planner.engine.plan import PhaseName, VerdictKind
from planner.engine.switches import AXES, switches
from planner.errors import Issue, ScenarioError
from planner.scenario import FieldPath, Scenario, declaration_at
from planner.scenario.step import TrainingStep

Bound = Literal["memory", "rule", "range", "unknown"]
"""What stops the value from growing: the GPU, a rule that refuses the next, the field's range; or no capacity known."""

FITS: frozenset[VerdictKind] = frozenset({"fits"})
"""Even the high end of the band fits."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The answer for one field of one phase on one GPU."""

    phase: PhaseName
    field: str
    gpu: str
    largest: int | None
    """None where not even the smallest value fits."""
    bound: Bound
    next_value: int | None = None
    """The smallest larger value that would be asked for next; None where the range ends."""
    refused: Issue | None = None
    """The rule that refuses the next value, where `bound` is `rule`."""
    need_bytes: int | None = None
    """Of the process, with the largest value."""
    headroom_bytes: int | None = None

    @property
    def path(self) -> FieldPath:
        return ("phases", self.phase, self.field)


def limits(
    scenario: Scenario,
    phase: PhaseName,
    catalog: Catalog,
    gpu: str | None = None,
    accepted: frozenset[VerdictKind] = FITS,
) -> tuple[Limit, ...]:
    """Every size of a phase, each on its own while the others stay as they are."""
    return tuple(limit(scenario, phase, field, catalog, gpu, accepted) for field in AXES[phase])


def limit(
    scenario: Scenario,
    phase: PhaseName,
    field: str,
    catalog: Catalog,
    gpu: str | None = None,
    accepted: frozenset[VerdictKind] = FITS,
) -> Limit:
    """The largest value of one field with which the phase gets an accepted verdict.

    What a phase needs rises with its sizes, but for the switches of kernels (`switches.py`). Between two of them the
    answer is found by doubling steps and then by halving what is left; the last stretch that has one counts.
    """
    case = Case.of(scenario, phase, catalog, gpu)
    if case.verdict.capacity_bytes is None and case.verdict.verdict == "unknown":
        return Limit(phase, field, case.gpu, None, "unknown")
    step = _step(case, field)
    declared = declaration_at(case.path(field))
    assert declared is not None
    top = int(declared.maximum or 0) // step * step
    smallest = -(-_smallest(case, field) // step) * step
    tried: dict[int, Case | None] = {}

    def at(value: int) -> Case | None:
        """The case with this value; None where it is refused."""
        if value not in tried:
            changed = _with(case, field, value)
            tried[value] = None if changed is None or changed.errors else changed
        return tried[value]

    def fits(value: int) -> bool:
        changed = at(value)
        return changed is not None and changed.verdict.verdict in accepted

    found: int | None = None
    for low, high in _stretches(case, field, smallest, top, step):
        best = largest_fitting(fits, low, high, step)
        found = best if best is not None else found
    after = smallest if found is None else found + step
    after_or_end = after if after <= top else None
    if found is None:
        refusal = _refusal(case, field, smallest)
        return Limit(phase, field, case.gpu, None, "rule" if refusal else "memory", after_or_end, refusal)
    best_case = at(found)
    assert best_case is not None
    refusal = None if after_or_end is None else _refusal(case, field, after)
    bound: Bound = "range" if after_or_end is None else "rule" if refusal else "memory"
    peak, verdict = best_case.plan.peak, best_case.verdict
    return Limit(
        phase, field, case.gpu, found, bound, after_or_end, refusal, peak.process_bytes, verdict.headroom_bytes
    )


def largest_fitting(fits: Callable[[int], bool], low: int, high: int, step: int = 1) -> int | None:
    """The largest of `low`, `low + step`, … `high` that fits, where every value below a fitting one fits as well."""
    if low > high or not fits(low):
        return None
    good, stride, bad = low, step, high + step
    while good + stride <= high:
        if not fits(good + stride):
            bad = good + stride
            break
        good, stride = good + stride, 2 * stride
    while bad - good > step:
        middle = good + (bad - good) // step // 2 * step
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def _stretches(case: Case, field: str, smallest: int, top: int, step: int) -> Iterator[tuple[int, int]]:
    """The values between switches of kernels, rising."""
    axis = AXES[case.phase][field]
    last = (
        item.last if axis == "batch" else _whole_length(case, item.last)
        for item in switches(case.spec)
        if item.axis == axis
    )
    ends = [value // step * step for value in last]
    low = smallest
    for end in (*ends, top):
        if low <= min(end, top):
            yield low, min(end, top)
            low = min(end, top) + step


def _whole_length(case: Case, own: int) -> int:
    """The longest sequence of which one GPU holds at most `own` tokens, trained ones in front included."""
    if not isinstance(case.fields, TrainingStep):
        return own
    return (own - joined_tokens(case.fields)) * case.fields.parallelism.context


def _step(case: Case, field: str) -> int:
    """By how much a value may grow: sequences that ranks share stay divisible among them."""
    layout = getattr(case.fields, "parallelism", None)
    if field != "sequence_length" or layout is None or not hasattr(layout, "context"):
        return 1
    parts: int = layout.tensor if layout.sequence_parallel else 1
    if layout.context > 1:
        parts *= layout.context * (2 if layout.context_parallel_mode == "ring" else 1)
    return parts


def _smallest(case: Case, field: str) -> int:
    """Requests hold at least the prompt and the lengths that the plan states of them."""
    if field != "context_length":
        return 1
    spread = case.fields.context_distribution
    stated = (case.fields.prompt_tokens, *((spread.mean, spread.p95, spread.max) if spread else ()))
    return max((length for length in stated if length is not None), default=1)


def _with(case: Case, field: str, value: int) -> Case | None:
    try:
        return case.changed([(case.path(field), value)])
    except ScenarioError:
        return None


def _refusal(case: Case, field: str, value: int) -> Issue | None:
    """Why the rules do not allow a value."""
    changed = _with(case, field, value)
    return None if changed is None else next(iter(changed.errors), None)
