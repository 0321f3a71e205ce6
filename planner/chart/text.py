"""Text that must fit: cleaned, shortened or wrapped by whatever measures its width."""

import unicodedata
from collections.abc import Callable
from typing import TypeAlias

Measure: TypeAlias = Callable[[str, float, bool], float]
"""The width in pixels of a text at a font size in pixels, bold or not."""

ELLIPSIS = "…"
_JOINERS = "\u200d\ufe0e\ufe0f"


def one_line(text: str) -> str:
    """`text` without what no chart can show: control characters, line breaks and halves of surrogate pairs."""
    return " ".join("".join(_drawable(character) for character in text).split())


def elide(text: str, width: float, size: float, bold: bool, measure: Measure) -> str:
    """The longest beginning of `text` that is not wider than `width`, with `…` where something was left out."""
    if measure(text, size, bold) <= width:
        return text
    fitting, too_long = 0, len(text)
    while too_long - fitting > 1:
        middle = (fitting + too_long) // 2
        if measure(_beginning(text, middle) + ELLIPSIS, size, bold) <= width:
            fitting = middle
        else:
            too_long = middle
    shortened = _beginning(text, fitting)
    return shortened + ELLIPSIS if shortened else (ELLIPSIS if measure(ELLIPSIS, size, bold) <= width else "")


def wrap(text: str, width: float, lines: int, size: float, bold: bool, measure: Measure) -> tuple[str, ...]:
    """`text` in at most `lines` lines not wider than `width`, broken at spaces; what is left over is elided."""
    result: list[str] = []
    words = text.split()
    while words and len(result) < lines - 1:
        taken = 1
        while taken < len(words) and measure(" ".join(words[: taken + 1]), size, bold) <= width:
            taken += 1
        if taken == 1 and measure(words[0], size, bold) > width:
            break
        result.append(" ".join(words[:taken]))
        words = words[taken:]
    if words:
        result.append(elide(" ".join(words), width, size, bold, measure))
    return tuple(line for line in result if line)


def _beginning(text: str, length: int) -> str:
    """The first characters, without tearing off an accent or a part of a joined emoji."""
    while 0 < length < len(text) and (
        text[length] in _JOINERS or text[length - 1] == _JOINERS[0] or unicodedata.combining(text[length])
    ):
        length -= 1
    return text[:length].rstrip()


def _drawable(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs" or ord(character) & 0xFFFE == 0xFFFE:  # XML, and so SVG, cannot hold these
        return ""
    return " " if category == "Cc" else character
