"""Facts of the ground we stand on that cost somebody a day, each with its guard."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
SOURCES = sorted((ROOT / "planner").rglob("*.py"))

XCB_PACKAGES = (
    *("libxcb-cursor0", "libxcb-icccm4", "libxcb-image0", "libxcb-keysyms1", "libxcb-randr0"),
    *("libxcb-render-util0", "libxcb-shape0", "libxcb-xinerama0", "libxkbcommon-x11-0"),
)
"""Qt's xcb plugin loads them at run time; without one of them the program aborts on X11."""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from Python 3.12 on")
@pytest.mark.usefixtures("qapp")
def test_void_methods_of_pyside_give_away_no_reference_to_none():
    """PySide6 6.12.0 loses one at each call on Python 3.11, until the interpreter aborts."""
    from PySide6.QtWidgets import QLabel

    label = QLabel()
    before = sys.getrefcount(None)
    for number in range(1000):
        label.setText(str(number))
    assert sys.getrefcount(None) > before - 500


def test_the_oldest_versions_that_are_tested_are_those_that_are_allowed():
    allowed = {}
    for requirement in DEPENDENCIES:
        name, version = re.match(r"([\w-]+)>=([\d.]+)", requirement).groups()
        allowed.setdefault(name.lower(), version)
    tested = [line.split("==") for line in (ROOT / ".ci/oldest.txt").read_text().splitlines() if "==" in line]
    exact = {name.lower(): version for name, version in tested}
    assert set(exact) == set(allowed)
    assert all(f"{exact[name]}.0".startswith(f"{version}.") for name, version in allowed.items())


def test_pyside_is_held_below_6_12_on_python_before_3_12():
    assert "PySide6-Essentials>=6.8.3,<6.12; python_version < '3.12'" in DEPENDENCIES
    assert "PySide6-Essentials>=6.8.3; python_version >= '3.12'" in DEPENDENCIES


def test_only_the_essentials_of_pyside_are_needed():
    assert not [name for name in DEPENDENCIES if re.match(r"PySide6(-Addons)?\b(?!-Essentials)", name)]


@pytest.mark.parametrize("exporter", ["SVGExporter", "ImageExporter", "pyqtgraph.exporters"])
def test_pictures_are_not_made_by_the_exporters_of_pyqtgraph(exporter: str):
    """The first raises, the second leaves tiny legends; our own painter draws every export."""
    assert not [path for path in SOURCES if exporter in path.read_text(encoding="utf-8")]


def test_units_of_axes_are_written_as_text():
    """pyqtgraph puts SI prefixes before a unit it knows of: `units="GiB"` becomes kGiB."""
    assert not [path for path in SOURCES if re.search(r"\bunits=", path.read_text(encoding="utf-8"))]


def test_a_font_is_bundled_with_its_licence():
    fonts = ROOT / "resources" / "fonts"
    assert list(fonts.glob("*.ttf"))
    assert "SIL OPEN FONT LICENSE" in (fonts / "OFL.txt").read_text(encoding="utf-8").upper()


def test_the_readme_names_every_package_that_bare_debian_lacks():
    (line,) = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("apt")]
    named = line.split()
    assert {*XCB_PACKAGES, "libgl1", "libegl1", "libfontconfig1", "fonts-wqy-microhei", "xvfb"} <= set(named)
