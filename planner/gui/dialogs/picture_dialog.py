"""How a chart is saved as a picture: format, size, pixels, background; kept for the next one."""

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from planner.chart.paint import ChartStyle, chart_image
from planner.chart.spec import ChartSpec
from planner.gui.settings import Settings
from planner.gui.widgets.number_box import NumberBox
from planner.gui.widgets.properties import text_label

FORMATS = {"png": "PNG image", "svg": "SVG drawing", "pdf": "PDF document"}
_SMALLEST, _LARGEST = 200, 8000
_LEAST_SCALE, _MOST_SCALE = 0.25, 8.0
_PREVIEW_WIDTH = 460
_HIGHEST_PREVIEW = 360


@dataclass(frozen=True, slots=True)
class Picture:
    """What was asked for. Sizes are of each chart, in 1/96 inch; `scale` is pixels for each of them."""

    ending: str = "png"
    width: int = 960
    height: int = 640
    scale: float = 2.0
    transparent: bool = False
    patterns: bool = False
    imprint: bool = True


class PictureDialog(QDialog):
    """Asks how; `picture` is the answer. What it will look like is shown beside the questions."""

    def __init__(
        self, settings: Settings, charts: tuple[ChartSpec, ...], imprint: tuple[str, ...], window: QWidget
    ) -> None:
        super().__init__(window)
        self.setWindowTitle("Export chart")
        self._settings, self._charts, self._imprint = settings, charts, imprint
        kept = kept_picture(settings)
        self.format = QComboBox()
        for ending, name in FORMATS.items():
            self.format.addItem(name, ending)
        self.format.setCurrentIndex(max(self.format.findData(kept.ending), 0))
        self.width_box = NumberBox(minimum=_SMALLEST, maximum=_LARGEST, step=40, unit="px")
        self.height_box = NumberBox(minimum=_SMALLEST, maximum=_LARGEST, step=40, unit="px")
        self.scale = NumberBox(whole=False, minimum=_LEAST_SCALE, maximum=_MOST_SCALE, step=0.5, unit="×")
        self.width_box.set_value(kept.width)
        self.height_box.set_value(kept.height)
        self.scale.set_value(kept.scale)
        self.background = QComboBox()
        self.background.addItem("White", False)
        self.background.addItem("Transparent", True)
        self.background.setCurrentIndex(int(kept.transparent))
        self.patterns = QCheckBox("&Patterns on the components, for grey printers")
        self.patterns.setChecked(kept.patterns)
        self.says = QCheckBox("&Model, assumptions, date and catalogue below the chart")
        self.says.setChecked(kept.imprint)
        grid = QGridLayout()
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        rows: tuple[tuple[str, QWidget], ...] = (
            ("&Format", self.format),
            ("&Width", self.width_box),
            ("&Height", self.height_box),
            ("&Scale", self.scale),
            ("&Background", self.background),
        )
        for row, (label, editor) in enumerate(rows):
            caption = QLabel(label)
            caption.setProperty("role", "label")
            caption.setBuddy(editor)
            editor.setAccessibleName(label.replace("&", ""))
            grid.addWidget(caption, row, 0)
            grid.addWidget(editor, row, 1)
        self.told = text_label("", "hint", wrap=True)
        self.preview = QLabel()
        self.preview.setAccessibleName("Preview")
        self.preview.setAlignment(Qt.AlignmentFlag.AlignCenter)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.go_on = buttons.addButton("Save pict&ure…", QDialogButtonBox.ButtonRole.AcceptRole)
        self.go_on.setDefault(True)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(10)
        column.addWidget(self.preview)
        column.addWidget(self.told)
        column.addLayout(grid)
        column.addWidget(self.says)
        column.addWidget(self.patterns)
        column.addWidget(buttons)
        for combo in (self.format, self.background):
            combo.currentIndexChanged.connect(self._show)
        for box in (self.width_box, self.height_box, self.scale):
            box.edited.connect(self._show)
        for check in (self.patterns, self.says):
            check.toggled.connect(self._show)
        self._show()

    @property
    def picture(self) -> Picture:
        return Picture(
            str(self.format.currentData()),
            _within(self.width_box.value(), _SMALLEST, _LARGEST),
            _within(self.height_box.value(), _SMALLEST, _LARGEST),
            min(max(float(self.scale.value() or 1), _LEAST_SCALE), _MOST_SCALE),
            bool(self.background.currentData()),
            self.patterns.isChecked(),
            self.says.isChecked(),
        )

    def _show(self) -> None:
        """The picture as small as there is room for, and how large it will be."""
        found, charts = self.picture, len(self._charts)
        self.scale.setEnabled(found.ending == "png")
        height = found.height * charts
        if found.ending == "png":
            pixels = f"{round(found.width * found.scale)} × {round(height * found.scale)} pixels"
            self.told.setText(f"{pixels}, {96 * found.scale:.0f} dots per inch")
        else:
            what = "text stays text" if found.ending == "svg" else "fonts are embedded"
            self.told.setText(f"{found.width / 96 * 25.4:.0f} × {height / 96 * 25.4:.0f} mm, {what}")
        scale = min(_PREVIEW_WIDTH / found.width, _HIGHEST_PREVIEW / height)
        ratio = self.devicePixelRatioF()
        style = ChartStyle(patterns=found.patterns, imprint=self._imprint if found.imprint else ())
        image = chart_image(self._charts, width=found.width, height=found.height, scale=scale * ratio, style=style)
        image.setDevicePixelRatio(ratio)
        self.preview.setPixmap(QPixmap.fromImage(image))

    def _accept(self) -> None:
        keep_picture(self._settings, self.picture)
        self.accept()


def _within(value: float | None, least: int, most: int) -> int:
    """What was typed, also while it is being typed, as a size that can be drawn."""
    return min(max(round(value or least), least), most)


def kept_picture(settings: Settings) -> Picture:
    """How the last one was saved; anything unreadable counts as not kept."""
    parts = settings.text("picture").split()
    try:
        ending, width, height, scale, *flags = parts
        transparent, patterns, says = (flag == "1" for flag in flags)
        wide, high = (_within(int(size), _SMALLEST, _LARGEST) for size in (width, height))
        pixels = min(max(float(scale), _LEAST_SCALE), _MOST_SCALE)
        return Picture(ending, wide, high, pixels, transparent, patterns, says)
    except ValueError:
        return Picture()


def keep_picture(settings: Settings, picture: Picture) -> None:
    flags = (picture.transparent, picture.patterns, picture.imprint)
    words = (picture.ending, picture.width, picture.height, picture.scale, *map(int, flags))
    settings.keep_text("picture", " ".join(map(str, words)))
