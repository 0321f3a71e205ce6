"""One suggestion: what changes, what comes of it, what it costs, and a button that does it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout

from planner.engine.advisor import Advice, Suggestion
from planner.gui.panels.advice_text import LEVEL_ROLES, LEVEL_TEXTS, costs_text, sizes_text, sources_text
from planner.gui.widgets.properties import text_label
from planner.units import SizeUnit


class AdviceCard(QFrame):
    applied = Signal(object)
    """The `Suggestion` to apply."""

    def __init__(self, advice: Advice, suggestion: Suggestion, unit: SizeUnit) -> None:
        super().__init__()
        self.setProperty("card", True)
        self.setToolTip(sources_text(suggestion))
        self.suggestion = suggestion
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 8, 10, 8)
        column.setSpacing(3)
        for change in suggestion.changes:
            column.addWidget(text_label(change.title, "title", wrap=True))
        column.addWidget(text_label(sizes_text(advice, suggestion, unit), "label", wrap=True))
        costs = costs_text(advice.before, suggestion, unit)
        if costs:
            column.addWidget(text_label(costs, "hint", wrap=True))
        self.button = QPushButton("Apply")
        self.button.setAccessibleName(f"Apply {suggestion.title}")
        self.button.setToolTip("Change the plan so, in one step that can be undone")
        self.button.clicked.connect(lambda: self.applied.emit(self.suggestion))
        row = QHBoxLayout()
        row.setContentsMargins(0, 2, 0, 0)
        row.addWidget(text_label(LEVEL_TEXTS[suggestion.level], LEVEL_ROLES[suggestion.level], wrap=True), 1)
        row.addWidget(self.button)
        column.addLayout(row)
