"""One painter for pictures of charts: PNG, SVG, PDF and the clipboard show the same. The only Qt in `chart`."""

from planner.chart.paint.bars import paint
from planner.chart.paint.export import chart_image, export_chart
from planner.chart.paint.style import ChartStyle

__all__ = ["ChartStyle", "chart_image", "export_chart", "paint"]
