"""The smallest number of GPUs that a phase fits on, and the layouts worth choosing among, found by estimating them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.catalog import Catalog
from planner.engine.case import Case, Edit
from planner.engine.fleet.bounds import States
from planner.engine.fleet.layouts import MOST_GPUS, Layout, edits_of, layouts_of, sizes_of
from planner.engine.plan import PhaseName
from planner.engine.sweep import FITS, REFUSED, UNKNOWN, on_each_gpu
from planner.engine.verdict import usable_bytes
from planner.errors import Issue, PlannerError, ScenarioError
from planner.scenario import Scenario, issue_text
from planner.scenario.hardware import Hardware
from planner.scenario.issues import gpu_issues
from planner.scenario.step import TrainingStep
from planner.units import GIB

Proceed = Callable[[int, int], bool]
"""Hears how many numbers of GPUs are done, and of how many; says whether to go on."""
LOOKED_AT = 24
"""Layouts of one size whose speed is looked at: those that compute least twice, then the roomiest."""
EMULATED = ("no_bf16",)
"""What a GPU only imitates, slowly: allowed where it is at hand, but no reason to buy it."""


class CalledOffError(PlannerError):
    """Somebody called the search off."""


@dataclass(frozen=True, slots=True)
class Found:
    """A layout with which a phase fits a GPU, and what the estimate of the scenario with its edits says."""

    layout: Layout
    edits: tuple[Edit, ...]
    process_bytes: int
    headroom_bytes: int
    """Between the upper end of the band and what is usable."""

    @property
    def gpus(self) -> int:
        return self.layout.gpus


@dataclass(frozen=True, slots=True)
class Answer:
    """What one phase needs of one GPU type: the best layout on the fewest GPUs, or why there is none."""

    phase: PhaseName
    gpu: str
    best: Found | None = None
    front: tuple[Found, ...] = ()
    """Fewest GPUs first; each has more headroom, or computes less twice, than all that need no more GPUs."""
    why: str = ""
    refusal: Issue | None = None
    """The rule that refuses every layout, where one does: such as a number format that the GPU lacks."""


@dataclass
class _Board:
    """What has been found for one GPU so far."""

    case: Case
    capacity: int | None
    found: list[Found] = field(default_factory=list)
    refusal: Issue | None = None
    lacking: int | None = None
    """Bytes by which the nearest layout is too large."""


def search(
    scenario: Scenario,
    phase: PhaseName,
    catalog: Catalog,
    gpus: Sequence[str],
    *,
    most: int = MOST_GPUS,
    whole_front: bool = False,
    proceed: Proceed = lambda _done, _of: True,
) -> dict[str, Answer]:
    """The answers for each GPU type. Without `whole_front` a GPU is done with at the first number that it fits on.

    GPUs share what torch holds, so each layout is estimated once for all of them. Raises `PlannerError` for a phase
    that is not planned, and `CalledOffError`.
    """
    boards = {gpu: _board(Case.of(scenario, phase, catalog, gpu), most) for gpu in gpus}
    base = next(iter(boards.values())).case
    states = States.of(base)
    sizes = sizes_of(base.scenario.hardware.gpus_per_node, most)
    for done, size in enumerate(sizes):
        if not proceed(done, len(sizes)):
            raise CalledOffError("The search was called off.")
        asked = {gpu: board for gpu, board in boards.items() if _is_open(board, whole_front)}
        if asked:
            _try_size(base, size, asked, states)
    return {gpu: _answer(board, whole_front) for gpu, board in boards.items()}


def scenario_with(scenario: Scenario, gpu: str, edits: Iterable[Edit], gpus: int) -> Scenario:
    """The whole plan with one phase laid out anew, judged by that GPU, with as many servers as it takes."""
    hardware = scenario.hardware
    for path, value in edits:
        scenario = scenario.with_value(path, value)
    if gpu not in hardware.keys:
        scenario = scenario.with_value(("hardware", "gpus"), (*hardware.gpus, gpu))
    scenario = scenario.with_value(("hardware", "judge"), gpu)
    if scenario.hardware.available_gpus >= gpus:
        return scenario
    place = scenario.hardware.keys.index(gpu)
    if not isinstance(scenario.hardware.gpus[place], str):
        scenario = scenario.with_value(("hardware", "gpus", place, "count"), gpus)
    return scenario.with_value(("hardware", "nodes"), -(-gpus // scenario.hardware.gpus_per_node))


def _board(case: Case, most: int) -> _Board:
    """The case with as many GPUs as are asked for, and what one of them can hold."""
    roomy = replace(case, scenario=scenario_with(case.scenario, case.gpu, (), most))
    hardware: Hardware = roomy.scenario.hardware
    gpu = case.catalog.hardware.resolve(hardware.gpus[0], total_bytes=hardware.gpu_total_bytes)
    usable = gpu.capacities.usable_bytes
    capacity = None if usable is None else int(usable_bytes(usable, hardware.headroom_percent))
    told = gpu_issues(roomy.scenario, case.phase, case.catalog.hardware)
    refusal = next((issue for issue in told if issue.severity == "error" or issue.code in EMULATED), None)
    return _Board(roomy, capacity, refusal=refusal)


def _is_open(board: _Board, whole_front: bool) -> bool:
    """Whether there is anything left to find."""
    if board.capacity is None or (board.refusal is not None and not board.lacking and not board.found):
        return False
    return whole_front or not board.found


def _try_size(base: Case, size: int, boards: Mapping[str, _Board], states: States) -> None:
    """Every layout of one number of GPUs; less recomputation is only tried where more of it fits somewhere."""
    hopeless: set[Layout] = set()
    for layout in layouts_of(base, size):
        alike = replace(layout, checkpointing=None)
        if alike in hopeless:
            continue
        asked = _large_enough(boards, states.least(layout))
        if not asked or not _try(base, layout, asked):
            hopeless.add(alike)


def _large_enough(boards: Mapping[str, _Board], least: int) -> dict[str, _Board]:
    """The GPUs that hold the states of a layout; the others are told how much too large these are."""
    found: dict[str, _Board] = {}
    for gpu, board in boards.items():
        over = least - (board.capacity or 0)
        if over <= 0:
            found[gpu] = board
        else:
            board.lacking = min(over, board.lacking or over)
    return found


def _try(base: Case, layout: Layout, boards: Mapping[str, _Board]) -> bool:
    """Estimate one layout on every GPU; False where it fits none."""
    for edits in _ways(base, layout):
        try:
            case = base.changed(edits)
        except ScenarioError:
            continue
        fits, doubted = False, None
        for gpu, block in on_each_gpu(case, {gpu: board.case.scenario.hardware for gpu, board in boards.items()}):
            board, code = boards[gpu], int(block.verdicts[0])
            if code == FITS and doubted is None:
                doubted = case.says_more_than(base)
            if code == FITS and doubted:
                return False
            if code == FITS:
                fits = True
                room = board.capacity if block.capacity_bytes is None else block.capacity_bytes
                spare = max(0, (room or 0) - int(block.high_bytes[0]))
                board.found.append(Found(layout, edits, int(block.process_bytes[0]), spare))
            elif code not in (REFUSED, UNKNOWN) and board.capacity is not None:
                lacking = max(1, int(block.high_bytes[0]) - board.capacity)
                board.lacking = min(lacking, board.lacking or lacking)
            elif code == REFUSED and board.lacking is None:
                board.refusal = board.refusal or block.refusal
        if fits:
            return True
    return False


def _ways(base: Case, layout: Layout) -> Iterator[tuple[Edit, ...]]:
    """The planned micro-batch, and where that does not fit, single sequences with more accumulation."""
    planned = edits_of(base, layout)
    yield planned
    if isinstance(base.fields, TrainingStep):
        smallest = edits_of(base, layout, 1)
        if smallest != planned:
            yield smallest


def _answer(board: _Board, whole_front: bool) -> Answer:
    phase, gpu = board.case.phase, board.case.gpu
    fronts = _front(board.found)
    for fewest in sorted({found.gpus for found in board.found}):
        best = _fastest(board, [found for found in board.found if found.gpus == fewest])
        if best is not None:
            kept = fronts if whole_front else (best,)
            return Answer(phase, gpu, best, tuple(found for found in kept if found.gpus >= fewest))
    return Answer(phase, gpu, why=_why(board), refusal=board.refusal if board.lacking is None else None)


def _fastest(board: _Board, found: Sequence[Found]) -> Found | None:
    """Of layouts on as many GPUs: the fastest at best, roughly, that the estimate of the whole scenario says fits."""
    nearest = sorted(found, key=lambda one: (one.layout.recomputation, -one.headroom_bytes))[:LOOKED_AT]
    cases = [(board.case.changed(one.edits), one) for one in nearest]

    def pace(item: tuple[Case, Found]) -> tuple[float, float, int, int]:
        speed = item[0].speed
        at_best, in_turn = (0.0, 0.0) if speed is None else speed.order
        return float(f"{at_best:.2e}"), float(f"{in_turn:.2e}"), item[1].layout.recomputation, -item[1].headroom_bytes

    for case, one in sorted(cases, key=pace):
        verdict = case.verdict
        if verdict.verdict == "fits" and not case.says_more_than(board.case):
            room = one.headroom_bytes if verdict.headroom_bytes is None else verdict.headroom_bytes
            return replace(one, process_bytes=case.plan.peak.process_bytes, headroom_bytes=room)
    return None


def _front(found: Iterable[Found]) -> tuple[Found, ...]:
    """What no other layout beats in GPUs, headroom and recomputation at once."""
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: (one.gpus, one.layout.recomputation, -one.headroom_bytes)):
        if not any(
            other.layout.recomputation <= one.layout.recomputation and other.headroom_bytes >= one.headroom_bytes
            for other in kept
        ):
            kept.append(one)
    return tuple(kept)


def _why(board: _Board) -> str:
    """In words, why no number of GPUs was found."""
    if board.capacity is None:
        return "How much of its memory is usable is not known."
    if board.lacking is None and board.refusal is not None:
        return issue_text(board.refusal)
    if board.lacking is not None:
        return f"{board.lacking / GIB:,.1f} GiB too much on each GPU in the nearest layout."
    return "All GPUs together are too small for what the model holds."
