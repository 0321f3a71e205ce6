"""Colours and patterns of charts, in both themes.

The colours of components are from Paul Tol's "bright", "vibrant" and "muted" schemes (personal.sron.nl/~pault), which
stay apart for colour-blind readers; the indigo is lightened to be seen on a dark ground. A component has the same
colour in both themes. Patterns are the second cue.
"""

from dataclasses import dataclass

from planner.chart.spec import ChipKind, Pattern
from planner.engine.term import Component

COMPONENT_COLOURS: dict[Component, str] = {
    "weights": "#4477AA",
    "gradients": "#66CCEE",
    "optimizer_states": "#228833",
    "activations": "#CCBB44",
    "logits": "#EE7733",
    "kv_cache": "#AA3377",
    "temporaries": "#4A38A8",
    "overhead": "#B8BEC7",
    "data": "#44AA99",
}

COMPONENT_PATTERNS: dict[Component, Pattern] = {
    "weights": "solid",
    "gradients": "diagonal",
    "optimizer_states": "horizontal",
    "activations": "back_diagonal",
    "logits": "dense_diagonal",
    "kv_cache": "vertical",
    "temporaries": "cross",
    "overhead": "solid",
    "data": "grid",
}

PATTERN_LINES: dict[Pattern, tuple[tuple[float, float], ...]] = {
    "solid": (),
    "diagonal": ((7, 45),),
    "dense_diagonal": ((4, 45),),
    "back_diagonal": ((7, 135),),
    "horizontal": ((6, 0),),
    "vertical": ((6, 90),),
    "cross": ((8, 45), (8, 135)),
    "grid": ((7, 0), (7, 90)),
}
"""Each pattern's families of lines: how far apart in pixels, and at which angle in degrees."""

_DARK_BELOW = 105


@dataclass(frozen=True, slots=True)
class ChartPalette:
    """Everything in a chart that is not a component, for one theme. Colours are `#RRGGBB`."""

    background: str
    ink: str
    """Titles, totals, capacity lines and their labels, whiskers."""
    text: str
    """Phase names and legend."""
    muted: str
    """Ticks, subtitle, axis label, notes."""
    grid: str
    axis: str
    gap: str
    """The hairline between segments."""
    hatch: str
    """Overflow above the judge's capacity, and its frame."""
    chips: dict[ChipKind, tuple[str, str]]
    """Background and text colour of verdict chips."""


LIGHT = ChartPalette(
    background="#FFFFFF",
    ink="#1C2430",
    text="#3B4554",
    muted="#667085",
    grid="#ECEFF3",
    axis="#C4CAD3",
    gap="#FFFFFF",
    hatch="#C0262D",
    chips={"oom": ("#C0262D", "#FFFFFF"), "tight": ("#FFF3D6", "#8A5200"), "unknown": ("#EEF0F3", "#57606F")},
)

DARK = ChartPalette(
    background="#181C23",
    ink="#F2F4F7",
    text="#CBD2DC",
    muted="#98A2B3",
    grid="#2A303A",
    axis="#475060",
    gap="#181C23",
    hatch="#FF6B70",
    chips={"oom": ("#D9363E", "#FFFFFF"), "tight": ("#4A3A12", "#FFD479"), "unknown": ("#2F3642", "#B5BFCC")},
)


def pattern_ink(component: Component) -> str:
    """The colour of a pattern's lines on this component, to be drawn half transparent."""
    colour = COMPONENT_COLOURS[component]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#FFFFFF" if 0.299 * red + 0.587 * green + 0.114 * blue < _DARK_BELOW else "#1C2430"
