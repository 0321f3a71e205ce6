"""The right side: why a figure is what it is, and what would make a phase fit, one of which is seen."""

from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from planner.gui.panels.why_panel import WhyPanel
from planner.gui.session import Session
from planner.gui.theme import Theme

WHY, ADVICE = 0, 1


class SidePanel(QWidget):
    """The advisor is built when it is first looked at."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self.why = WhyPanel(session, theme)
        self.why.advice_wanted.connect(self.open_advice)
        self.tabs = QTabBar()
        self.tabs.setAccessibleName("Explanations")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        for title, tip in (("Why", "Formulas behind the figures"), ("Make it fit", "Changes that would make it fit")):
            self.tabs.setTabToolTip(self.tabs.addTab(title), tip)
        self.tabs.currentChanged.connect(self._on_tab)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.why)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(0)
        heading = QHBoxLayout()
        heading.setContentsMargins(14, 0, 8, 0)
        heading.addWidget(self.tabs)
        column.addLayout(heading)
        column.addWidget(self._stack, 1)

    def open_advice(self) -> None:
        """Show what would make the phase fit that is looked at."""
        self.tabs.setCurrentIndex(ADVICE)

    def _on_tab(self, index: int) -> None:
        if index == ADVICE and self._stack.count() == 1:
            from planner.gui.panels.advice_panel import AdvicePanel

            self.advice = AdvicePanel(self._session)
            self._stack.addWidget(self.advice)
        self._stack.setCurrentIndex(index)
