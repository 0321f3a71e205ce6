"""The one undo command: from one scenario to another. Repeated edits of one field merge into one step."""

from collections.abc import Callable

from PySide6.QtGui import QUndoCommand

from planner.scenario import Scenario


class ScenarioCommand(QUndoCommand):
    """Shows `after` when done and `before` when undone; commands with the same non-empty `key` merge."""

    def __init__(
        self, show: Callable[[Scenario], None], before: Scenario, after: Scenario, text: str, key: str
    ) -> None:
        super().__init__(text)
        self._show = show
        self._before = before
        self._after = after
        self._key = key

    def id(self) -> int:
        return 1 if self._key else -1

    def redo(self) -> None:
        self._show(self._after)

    def undo(self) -> None:
        self._show(self._before)

    def mergeWith(self, other: QUndoCommand) -> bool:
        if not isinstance(other, ScenarioCommand) or other._key != self._key:
            return False
        self._after = other._after
        self.setObsolete(self._after == self._before)
        return True
