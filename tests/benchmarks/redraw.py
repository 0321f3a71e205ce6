"""From an edit to the painted window ÷ a bare pyqtgraph redraw of as many bars at the same size.

Ours is everything that an edit sets off: validation, estimate, chart, table, formula panel, and painting them.
"""

import itertools
import os
import tempfile

from harness import Ratio, compare

EDITED = ("phases", "training", "micro_batch_size")


def measure(rounds: int = 41) -> list[Ratio]:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp()
    from PySide6.QtCore import QEvent, QObject

    from planner.gui.application import build_window, make_application

    class PaintCount(QObject):
        count = 0

        def eventFilter(self, _watched, event):  # noqa: N802
            self.count += event.type() == QEvent.Type.Paint
            return False

    app = make_application()
    window = build_window(app)
    window.resize(1440, 900)
    window.show()
    session = window.session
    plot = window.chart.load_plot()
    app.processEvents()
    canvas = plot.viewport()
    painted = PaintCount()
    canvas.installEventFilter(painted)
    sizes = itertools.cycle(range(2, 34))

    def edit() -> None:
        before = painted.count
        refusal = session.edit(EDITED, next(sizes))
        assert not refusal, refusal
        _settle(app, lambda: painted.count > before)

    bars = sum(1 for phase in session.state.plan.phases.values() for size in phase.components.values() if size)
    bare, redraw = _bare_plot(app, canvas.size(), bars)
    ratio = compare("edit to painted window ÷ bare pyqtgraph redraw", edit, redraw, limit=4.0, rounds=rounds)
    bare.close()
    session.undo_stack.setClean()
    window.close()
    return [ratio]


def _settle(app, painted) -> None:
    """Process events until what was asked for has been painted."""
    for _ in range(1000):
        app.processEvents()
        if painted():
            return
    raise AssertionError("nothing was painted")


def _bare_plot(app, size, bars: int):
    """A plot with that many bars, and a function that gives them new heights and paints."""
    import pyqtgraph

    plot = pyqtgraph.PlotWidget()
    plot.resize(size)
    item = pyqtgraph.BarGraphItem(x=list(range(bars)), height=[1.0] * bars, width=0.6)
    plot.addItem(item)
    plot.show()
    app.processEvents()
    heights = itertools.cycle(range(1, 30))

    def redraw() -> None:
        height = next(heights)
        item.setOpts(height=[height + position % 3 for position in range(bars)])
        app.processEvents()

    return plot, redraw


if __name__ == "__main__":
    for ratio in measure():
        print(ratio.line())
