"""A model from the Hugging Face Hub by its id. Nothing is fetched before a person asks for it."""

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from planner.gui.tasks import Progress, Task
from planner.gui.widgets.properties import set_property, text_label


class HubDialog(QDialog):
    """Closes once `fetched` has told the `OpenedModel`; stays open, with the reason, where nothing came."""

    fetched = Signal(object)

    def __init__(self, parent: QWidget | None = None, endpoint: str | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Model from the Hub")
        self.setMinimumWidth(440)
        self._endpoint = endpoint
        self._task: Task | None = None
        self.model_id = QLineEdit()
        self.model_id.setAccessibleName("Model id")
        self.model_id.setPlaceholderText("such as Qwen/Qwen3-8B")
        self.model_id.setMaxLength(200)
        self.model_id.textChanged.connect(self._on_text)
        caption = QLabel("&Model id")
        caption.setProperty("role", "label")
        caption.setBuddy(self.model_id)
        self.message = text_label("", "hint", wrap=True)
        self.message.setAccessibleName("Message")
        self.bar = QProgressBar()
        self.bar.setAccessibleName("Progress")
        self.bar.setTextVisible(False)
        policy = self.bar.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.bar.setSizePolicy(policy)
        self.bar.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.fetch = QPushButton("&Fetch")
        self.fetch.setDefault(True)
        self.fetch.setEnabled(False)
        self.fetch.clicked.connect(self._fetch)
        self.cancel = buttons.button(QDialogButtonBox.StandardButton.Cancel)
        self.cancel.setAutoDefault(False)
        buttons.addButton(self.fetch, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self._cancel)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(7)
        for widget in (caption, self.model_id, self.message, self.bar):
            column.addWidget(widget)
        column.addSpacing(4)
        column.addWidget(buttons)
        self._say("hint", _WHAT)

    def reject(self) -> None:
        if self._task is not None:
            self._task.cancel()
        super().reject()

    def _on_text(self, text: str) -> None:
        self.fetch.setEnabled(bool(text.strip()))
        self._say("hint", _WHAT)

    def _fetch(self) -> None:
        model_id, endpoint = self.model_id.text().strip(), self._endpoint

        def work(progress: Progress, cancelled: Callable[[], bool]) -> object:
            from planner.model.hub import fetch_model

            return fetch_model(model_id, endpoint=endpoint, progress=progress, cancelled=cancelled)

        self._task = Task(work, self)
        self._task.progressed.connect(self._on_progress)
        self._task.done.connect(self._on_done)
        self._task.failed.connect(self._on_failed)
        self._wait(True)
        self._say("hint", f"Fetching the configuration of {model_id}…")
        self._task.start()

    def _cancel(self) -> None:
        """While something is fetched, call that off; else close."""
        if self._task is None or not self._task.running:
            self.reject()
            return
        self._task.cancel()
        self._wait(False)
        self._say("hint", "Cancelled.")

    def _on_progress(self, read: int, whole: int | None) -> None:
        self.bar.setRange(0, whole or 0)
        self.bar.setValue(read if whole else 0)

    def _on_done(self, opened: object) -> None:
        self.accept()
        self.fetched.emit(opened)

    def _on_failed(self, why: str) -> None:
        self._wait(False)
        self._say("error", why)
        self.model_id.setFocus()

    def _wait(self, waiting: bool) -> None:
        self.bar.setRange(0, 0)
        self.bar.setVisible(waiting)
        self.model_id.setEnabled(not waiting)
        self.fetch.setEnabled(not waiting)

    def _say(self, role: str, text: str) -> None:
        set_property(self.message, "role", role)
        self.message.setText(text)


_WHAT = "Its configuration is fetched from huggingface.co, a few kilobytes; the weights are not."
