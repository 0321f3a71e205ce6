"""Work that takes long and waits for others, such as the network: in a thread of its own, which never touches Qt."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from PySide6.QtCore import QObject, QTimer, Signal

from planner.errors import PlannerError

_LOOK_MS = 40
Progress = Callable[[int, int | None], None]
"""Told how much is done, and of how much if that is known."""
Work = Callable[[Progress, Callable[[], bool]], object]
"""Gets the way to tell its progress and a question whether it has been called off; returns what it found."""


class Task(QObject):
    """One piece of work. A timer looks for what the thread has to say, so all signals come from the window's thread.

    A task that is called off says nothing any more; its thread ends when it next asks, or with the program.
    """

    progressed = Signal(object, object)
    done = Signal(object)
    failed = Signal(str)

    def __init__(self, work: Work, parent: QObject) -> None:
        super().__init__(parent)
        self._work = work
        self._said: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._cancelled = threading.Event()
        self._timer = QTimer(self, interval=_LOOK_MS)
        self._timer.timeout.connect(self._listen)

    @property
    def running(self) -> bool:
        return self._timer.isActive()

    def start(self) -> None:
        self._timer.start()
        threading.Thread(target=self._run, name="task", daemon=True).start()

    def cancel(self) -> None:
        self._cancelled.set()
        self._timer.stop()

    def _run(self) -> None:
        def tell(done: int, whole: int | None) -> None:
            self._said.put(lambda: self.progressed.emit(done, whole))

        try:
            found = self._work(tell, self._cancelled.is_set)
        except Exception as error:  # whatever it is, the window's thread must hear of it
            problem = error
            self._said.put(lambda: self._end_badly(problem))
        else:
            self._said.put(lambda: self._end(found))

    def _listen(self) -> None:
        while self.running:
            try:
                said = self._said.get_nowait()
            except Empty:
                return
            said()

    def _end(self, found: object) -> None:
        self._timer.stop()
        self.done.emit(found)

    def _end_badly(self, problem: Exception) -> None:
        self._timer.stop()
        if not isinstance(problem, PlannerError):
            self.failed.emit("Something unforeseen went wrong.")
            raise problem
        self.failed.emit(problem.message)
