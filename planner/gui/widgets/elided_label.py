"""A label that shortens its text in the middle instead of asking for more room."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QRadioButton, QStyle, QStyleOptionButton, QWidget


class ElidedLabel(QLabel):
    """The whole text is the tooltip while it is shortened."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setMinimumWidth(24)

    def minimumSizeHint(self) -> QSize:
        return QSize(24, super().minimumSizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        shown = elided(self, self.text(), self.contentsRect().width())
        painter.drawText(self.contentsRect(), int(self.alignment()) | Qt.TextFlag.TextSingleLine, shown)


class ElidedRadioButton(QRadioButton):
    """A radio button whose text gives way."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._full_text = ""
        self.set_full_text(text)

    def set_full_text(self, text: str) -> None:
        self._full_text = text
        self._elide()

    def minimumSizeHint(self) -> QSize:
        return QSize(60, super().minimumSizeHint().height())

    def sizeHint(self) -> QSize:
        return QSize(120, super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        box = self.style().pixelMetric(QStyle.PixelMetric.PM_ExclusiveIndicatorWidth, option, self)
        shown = elided(self, self._full_text, self.width() - box - 10)
        self.setText(shown.replace("&", "&&"))
        self.setToolTip(self._full_text if shown != self._full_text else "")


def elided(widget: QWidget, text: str, width: int) -> str:
    """`text` shortened in the middle to `width` pixels in the widget's font."""
    return widget.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, max(width, 0))
