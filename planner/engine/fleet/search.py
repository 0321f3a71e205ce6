"""The smallest number of GPUs that a phase fits on, and the layouts worth choosing among, found by estimating them."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.catalog import Catalog
from planner.engine.case import Case, Edit
from planner.engine.fleet.bounds import States
from planner.engine.fleet.layouts import MOST_GPUS, Layout, edits_of, layouts_of, micro_batches_of, sizes_of
from planner.engine.fleet.servers import gpus_per_server
from planner.engine.phases.role_groups import group_phases
from planner.engine.plan import PhaseName
from planner.engine.sweep import FITS, OOM, REFUSED, TIGHT, on_each_gpu
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
UNEVEN = frozenset({"pipeline_uneven"})
"""Doubts that are no reason against a layout: models of 61 layers have no equal stages."""
EMULATED = ("no_bf16",)
"""What a GPU only imitates, slowly: allowed where it is at hand, but no reason to buy it."""

_FORMATS = ("bf16", "fp8", "fp4")


class CalledOffError(PlannerError):
    """Somebody called the search off."""


@dataclass(frozen=True, slots=True)
class Found:
    """A layout with which a phase fits a GPU, and what the estimate of the scenario with its edits says."""

    layout: Layout
    edits: tuple[Edit, ...]
    process_bytes: int
    headroom_bytes: int
    """What stays free of what is usable."""
    beside: int = 0
    """GPUs of models that help to train this one, where they have their own."""

    @property
    def gpus(self) -> int:
        return self.layout.gpus + self.beside


@dataclass(frozen=True, slots=True)
class Answer:
    """What one phase needs of one GPU type: the best layout on the fewest GPUs, or why there is none."""

    phase: PhaseName
    gpu: str
    best: Found | None = None
    front: tuple[Found, ...] = ()
    """Fewest GPUs first; each has more headroom, or computes less twice, than all that need no more GPUs."""
    why: str = ""
    per_server: int = 8
    """GPUs of this type in one server, as the layouts take it."""
    refusal: Issue | None = None
    """The rule that refuses every layout, where one does: such as a number format that the GPU lacks."""

    @property
    def short(self) -> str:
        """`16`; `no bf16` for a number format that the GPU lacks, `refused` by another rule; `no` where none helps."""
        if self.best is not None:
            return str(self.best.gpus)
        if self.refusal is None:
            return "no"
        lacking = next((name for name in _FORMATS if self.refusal.code.startswith(f"no_{name}")), None)
        return f"no {lacking}" if lacking else "refused"


@dataclass
class _Board:
    """What has been found for one GPU so far."""

    case: Case
    capacity: int | None
    per_server: int
    sizes: frozenset[int]
    found: list[Found] = field(default_factory=list)
    refusal: Issue | None = None
    lacking: int | None = None
    """Bytes by which the nearest layout is too large."""

    def is_too_small(self, need_bytes: int) -> bool:
        """Whether a GPU cannot hold that much; keeps by how much the nearest is too large."""
        over = need_bytes - (self.capacity or 0)
        if over > 0:
            self.lacking = min(over, self.lacking or over)
        return over > 0

    def wants(self, size: int, whole_front: bool) -> bool:
        """Whether there is anything left to find on so many GPUs."""
        if self.capacity is None or (self.refusal is not None and not self.lacking and not self.found):
            return False
        return size in self.sizes and (whole_front or not self.found)


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
    own, catalogue = scenario.hardware, catalog.hardware
    boards = {
        gpu: _board(Case.of(scenario, phase, catalog, gpu), gpus_per_server(gpu, own, catalogue), most, gpu in own.keys)
        for gpu in gpus
    }
    base = max(boards.values(), key=lambda board: board.per_server).case
    states = States(base)
    sizes = sorted({size for board in boards.values() for size in board.sizes})
    for done, size in enumerate(sizes):
        if not proceed(done, len(sizes)):
            raise CalledOffError("The search was called off.")
        asked = {gpu: board for gpu, board in boards.items() if board.wants(size, whole_front)}
        if asked:
            _try_size(base, size, asked, states)
    return {gpu: _answer(board, whole_front) for gpu, board in boards.items()}


def scenario_with(
    scenario: Scenario, gpu: str, edits: Iterable[Edit], gpus: int, per_server: int | None = None
) -> Scenario:
    """The whole plan with one phase laid out anew, judged by that GPU, with as many servers as it takes.

    The servers hold `per_server` of it, where that is given. What a card of the plan reported is not that of another.
    """
    hardware = scenario.hardware
    for path, value in edits:
        scenario = scenario.with_value(path, value)
    if gpu not in hardware.keys:
        scenario = scenario.with_value(("hardware", "gpus"), (*hardware.gpus, gpu))
        scenario = scenario.with_value(("hardware", "gpu_total_bytes"), None)
    scenario = scenario.with_value(("hardware", "judge"), gpu)
    if per_server is not None and per_server != hardware.gpus_per_node:
        scenario = scenario.with_value(("hardware", "gpus_per_node"), per_server)
    if scenario.hardware.available_gpus >= gpus:
        return scenario
    place = scenario.hardware.keys.index(gpu)
    if not isinstance(scenario.hardware.gpus[place], str):
        scenario = scenario.with_value(("hardware", "gpus", place, "count"), gpus)
    return scenario.with_value(("hardware", "nodes"), -(-gpus // scenario.hardware.gpus_per_node))


def _board(case: Case, per_server: int, most: int, planned: bool) -> _Board:
    """The case with as many GPUs as are asked for, and what one of them can hold."""
    scenario = case.scenario if planned else case.scenario.with_value(("hardware", "gpu_total_bytes"), None)
    roomy = replace(case, scenario=scenario_with(scenario, case.gpu, (), most, per_server))
    hardware: Hardware = roomy.scenario.hardware
    gpu = case.catalog.hardware.resolve(hardware.gpus[0], total_bytes=hardware.gpu_total_bytes)
    usable = gpu.capacities.usable_bytes
    capacity = None if usable is None else int(usable_bytes(usable, hardware.headroom_percent))
    told = gpu_issues(roomy.scenario, case.phase, case.catalog.hardware)
    refusal = next((issue for issue in told if issue.severity == "error" or issue.code in EMULATED), None)
    return _Board(roomy, capacity, per_server, frozenset(sizes_of(per_server, most)), refusal=refusal)


def _try_size(base: Case, size: int, boards: Mapping[str, _Board], states: States) -> None:
    """Every layout of one number of GPUs; less recomputation is only tried where more of it is not too large."""
    hopeless: dict[Layout, set[str]] = {}
    for layout in layouts_of(base, size):
        large = hopeless.setdefault(replace(layout, checkpointing=None), set())
        asked = {gpu: board for gpu, board in boards.items() if gpu not in large and layout.tensor <= board.per_server}
        least = states.least(layout) if asked else 0
        large |= {gpu for gpu, board in asked.items() if board.is_too_small(least)}
        for gpu, one in _fitting(base, layout, _without(asked, large), large).items():
            boards[gpu].found.append(one)


def _without(boards: Mapping[str, _Board], others: Container[str]) -> dict[str, _Board]:
    return {gpu: board for gpu, board in boards.items() if gpu not in others}


def _fitting(base: Case, layout: Layout, boards: Mapping[str, _Board], large: set[str]) -> dict[str, Found]:
    """The GPUs that hold a layout, each with the largest micro-batch up to the planned one.

    Those that even single sequences are too large for are added to `large`.
    """
    if not boards:
        return {}
    if not isinstance(base.fields, TrainingStep):
        return _estimated(base, layout, edits_of(base, layout), boards, large)
    sizes = micro_batches_of(base.fields, layout)
    smallest: dict[str, Found] = {}
    found = _estimated(base, layout, edits_of(base, layout, sizes[0]), boards, large if len(sizes) == 1 else set())
    if len(sizes) > 1 and (waiting := _without(boards, found)):
        smallest = _estimated(base, layout, edits_of(base, layout, sizes[-1]), waiting, large)
        for size in sizes[1:-1]:
            waiting = {gpu: boards[gpu] for gpu in smallest if gpu not in found}
            found |= _estimated(base, layout, edits_of(base, layout, size), waiting, set()) if waiting else {}
    return smallest | found


def _estimated(
    base: Case, layout: Layout, edits: tuple[Edit, ...], boards: Mapping[str, _Board], large: set[str]
) -> dict[str, Found]:
    """The GPUs that hold a phase with these edits, which is estimated once for all of them."""
    try:
        case = base.changed(edits)
    except ScenarioError:
        return {}
    found: dict[str, Found] = {}
    for gpu, block in on_each_gpu(case, {gpu: board.case.scenario.hardware for gpu, board in boards.items()}):
        board, code = boards[gpu], int(block.verdicts[0])
        if code == FITS:
            if not found and case.says_more_than(base, UNEVEN):
                lapsed = tuple((base.path(*name.split(".")), None) for name in sorted(case.lapsed() - base.lapsed()))
                return _estimated(base, layout, (*edits, *lapsed), boards, large) if lapsed else {}
            process = int(block.process_bytes[0])
            found[gpu] = Found(layout, edits, process, (board.capacity or 0) - process, _beside(case))
        elif code in (TIGHT, OOM):
            large.add(gpu)
            board.is_too_small(max(int(block.high_bytes[0]), (board.capacity or 0) + 1))
        elif code == REFUSED and board.lacking is None:
            board.refusal = board.refusal or block.refusal
    return found


def _beside(case: Case) -> int:
    """GPUs of roles that are not on those of the policy."""
    if not isinstance(case.fields, TrainingStep):
        return 0
    return sum(group.phase.parallelism.ranks for group in group_phases(case.fields, case.spec))


def _answer(board: _Board, whole_front: bool) -> Answer:
    phase, gpu = board.case.phase, board.case.gpu
    for fewest in sorted({found.gpus for found in board.found}):
        best = _fastest(board, [found for found in board.found if found.gpus == fewest])
        if best is not None:
            beyond = _front(one for one in board.found if one.gpus >= fewest) if whole_front else (best,)
            if phase == "serving":  # what stays free is that of the engine's own budget
                beyond = tuple(filter(None, (_confirmed(board, one) for one in beyond)))
            return Answer(phase, gpu, best, beyond, per_server=board.per_server)
    refusal = board.refusal if board.lacking is None else None
    return Answer(phase, gpu, why=_why(board), per_server=board.per_server, refusal=refusal)


def _fastest(board: _Board, found: Sequence[Found]) -> Found | None:
    """Of layouts on as many GPUs: the fastest at best, roughly, that the estimate of the whole scenario says fits."""
    nearest = sorted(found, key=lambda one: (one.layout.recomputation, -one.headroom_bytes))[:LOOKED_AT]

    def pace(one: Found) -> tuple[float, float, int, int]:
        speed = board.case.changed(one.edits).speed
        at_best, in_turn = (0.0, 0.0) if speed is None else speed.order
        return float(f"{at_best:.2e}"), float(f"{in_turn:.2e}"), one.layout.recomputation, -one.headroom_bytes

    confirmed = (_confirmed(board, one) for one in sorted(nearest, key=pace))
    return next((one for one in confirmed if one is not None), None)


def _confirmed(board: _Board, one: Found) -> Found | None:
    """The same with the figures of its own estimate; None where that does not say that it fits."""
    case = board.case.changed(one.edits)
    verdict = case.verdict
    if verdict.verdict != "fits" or verdict.headroom_bytes is None or case.says_more_than(board.case, UNEVEN):
        return None
    return replace(one, process_bytes=case.plan.peak.process_bytes, headroom_bytes=verdict.headroom_bytes)


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
