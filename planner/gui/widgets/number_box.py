"""A spin box for numbers of any size: whole or fractional, grouped, with its unit inside, or empty for "not set"."""

from math import floor, isfinite, log10

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent, QValidator, QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QLabel, QWidget

GROUP = "\u202f"
_IGNORED = (GROUP, "\u00a0", "\u2009", " ", "'", "_", "\u2019")


class NumberBox(QAbstractSpinBox):
    """Qt's spin boxes end at 2^31; this one holds Python numbers. `edited` tells what the user entered.

    Escape brings back what was last set from outside.
    """

    edited = Signal(object)

    def __init__(
        self,
        *,
        whole: bool = True,
        minimum: float | None = None,
        maximum: float | None = None,
        step: float | None = None,
        unit: str = "",
        nullable: bool = False,
        empty_text: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._whole = whole
        self._minimum = minimum
        self._maximum = maximum
        self._step = step
        self._nullable = nullable
        self._value: int | float | None = None
        self._shown: int | float | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumWidth(88)
        line = self.lineEdit()
        line.setPlaceholderText(empty_text)
        line.textEdited.connect(self._on_text)
        self.editingFinished.connect(self._tidy)
        self._unit = QLabel(unit, line)
        self._unit.setProperty("role", "hint")
        self._unit.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._unit.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def value(self) -> int | float | None:
        return self._value

    def set_value(self, value: int | float | None) -> None:
        """Show `value` without telling anyone. What is being typed is kept while it means the same."""
        self._value = self._shown = value
        if not (self.hasFocus() and self._parse(self.text()) == (True, value)):
            self._show()

    def stepBy(self, steps: int) -> None:
        value = self._stepped(self._value, steps)
        if value != self._value:
            self._value = value
            self._show()
            self.selectAll()
            self.edited.emit(value)

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:
        flag = QAbstractSpinBox.StepEnabledFlag
        enabled = flag.StepNone
        if self.isReadOnly():
            return enabled
        value = self._value
        if value is None or self._maximum is None or value < self._maximum:
            enabled |= flag.StepUpEnabled
        if value is not None and (self._minimum is None or value > self._minimum):
            enabled |= flag.StepDownEnabled
        return enabled

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        allowed = "0123456789+-" + ("" if self._whole else ".,eE") + "".join(_IGNORED)
        acceptable = all(character in allowed for character in text)
        return (QValidator.State.Acceptable if acceptable else QValidator.State.Invalid), text, position

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._parse(self.text()) != (True, self._shown):
            self._value = self._shown
            self._show()
            self.edited.emit(self._value)
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_unit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._place_unit()

    def _place_unit(self) -> None:
        line = self.lineEdit()
        width = self._unit.sizeHint().width() if self._unit.text() else 0
        room = line.width() - self.fontMetrics().horizontalAdvance("0000000")
        self._unit.setVisible(0 < width < room)
        self._unit.setGeometry(line.width() - width - 6, 0, width, line.height())
        line.setTextMargins(6, 0, width + 8 if 0 < width < room else 2, 0)

    def _on_text(self, text: str) -> None:
        understood, value = self._parse(text)
        if understood and value != self._value:
            self._value = value
            self.edited.emit(value)

    def _parse(self, text: str) -> tuple[bool, int | float | None]:
        for character in _IGNORED:
            text = text.replace(character, "")
        if not text:
            return self._nullable, None
        try:
            value = int(text) if self._whole else float(text.replace(",", "."))
        except ValueError:
            return False, None
        return isfinite(value), value

    def _tidy(self) -> None:
        if not self._parse(self.text())[0]:
            self._show()

    def _show(self) -> None:
        self.lineEdit().setText("" if self._value is None else number_text(self._value))

    def _stepped(self, value: int | float | None, steps: int) -> int | float | None:
        if value is None:
            start = self._minimum if self._minimum is not None else 0
            return int(start) if self._whole else start
        value += steps * (self._step or sensible_step(value, self._whole))
        value = round(value) if self._whole else round(value, 6)
        if self._minimum is not None:
            value = max(value, self._minimum)
        if self._maximum is not None:
            value = min(value, self._maximum)
        return int(value) if self._whole else value


def sensible_step(value: int | float, whole: bool) -> float:
    """One unit of the second digit: 1 up to 99, 100 000 for a million; a tenth of that for fractions."""
    size = 10.0 ** floor(log10(abs(value))) / 10 if value else 0.0
    return max(round(size), 1) if whole else (size or 0.05)


def number_text(value: int | float) -> str:
    """`8 192`, `0.05`: thousands apart, by a narrow no-break space."""
    if isinstance(value, int):
        return f"{value:,}".replace(",", GROUP)
    return f"{value:g}" if abs(value) < 1e6 else f"{value:,.6g}".replace(",", GROUP)
