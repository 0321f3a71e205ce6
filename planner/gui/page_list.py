"""The pages in the middle of the window, as data: what each is called, how it is reached and what makes it.

What makes a page is imported when it is first looked at: together they take longer than the window's start may.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.chart.spec import Resource

if TYPE_CHECKING:
    from planner.gui.session import Session
    from planner.gui.theme import Theme
    from planner.gui.views.page_view import PageView

LIFECYCLE, TIMELINE, EXPLORE, HOST, FLEET, COMPARE = "lifecycle", "timeline", "explore", "host", "fleet", "compare"


@dataclass(frozen=True, slots=True)
class Page:
    """One page: the text of its tab, of its entry in the menu (`&` before the access key), its keys and its tip.

    `resource` is what a person looks at on arriving. The first page has no `build`; it is there from the start.
    """

    name: str
    title: str
    text: str
    keys: str
    tip: str
    build: "Callable[[Session, Theme], PageView] | None"
    resource: Resource = "vram"


def _timeline(session: "Session", theme: "Theme") -> "PageView":
    from planner.gui.views.timeline import TimelineView

    return TimelineView(session, theme)


def _explore(session: "Session", theme: "Theme") -> "PageView":
    from planner.gui.views.explore import ExploreView

    return ExploreView(session, theme)


def _host(session: "Session", theme: "Theme") -> "PageView":
    from planner.gui.views.host import HostView

    return HostView(session, theme)


def _fleet(session: "Session", theme: "Theme") -> "PageView":
    from planner.gui.views.fleet import FleetView

    return FleetView(session, theme)


def _compare(session: "Session", theme: "Theme") -> "PageView":
    from planner.gui.views.compare import CompareView

    return CompareView(session, theme)


PAGES = (
    Page(LIFECYCLE, "Lifecycle", "Li&fecycle", "Ctrl+1", "VRAM by lifecycle phase", None),
    Page(
        TIMELINE,
        "Step timeline",
        "Step &timeline",
        "Ctrl+2",
        "VRAM over the moments of one phase's step",
        _timeline,
    ),
    Page(
        EXPLORE,
        "Explore",
        "&Explore",
        "Ctrl+3",
        "VRAM over the values of one field, and the largest that fits",
        _explore,
    ),
    Page(
        HOST,
        "Host && storage",
        "&Host and storage",
        "Ctrl+4",
        "Host RAM and storage by lifecycle phase",
        _host,
        "host_ram",
    ),
    Page(
        FLEET,
        "Fleet",
        "Fleet of &GPUs",
        "Ctrl+5",
        "Every GPU of the catalogue: how many each phase needs",
        _fleet,
    ),
    Page(
        COMPARE,
        "Compare",
        "Co&mpare",
        "Ctrl+6",
        "Plans side by side: what each needs, and which fields differ",
        _compare,
    ),
)
"""In the order of their tabs."""
