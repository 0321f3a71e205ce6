"""Every phase on every GPU type, and what the programme as a whole would need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.catalog import Catalog
from planner.engine.fleet.layouts import MOST_GPUS
from planner.engine.fleet.search import Answer, Proceed, search
from planner.engine.plan import PHASES, PhaseName
from planner.hardware import Gpu
from planner.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Row:
    """One GPU type: what each phase needs of it. Phases that need no GPU are left out."""

    gpu: Gpu
    answers: Mapping[PhaseName, Answer]

    @property
    def gpus(self) -> int | None:
        """GPUs to buy so that every phase can run, one after the other; None where one cannot."""
        counts = [None if answer.best is None else answer.best.gpus for answer in self.answers.values()]
        return None if None in counts else max((count for count in counts if count is not None), default=0)

    @property
    def binding(self) -> PhaseName | None:
        """The phase that needs most of them; the first that cannot run, where one cannot."""
        counts = {phase: None if found.best is None else found.best.gpus for phase, found in self.answers.items()}
        return max(counts, key=lambda phase: counts[phase] or MOST_GPUS + 1, default=None)

    @property
    def total_bytes(self) -> int | None:
        """Memory bought, as cards are labelled."""
        return None if self.gpus is None else self.gpus * self.gpu.memory.marketing_bytes


def find_fleet(
    scenario: Scenario,
    catalog: Catalog,
    gpus: Sequence[Gpu],
    phases: Sequence[PhaseName] | None = None,
    *,
    most: int = MOST_GPUS,
    whole_front: bool = False,
    proceed: Proceed = lambda _done, _of: True,
) -> tuple[Row, ...]:
    """A row for each GPU type, those with the fewest bytes to buy first. Raises `CalledOffError` and `PlannerError`."""
    asked = [phase for phase in PHASES if phase != "preprocessing" and getattr(scenario.phases, phase) is not None]
    chosen = [phase for phase in asked if phases is None or phase in phases]
    ids = [gpu.id for gpu in gpus]
    found: dict[PhaseName, dict[str, Answer]] = {}
    for number, phase in enumerate(chosen):

        def told(done: int, of: int, number: int = number) -> bool:
            return proceed(number * of + done, of * len(chosen))

        found[phase] = search(scenario, phase, catalog, ids, most=most, whole_front=whole_front, proceed=told)
    rows = [Row(gpu, {phase: found[phase][gpu.id] for phase in chosen}) for gpu in gpus]
    return tuple(sorted(rows, key=lambda row: (row.total_bytes is None, row.total_bytes or 0, row.gpus or 0)))
