"""The largest batch, length or number of requests with which a phase still fits a GPU: exactly, the next does not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Literal

from planner.catalog import Catalog
from planner.engine.case import Case
from planner.engine.phases.methods import joined_tokens
from planner.engine.plan import PhaseName, VerdictKind
from planner.engine.sharding import gathers_are_recorded
from planner.engine.sweep import VERDICTS, Axis, sweep, verdict_without_idle
from planner.engine.swept import kind_of
from planner.engine.switches import AXES, switches, tile_length
from planner.errors import Issue, ScenarioError
from planner.scenario import FieldPath, Scenario, declaration_at
from planner.scenario.parallelism import Parallelism
from planner.scenario.step import TrainingStep

Bound = Literal["memory", "rule", "range", "unknown"]
"""What stops the value from growing: the GPU, a rule that refuses the next, the field's range; or no capacity known."""

FITS: frozenset[VerdictKind] = frozenset({"fits"})
"""Even the high end of the band fits."""


AT_ONCE = 4096
"""Values that are looked at together where the need does not quite rise."""


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

    What a phase needs rises with its sizes, but for switches of kernels (`switches.py`) and for what FSDP's streams
    leave idle, which depends on the moment that is fullest. Between two switches the largest value that may fit is
    found by doubling steps and then by halving what is left, idle memory left out; from there down, the first one that
    really fits is the answer.
    """
    case = Case.of(scenario, phase, catalog, gpu)
    if case.verdict.capacity_bytes is None and case.verdict.verdict == "unknown":
        return Limit(phase, field, case.gpu, None, "unknown")
    sizes = _sizes(case, field)
    asked = Asked(case, field, accepted)
    found: int | None = None
    drops = _drops(case, field)
    for low, high in _stretches(case, field, sizes):
        low = _raised(asked.may_fit, low, high) if phase == "serving" else low
        best = _in_stretch(asked.may_fit, sizes, low, high, drops)
        found = best if best is not None else found
    if found is not None and asked.leaves_idle:
        found = _first_below(asked, found, sizes)
    after = sizes.start if found is None else found + sizes.step
    after_or_end = after if after in sizes else None
    refusal = None if after_or_end is None else asked.refusal(after)
    if found is None:
        return Limit(phase, field, case.gpu, None, "rule" if refusal else "memory", after_or_end, refusal)
    bound: Bound = "range" if after_or_end is None else "rule" if refusal else "memory"
    best_case = asked.at(found)
    assert best_case is not None
    need, headroom = best_case.plan.peak.process_bytes, best_case.verdict.headroom_bytes
    return Limit(phase, field, case.gpu, found, bound, after_or_end, refusal, need, headroom)


@dataclass
class Asked:
    """The verdict of one case with any value of one field."""

    case: Case
    field: str
    accepted: frozenset[VerdictKind]
    tried: dict[int, Case | None] = dataclass_field(default_factory=dict)

    def at(self, value: int) -> Case | None:
        """The case with this value; None where it is refused."""
        if value not in self.tried:
            changed = self._with(value)
            self.tried[value] = None if changed is None or changed.errors else changed
        return self.tried[value]

    def refusal(self, value: int) -> Issue | None:
        """Why the rules do not allow a value."""
        changed = self._with(value)
        return None if changed is None else next(iter(changed.errors), None)

    def _with(self, value: int) -> Case | None:
        try:
            return self.case.changed([(self.case.path(self.field), value)])
        except ScenarioError:
            return None

    @property
    def leaves_idle(self) -> bool:
        layout = getattr(self.case.fields, "parallelism", None)
        return isinstance(layout, Parallelism) and gathers_are_recorded(layout) and kind_of(self.case) is not None

    def may_fit(self, value: int) -> bool:
        """Whether it fits when nothing is idle: true up to some value between switches, and false above."""
        changed = self.at(value)
        if changed is None:
            return False
        verdict = verdict_without_idle(changed) if self.leaves_idle else changed.verdict.verdict
        return verdict in self.accepted


def _first_below(asked: Asked, most: int, sizes: range) -> int | None:
    """The largest value up to `most` that really fits."""
    path = asked.case.path(asked.field)
    values = range(sizes.start, most + 1, sizes.step)
    for stop in range(len(values), 0, -AT_ONCE):
        tried = tuple(values[max(0, stop - AT_ONCE) : stop])
        (block,) = sweep(asked.case.scenario, asked.case.phase, asked.case.catalog, [Axis(path, tried)])
        fitting = [VERDICTS[code] in asked.accepted for code in block.verdicts]
        if any(fitting):
            return tried[len(tried) - 1 - fitting[::-1].index(True)]
    return None


def _in_stretch(
    fits: Callable[[int], bool], sizes: range, low: int, high: int, drops: tuple[int, int] | None
) -> int | None:
    """The largest value that fits. The need also drops after `drops`: a first value, and further ones at a distance."""
    if drops is None:
        return largest_fitting(fits, low, high, sizes.step)
    first, distance = drops
    inside = range(first + max(0, -(-(low - first) // distance)) * distance, high, distance)

    def start(piece: int) -> int:
        return low if piece == 0 else _next(sizes, inside[piece - 1])

    # What is needed just after a drop rises from one to the next, so the last piece whose start fits holds the answer.
    piece = largest_fitting(lambda index: fits(start(index)), 0, len(inside))
    if piece is None:
        return None
    end = high if piece == len(inside) else _next(sizes, inside[piece]) - sizes.step
    return largest_fitting(fits, start(piece), end, sizes.step)


def _raised(fits: Callable[[int], bool], low: int, high: int) -> int:
    """Where to begin: engines put more prompts into one pass the shorter they are, so the shortest may not fit."""
    tried = low
    while tried <= high:
        if fits(tried):
            return tried
        tried *= 2
    return low


def _next(sizes: range, value: int) -> int:
    """The smallest of the sizes above a value."""
    return sizes.start + max(0, (value - sizes.start) // sizes.step + 1) * sizes.step


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


def _stretches(case: Case, field: str, sizes: range) -> Iterator[tuple[int, int]]:
    """The sizes between switches of kernels, rising."""
    axis = AXES[case.phase][field]
    last = [item.last for item in switches(case.spec) if item.axis == axis]
    ends = sorted(value if axis == "batch" else _whole_length(case, value) for value in last)
    low = sizes.start
    for end in (*ends, sizes.stop):
        after = _next(sizes, min(end, sizes[-1]))
        if low < after:
            yield low, after - sizes.step
            low = after


def _drops(case: Case, field: str) -> tuple[int, int] | None:
    """Lengths after which a tiled feed-forward has one more tile: the first, and how far apart they are."""
    if AXES[case.phase][field] == "batch" or not getattr(case.fields, "tiled_mlp", False):
        return None
    first, second = (_whole_length(case, tiles * tile_length(case.spec)) for tiles in (1, 2))
    return first, second - first


def _whole_length(case: Case, own: int) -> int:
    """The longest sequence of which one GPU holds at most `own` tokens, trained ones in front included."""
    if not isinstance(case.fields, TrainingStep):
        return own
    return (own - joined_tokens(case.fields)) * case.fields.parallelism.context


def _sizes(case: Case, field: str) -> range:
    """The values to try. Sequences that ranks share stay divisible among them."""
    layout = getattr(case.fields, "parallelism", None)
    step, declared = 1, declaration_at(case.path(field))
    assert declared is not None
    if field == "sequence_length" and isinstance(layout, Parallelism):
        step = layout.tensor if layout.sequence_parallel else 1
        if layout.context > 1:
            step *= layout.context * (2 if layout.context_parallel_mode == "ring" else 1)
    return range(-(-_smallest(case, field) // step) * step, int(declared.maximum or 0) + 1, step)


def _smallest(case: Case, field: str) -> int:
    """Requests hold at least the prompt and the lengths that the plan states of them."""
    if field != "context_length":
        return 1
    spread = case.fields.context_distribution
    stated = (case.fields.prompt_tokens, *((spread.mean, spread.p95, spread.max) if spread else ()))
    return max((length for length in stated if length is not None), default=1)
