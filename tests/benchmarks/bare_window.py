"""The least that a chart on screen costs: import PySide6 and pyqtgraph, paint an empty plot, leave."""

import sys

import pyqtgraph
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication


class Plot(pyqtgraph.PlotWidget):
    def paintEvent(self, event):  # noqa: N802
        super().paintEvent(event)
        QTimer.singleShot(0, QApplication.quit)


application = QApplication(sys.argv)
plot = Plot()
plot.resize(1280, 800)
plot.show()
sys.exit(application.exec())
