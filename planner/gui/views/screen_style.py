"""How charts and tables look on screen."""

from planner.chart.labels import Sizes
from planner.chart.paint.style import ChartStyle
from planner.chart.palette import DARK, LIGHT
from planner.gui.tokens import Tokens

TABLE_HEADER_HEIGHT = 28
TABLE_ROW_HEIGHT = 27

SCREEN_SIZES = Sizes(
    title=14, subtitle=12, legend=12, tick=11, phase=12, total=12, chip=11, note=11, capacity=11, footnote=11
)


def screen_style(tokens: Tokens) -> ChartStyle:
    """The chart in the theme's palette, on the card's own background."""
    return ChartStyle(palette=DARK if tokens.dark else LIGHT, transparent=True, sizes=SCREEN_SIZES)
