"""Looking through the catalogue beside the window: one phase after the other, told as they are found."""

from collections.abc import Callable, Mapping

from PySide6.QtCore import QObject, Signal

from planner.catalog import Catalog
from planner.engine.fleet import Answer, search
from planner.engine.plan import PHASES, PhaseName
from planner.gui.state import State
from planner.gui.tasks import Progress, Task
from planner.scenario import Scenario
from planner.scenario.hardware import Hardware

Answers = Mapping[PhaseName, Mapping[str, Answer]]
_WITHOUT_GPUS: PhaseName = "preprocessing"
_FREE = {"gpus": Hardware().gpus, "judge": None, "nodes": 1, "price_per_gpu_hour": None, "currency": ""}


def phases_of(state: State) -> tuple[PhaseName, ...]:
    """The phases that are looked for: those that are planned, have no errors and need GPUs."""
    planned = [phase for phase in PHASES if getattr(state.scenario.phases, phase) is not None]
    return tuple(phase for phase in planned if phase != _WITHOUT_GPUS and phase not in state.wrong_phases)


def asked_of(state: State) -> dict[PhaseName, object]:
    """All that the answers for each phase depend on; which GPUs are compared, and how many there are, changes none."""
    scenario = state.scenario
    servers = scenario.hardware.model_copy(update=_FREE)
    return {phase: (scenario.model, getattr(scenario.phases, phase), servers) for phase in phases_of(state)}


class FleetSearch(QObject):
    """What has been found for one question. A newer question calls an older one off."""

    found = Signal()
    """There is one phase more, or nothing at all any more."""
    progressed = Signal(float)
    """The share of the work that is done."""
    ended = Signal(str)
    """Everything is found, or why not."""

    def __init__(self, catalog: Catalog, parent: QObject) -> None:
        super().__init__(parent)
        self._catalog = catalog
        self._gpus = tuple(catalog.hardware.gpus)
        self._task: Task | None = None
        self.asked: dict[PhaseName, object] | None = None
        self.answers: dict[PhaseName, Mapping[str, Answer]] = {}

    @property
    def phases(self) -> tuple[PhaseName, ...]:
        """Those that were asked for."""
        return tuple(self.asked or ())

    @property
    def busy(self) -> bool:
        return self._task is not None and self._task.running

    @property
    def current(self) -> PhaseName | None:
        """The phase that is looked through now."""
        return next((phase for phase in self.phases if phase not in self.answers), None) if self.busy else None

    @property
    def complete(self) -> bool:
        return all(phase in self.answers for phase in self.phases)

    def start(self, state: State) -> None:
        """Look for what a plan asks; answers of phases that ask what they asked before stay."""
        self.stop()
        before, self.asked = self.asked or {}, asked_of(state)
        self.answers = {
            phase: found for phase, found in self.answers.items() if self.asked.get(phase) == before.get(phase)
        }
        self.found.emit()
        self._next(state.scenario)

    def stop(self) -> None:
        """Call the work off; what was found stays."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _next(self, scenario: Scenario) -> None:
        phase = next((phase for phase in self.phases if phase not in self.answers), None)
        if phase is None:
            self._task = None
            self.ended.emit("")
            return
        catalog, gpus = self._catalog, self._gpus

        def work(tell: Progress, cancelled: Callable[[], bool]) -> object:
            def proceed(done: int, of: int) -> bool:
                tell(done, of)
                return not cancelled()

            return search(scenario, phase, catalog, gpus, proceed=proceed)

        task = self._task = Task(work, self)
        task.progressed.connect(self._tell)
        task.done.connect(lambda found: self._take(scenario, phase, found))
        task.failed.connect(self._fail)
        task.start()

    def _tell(self, done: int, of: int) -> None:
        self.progressed.emit((len(self.answers) + done / max(1, of)) / max(1, len(self.phases)))

    def _take(self, scenario: Scenario, phase: PhaseName, found: Mapping[str, Answer]) -> None:
        self.answers[phase] = found
        self.found.emit()
        self._next(scenario)

    def _fail(self, problem: str) -> None:
        self._task = None
        self.ended.emit(problem)
