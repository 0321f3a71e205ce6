"""Editors: one for each kind of field. All have `widget`, `set_value` and a callback for what the user enters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

from planner.gui.widgets.number_box import NumberBox
from planner.scenario import FieldDeclaration
from planner.units import GB, GIB

_BYTES = {"GiB": GIB, "TB": 1000 * GB}
_DISKS = ("nvme_bytes", "shared_storage_bytes")
OnEdit = Callable[[object], None]


class Editor(ABC):
    """A control for one value. `set_value` never calls back."""

    widget: QWidget

    @abstractmethod
    def set_value(self, value: object) -> None: ...


class QuietComboBox(QComboBox):
    """A combo box that the wheel does not change in passing."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """As Qt paints it, but a text that is too long ends in an ellipsis."""
        painter, option = QStylePainter(self), QStyleOptionComboBox()
        self.initStyleOption(option)
        control, part = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(control, option, part, self).width() - 4
        option.currentText = self.fontMetrics().elidedText(option.currentText, Qt.TextElideMode.ElideRight, room)
        painter.drawComplexControl(control, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class NumberEditor(Editor):
    def __init__(self, declaration: FieldDeclaration, on_edit: OnEdit) -> None:
        self.widget = NumberBox(
            whole=declaration.kind == "int",
            minimum=declaration.minimum,
            maximum=declaration.maximum,
            step=declaration.step,
            unit=declaration.unit,
            nullable=declaration.nullable,
            empty_text="automatic",
        )
        self._box = self.widget
        self._box.edited.connect(on_edit)

    def set_value(self, value: object) -> None:
        self._box.set_value(value if isinstance(value, int | float) else None)


class SizeEditor(Editor):
    """Memory and disks: bytes in the scenario, GiB or TB on screen."""

    def __init__(self, declaration: FieldDeclaration, on_edit: OnEdit) -> None:
        unit = size_unit(declaration)
        self._scale = _BYTES[unit]
        self.widget = NumberBox(
            whole=False,
            minimum=1 / self._scale,
            maximum=declaration.maximum / self._scale if declaration.maximum else None,
            step=1,
            unit=unit,
            nullable=declaration.nullable,
            empty_text="automatic",
        )
        self._box = self.widget
        self._box.edited.connect(lambda value: on_edit(None if value is None else round(value * self._scale)))

    def set_value(self, value: object) -> None:
        self._box.set_value(value / self._scale if isinstance(value, int) else None)


class ChoiceEditor(Editor):
    def __init__(self, choices: Sequence[tuple[object, str]], nullable: bool, on_edit: OnEdit) -> None:
        self._values = [value for value, _ in choices]
        self._combo = QuietComboBox()
        self._combo.addItems([label for _, label in choices])
        if nullable and None not in self._values:
            self._values.insert(0, None)
            self._combo.insertItem(0, "automatic")
        longest = max((self._combo.fontMetrics().horizontalAdvance(label) for _, label in choices), default=0)
        self._combo.view().setMinimumWidth(min(longest + 48, 420))
        self._combo.activated.connect(lambda index: on_edit(self._values[index]))
        self.widget = self._combo

    def set_value(self, value: object) -> None:
        index = self._values.index(value) if value in self._values else -1
        if index < 0 and value is not None:
            self._values.append(value)
            self._combo.addItem(str(value))
            index = self._combo.count() - 1
        if index != self._combo.currentIndex():
            self._combo.setCurrentIndex(index)


class SwitchEditor(Editor):
    def __init__(self, on_edit: OnEdit) -> None:
        self._check = QCheckBox()
        self._check.clicked.connect(on_edit)
        self.widget = self._check

    def set_value(self, value: object) -> None:
        self._check.setChecked(bool(value))


class TextEditor(Editor):
    """Free text; for lists, names separated by commas, or one of the fixed words."""

    def __init__(self, nullable: bool, is_list: bool, on_edit: OnEdit) -> None:
        self._nullable = nullable
        self._is_list = is_list
        self._line = QLineEdit()
        if nullable:
            self._line.setPlaceholderText("automatic")
        self._line.textEdited.connect(lambda text: on_edit(self._value(text)))
        self.widget = self._line

    def set_value(self, value: object) -> None:
        if self._line.hasFocus() and self._value(self._line.text()) == value:
            return
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else ("" if value is None else str(value))
        if text != self._line.text():
            self._line.setText(text)

    def _value(self, text: str) -> object:
        text = text.strip()
        if not text and self._nullable:
            return None
        if self._is_list:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return text


def shown_unit(declaration: FieldDeclaration) -> str:
    """The unit in which a field is entered: memory in GiB and disks in TB, though the scenario holds bytes."""
    return size_unit(declaration) if _is_size(declaration) else declaration.unit


def size_unit(declaration: FieldDeclaration) -> str:
    """Disks are sold in TB, of 10^12 bytes."""
    return "TB" if declaration.name in _DISKS else "GiB"


def _is_size(declaration: FieldDeclaration) -> bool:
    return declaration.kind == "int" and declaration.name.endswith("_bytes")


def editor_for(declaration: FieldDeclaration, on_edit: OnEdit) -> Editor:
    """The editor for a declared field."""
    if _is_size(declaration):
        return SizeEditor(declaration, on_edit)
    if declaration.kind in ("int", "float"):
        return NumberEditor(declaration, on_edit)
    if declaration.kind == "bool":
        if declaration.nullable:
            return ChoiceEditor(((True, "yes"), (False, "no")), True, on_edit)
        return SwitchEditor(on_edit)
    if declaration.kind == "choice":
        return ChoiceEditor(declaration.choices, declaration.nullable, on_edit)
    return TextEditor(declaration.nullable, declaration.kind == "list", on_edit)
