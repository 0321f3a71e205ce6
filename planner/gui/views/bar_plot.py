"""A chart of stacked bars on screen: pyqtgraph bars between what the painter of exports draws behind and over them."""

from collections.abc import Callable

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QToolTip, QWidget

from planner.chart.geometry import Rect
from planner.chart.layout import BarShape, ChartLayout, lay_out
from planner.chart.paint.bars import paint_behind, paint_over
from planner.chart.paint.fonts import text_width
from planner.chart.paint.style import ChartStyle
from planner.chart.palette import COMPONENT_COLOURS
from planner.chart.spec import ChartSpec, Segment
from planner.engine.term import HOST_COMPONENTS, Component
from planner.gui.words import strong
from planner.units import BYTES_PER_UNIT

_SELECTION_WIDTH = 2.0


class Layer(pg.GraphicsObject):  # type: ignore[misc]  # pyqtgraph has no types
    """A part of the picture in pixels of the view, painted by a function."""

    def __init__(self, draw: Callable[[QPainter], None], depth: float) -> None:
        super().__init__()
        self._draw = draw
        self._rect = QRectF()
        self.setZValue(depth)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)

    def resize(self, rect: QRectF) -> None:
        self.prepareGeometryChange()
        self._rect = rect

    def boundingRect(self) -> QRectF:
        return self._rect

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        self._draw(painter)


