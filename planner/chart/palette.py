"""Colours and patterns of charts, in both themes.

The colours of components are those of Paul Tol's "bright" and "vibrant" schemes (personal.sron.nl/~pault), which stay
apart for colour-blind readers; a component has the same colour in both themes. Patterns are the second cue.
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
    "temporaries": "#EE99AA",
    "overhead": "#B8BEC7",
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
    pattern_ink: str
    """Lines of a component's pattern, drawn half transparent."""
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
    pattern_ink="#1C2430",
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
    pattern_ink="#0B0E13",
    chips={"oom": ("#D9363E", "#FFFFFF"), "tight": ("#4A3A12", "#FFD479"), "unknown": ("#2F3642", "#B5BFCC")},
)
