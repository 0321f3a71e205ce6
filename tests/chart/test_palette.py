"""Colours and patterns tell components apart."""

from planner.chart.palette import COMPONENT_COLOURS, COMPONENT_PATTERNS, DARK, LIGHT, PATTERN_LINES, ChartPalette
from planner.engine.term import HOST_COMPONENTS


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two `#RRGGBB` colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def test_every_component_has_its_own_colour_and_a_known_pattern() -> None:
    assert set(COMPONENT_COLOURS) == set(COMPONENT_PATTERNS) == set(HOST_COMPONENTS)
    assert len(set(COMPONENT_COLOURS.values())) == len(HOST_COMPONENTS)
    assert set(COMPONENT_PATTERNS.values()) <= set(PATTERN_LINES)


def test_text_is_readable_in_both_themes() -> None:
    def readable(palette: ChartPalette) -> bool:
        inks = [palette.ink, palette.text, palette.muted]
        chips = [contrast(ground, ink) >= 4.5 for ground, ink in palette.chips.values()]
        return all(contrast(ink, palette.background) >= 4.5 for ink in inks) and all(chips)

    assert readable(LIGHT)
    assert readable(DARK)
