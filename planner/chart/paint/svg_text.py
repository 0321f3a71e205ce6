"""Text in SVG files, made to keep its place in viewers that do not have the bundled font.

Qt writes every text from its left end, in one family, with no width. Elsewhere another font, wider or narrower, takes
its place: then a centred text would leave its chip. So each text is told its anchor, its width and other families.
"""

import re
from collections.abc import Iterable
from html import unescape

from planner.chart.labels import Anchor, Label
from planner.chart.paint.fonts import FAMILY, text_width

_FAMILIES = f"{FAMILY}, 'Noto Sans', 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
_TEXT = re.compile(
    r'<text (?P<before>[^>]*?) x="(?P<x>[^"]*)" (?P<between>[^>]*?)font-family="[^"]*" font-size="(?P<size>[^"]*)" '
    r'font-weight="(?P<weight>\d+)"(?P<after>[^>]*)>(?P<text>[^<]*)</text>'
)
_ANCHOR_NAMES: dict[Anchor, str] = {"left": "start", "middle": "middle", "right": "end"}
_SHARE_BEFORE_ANCHOR: dict[Anchor, float] = {"left": 0.0, "middle": 0.5, "right": 1.0}


def with_anchored_text(svg: str, labels: Iterable[Label]) -> str:
    """`svg` with each text set from the anchor that its label has, and as wide as it is in the bundled font."""
    anchors: dict[tuple[str, bool], Anchor] = {(label.text, label.bold): label.anchor for label in labels}

    def anchored(found: re.Match[str]) -> str:
        text, bold = unescape(found["text"]), int(found["weight"]) >= 600
        anchor = anchors.get((text, bold), "left")
        width = text_width(text, float(found["size"]), bold)
        x = float(found["x"]) + width * _SHARE_BEFORE_ANCHOR[anchor]
        return (
            f'<text {found["before"]} x="{x:.2f}" {found["between"]}font-family="{_FAMILIES}" '
            f'font-size="{found["size"]}" font-weight="{found["weight"]}" text-anchor="{_ANCHOR_NAMES[anchor]}" '
            f'textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs"{found["after"]}>{found["text"]}</text>'
        )

    return _TEXT.sub(anchored, svg)
