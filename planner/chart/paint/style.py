"""How a chart is drawn, as opposed to what it says."""

from dataclasses import dataclass, field

from planner.chart.labels import Sizes
from planner.chart.palette import LIGHT, ChartPalette


@dataclass(frozen=True, slots=True)
class ChartStyle:
    """Exports use the light palette whatever the window's theme is."""

    palette: ChartPalette = LIGHT
    transparent: bool = False
    """Leave out the background."""
    patterns: bool = False
    """Give each component its pattern beside its colour, for grey printers."""
    outlines: bool = False
    """Draw letters as shapes instead of as text."""
    imprint: tuple[str, ...] = ()
    """Lines for below all charts of a picture."""
    sizes: Sizes = field(default_factory=Sizes)
