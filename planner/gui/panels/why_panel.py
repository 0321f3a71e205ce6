"""Why? — the right side: the formula behind the segment that was clicked, or the phase's terms by size."""

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtWidgets import QTextBrowser, QVBoxLayout, QWidget

from planner.engine.term import HOST_COMPONENTS
from planner.gui.panels.why_text import ADVICE_LINK, why_html, why_title
from planner.gui.session import Session
from planner.gui.theme import Theme
from planner.gui.widgets.properties import text_label

_DELAY_MS = 60
"""The chart comes first: formulas are told, and GPUs counted, when an edit is on screen."""


class WhyPanel(QWidget):
    advice_wanted = Signal()

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Why")
        self._session = session
        self._theme = theme
        self._shown = ""
        self._later = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._later.timeout.connect(self._show)
        self.title = text_label("WHY?", "heading", wrap=True)
        self.body = QTextBrowser()
        self.body.setAccessibleName("Explanation of the figure")
        self.body.setOpenLinks(False)
        self.body.document().setDocumentMargin(0)
        self.body.anchorClicked.connect(self._on_link)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 14, 8, 8)
        column.setSpacing(4)
        column.addWidget(self.title)
        column.addWidget(self.body)
        session.state_changed.connect(lambda _state, _before: self._later.start())
        session.view_changed.connect(lambda _view, _before: self._show())
        theme.changed.connect(lambda _tokens: self._show())
        self._show()

    def _show(self) -> None:
        self._later.stop()
        state, view = self._session.state, self._session.view
        tokens = self._theme.tokens
        if view.resource == "vram" and (view.moment or view.group):
            from planner.gui.panels.step_why_text import step_why_html, step_why_title

            title, html = step_why_title(state, view), step_why_html(state, view, tokens)
        elif view.resource == "vram":
            title = why_title(state, view.phase, view.component, view.unit)
            html = why_html(state, view.phase, view.component, view.unit, tokens)
        else:
            from planner.gui.panels.host_why_text import host_why_html, host_why_title

            title, html = host_why_title(state, view), host_why_html(state, view, tokens)
        self.title.setText(title)
        if html != self._shown:
            self._shown = html
            self.body.setHtml(html)

    def _on_link(self, url: QUrl) -> None:
        if url.toString() == ADVICE_LINK:
            self.advice_wanted.emit()
            return
        name = url.toString().removeprefix("component:")
        self._session.look_at(component=next((item for item in HOST_COMPONENTS if item == name), None))
