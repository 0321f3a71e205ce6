"""Text that must fit: cleaned, shortened or wrapped by whatever measures its width."""

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeAlias

Measure: TypeAlias = Callable[[str, float, bool], float]
"""The width in pixels of a text at a font size in pixels, bold or not."""

ELLIPSIS = "…"
SOFT_HYPHEN = "\u00ad"
_JOINERS = "\u200d\ufe0e\ufe0f"


def one_line(text: str) -> str:
    """`text` without what no chart can show: control characters, line breaks and halves of surrogate pairs."""
    return " ".join("".join(drawable(character) for character in text).split())


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
    """`text` in at most `lines` lines not wider than `width`; what does not fit the last one is elided.

    Lines break at spaces, after `-`, `/` and `_`, at soft hyphens, and between characters of scripts without spaces;
    a word wider than a whole line breaks anywhere.
    """
    return _wrapped(text, width, lines, size, bold, measure)[0]


def wraps_whole(text: str, width: float, lines: int, size: float, bold: bool, measure: Measure) -> bool:
    """Whether `wrap` shows all of `text`, with its words whole."""
    return _wrapped(text, width, lines, size, bold, measure)[1]


def _wrapped(
    text: str, width: float, lines: int, size: float, bold: bool, measure: Measure
) -> tuple[tuple[str, ...], bool]:
    result: list[str] = []
    rest, whole = text.strip(), True
    while rest and len(result) < lines - 1 and measure(_plain(rest), size, bold) > width:
        breaks = [at for at in range(1, len(rest)) if _may_break(rest, at)]
        at = _last_fitting(rest, breaks, width, size, bold, measure)
        whole = whole and at > 0
        at = at or len(_beginning(rest, _last_fitting(rest, range(1, len(rest)), width, size, bold, measure)))
        if at == 0:
            break
        result.append(_line(rest[:at]))
        rest = rest[at:].strip()
    last = elide(_plain(rest), width, size, bold, measure)
    return tuple(line for line in (*result, last) if line), whole and last == _plain(rest)


def _last_fitting(text: str, places: Sequence[int], width: float, size: float, bold: bool, measure: Measure) -> int:
    """The last of the ascending `places` before which `text` fits in `width`, or 0."""
    fitting = bisect_right(places, width, key=lambda at: measure(_line(text[:at]), size, bold))
    return places[fitting - 1] if fitting else 0


def _plain(text: str) -> str:
    return text.replace(SOFT_HYPHEN, "")


def _line(beginning: str) -> str:
    hyphen = "-" if beginning.endswith(SOFT_HYPHEN) else ""
    return _plain(beginning).rstrip() + hyphen


def _may_break(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    wide = unicodedata.east_asian_width(before) in "WF" or unicodedata.east_asian_width(after) in "WF"
    return after == " " or before in f" -/_{SOFT_HYPHEN}" or (wide and len(_beginning(text, at)) == at)


def _beginning(text: str, length: int) -> str:
    """The first characters, without tearing off an accent or a part of a joined emoji."""
    while 0 < length < len(text) and (
        text[length] in _JOINERS or text[length - 1] == _JOINERS[0] or unicodedata.combining(text[length])
    ):
        length -= 1
    return text[:length].rstrip()


def drawable(character: str) -> str:
    """What a picture or a page can show of a character: itself, a space, or nothing."""
    category = unicodedata.category(character)
    if category == "Cs" or ord(character) & 0xFFFE == 0xFFFE:  # XML, and so SVG, cannot hold these
        return ""
    return " " if category == "Cc" else character