class BarPlot(pg.GraphicsView):  # type: ignore[misc]  # pyqtgraph has no types
    """One `BarGraphItem` per component with all bars in it; an edit moves the bars and makes nothing new."""

    picked = Signal(str, object)
    """The key of a bar, and a component of it, or None for the bar as a whole."""

    def __init__(self, style: ChartStyle) -> None:
        super().__init__(background=None)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self._style = style
        self.spec: ChartSpec | None = None
        self.placed: ChartLayout | None = None
        self._selected: tuple[str, Component | None] | None = None
        self.box = pg.ViewBox(enableMouse=False, enableMenu=False, defaultPadding=0)
        self.box.setZValue(0)  # pyqtgraph puts it below everything
        self.box.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.bars = {name: pg.BarGraphItem(x=[], height=[], width=1, pen=None) for name in HOST_COMPONENTS}
        for name, item in self.bars.items():
            item.setOpts(brush=COMPONENT_COLOURS[name])
            self.box.addItem(item, ignoreBounds=True)
        self._behind = Layer(self._draw_behind, -1)
        self._over = Layer(self._draw_over, 1)
        for item in (self._behind, self.box, self._over):
            self._add(item)

    def show_chart(self, spec: ChartSpec | None) -> None:
        """Show `spec`; nothing happens where it is the one shown."""
        if spec != self.spec:
            self.spec = spec
            self._arrange()

    def set_style(self, style: ChartStyle) -> None:
        self._style = style
        self._arrange()

    def select(self, name: str | None, component: Component | None = None) -> None:
        """Mark a segment of a bar; a whole bar is not marked, nor is anything for None."""
        selected = None if name is None else (name, component)
        if self._selected != selected:
            self._selected = selected
            self._over.update()

    def segment_at(self, position: QPointF) -> tuple[BarShape, Segment | None] | None:
        """The bar, and its segment if there is one, under a point of the view."""
        if self.placed is None:
            return None
        for shape in self.placed.bars:
            column = shape.slot.column
            if column.x <= position.x() < column.right and position.y() >= self.placed.plot.y - 40:
                segments = (segment for segment, rect in shape.segments if _touches(rect, position))
                return shape, next(segments, None)
        return None

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        if hasattr(self, "_over"):
            self._arrange()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self.segment_at(event.position())
        if found is not None and event.button() == Qt.MouseButton.LeftButton:
            shape, segment = found
            own = segment is not None and not shape.bar.group
            self.picked.emit(shape.bar.key, segment.component if segment is not None and own else None)
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        found = self.segment_at(event.position())
        hand = found is not None and found[1] is not None
        self.setCursor(Qt.CursorShape.PointingHandCursor if hand else Qt.CursorShape.ArrowCursor)
        super().mouseMoveEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # a chart stands still, and what it stands on may scroll

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {
            Qt.Key.Key_Left: (-1, 0),
            Qt.Key.Key_Right: (1, 0),
            Qt.Key.Key_Up: (0, 1),
            Qt.Key.Key_Down: (0, -1),
        }
        if event.key() in steps and self.spec is not None and self.spec.bars:
            self._step(*steps[Qt.Key(event.key())])
        elif event.key() == Qt.Key.Key_Escape and self._selected is not None:
            self.picked.emit(self._selected[0], None)
        else:
            super().keyPressEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            self._show_tooltip(event.pos(), event.globalPos())
            return True
        return bool(super().viewportEvent(event))

    def tooltip_at(self, position: QPointF) -> str:
        """What a tooltip says at a point: a segment with its size and share, or the bar's total and verdict."""
        found = self.segment_at(position)
        if found is None or self.spec is None:
            return ""
        shape, segment = found
        bar = shape.bar
        unit = self.spec.axis.unit
        if segment is not None:
            share = round(100 * segment.size_bytes / bar.total_bytes)
            return f"<qt>{strong(segment.name)} {segment.label}<br>{share}\u202f% of {bar.name.lower()}</qt>"
        if bar.note:
            return f"<qt>{strong(bar.name)}<br>{bar.note}</qt>"
        verdict = f"<br>{bar.verdict[:1].upper()}{bar.verdict[1:]}" if bar.verdict else ""
        return f"<qt>{strong(bar.name)} {bar.total_label} {unit}{verdict}</qt>"

    def _step(self, across: int, up: int) -> None:
        assert self.spec is not None
        bars = [bar for bar in self.spec.bars if not bar.group]
        name, component = self._selected or (bars[0].key, None)
        index = next((i for i, bar in enumerate(bars) if bar.key == name), 0)
        bar = bars[min(max(index + across, 0), len(bars) - 1)]
        parts: list[Component | None] = [None, *(segment.component for segment in bar.segments)]
        at = parts.index(component) if component in parts else 0
        at = min(max(at + up, 0), len(parts) - 1)
        self.picked.emit(bar.key, parts[at])

    def _arrange(self) -> None:
        area = QRectF(self.viewport().rect())
        for layer in (self._behind, self._over):
            layer.resize(area)
        if self.spec is None:
            self.placed = None
            self.box.hide()
        else:
            rect = Rect(0, 0, area.width(), area.height())
            self.placed = lay_out(self.spec, rect, text_width, self._style.sizes)
            self.box.show()
            self._place_bars(self.spec, self.placed)
        self._behind.update()
        self._over.update()

    def _place_bars(self, spec: ChartSpec, layout: ChartLayout) -> None:
        """Bars stand at 0, 1, 2, … in phases and in units of the axis, as pyqtgraph loses very large numbers."""
        plot, unit = layout.plot, BYTES_PER_UNIT[spec.axis.unit]
        self.box.setGeometry(QRectF(plot.x, plot.y, plot.width, plot.height))
        count = max(len(spec.bars), 1)
        self.box.setRange(
            xRange=(-0.5, count - 0.5), yRange=(0, spec.axis.maximum_bytes / unit), padding=0, disableAutoRange=False
        )
        width = layout.bars[0].slot.width / (plot.width / count) if layout.bars else 1.0
        for name, item in self.bars.items():
            parts = [
                (index, segment.start_bytes / unit, segment.size_bytes / unit)
                for index, bar in enumerate(spec.bars)
                for segment in bar.segments
                if segment.component == name
            ]
            x, base, height = zip(*parts, strict=True) if parts else ((), (), ())
            item.setOpts(x=list(x), y0=list(base), height=list(height), width=width)

    def _draw_behind(self, painter: QPainter) -> None:
        if self.placed is not None:
            paint_behind(painter, self.placed, self._style)

    def _draw_over(self, painter: QPainter) -> None:
        if self.placed is None:
            return
        paint_over(painter, self.placed, self._style)
        for shape in self.placed.bars:
            for segment, rect in () if shape.bar.group else shape.segments:
                if self._selected == (shape.bar.key, segment.component):
                    painter.setPen(QPen(QColor(self._style.palette.ink), _SELECTION_WIDTH))
                    painter.setBrush(Qt.BrushStyle.NoBrush)
                    painter.drawRect(QRectF(rect.x, rect.y, rect.width, max(rect.height, 2)))

    def _show_tooltip(self, position: QPoint, global_position: QPoint) -> None:
        text = self.tooltip_at(QPointF(position))
        if text:
            QToolTip.showText(global_position, text, self.viewport())
        else:
            QToolTip.hideText()

    def _add(self, item: QGraphicsItem) -> None:
        self.scene().addItem(item)


def _touches(rect: Rect, position: QPointF) -> bool:
    """Whether a point is on a segment; thin ones are given at least four pixels to hit."""
    spare = max(0.0, (4 - rect.height) / 2)
    return rect.x <= position.x() <= rect.right and rect.y - spare <= position.y() <= rect.bottom + spare
