"""The shape of the source tree: what may import what, and how large a file may grow."""

import ast
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "planner").rglob("*.py"))

QT_MODULES_OF_PAINTERS = {"PySide6.QtCore", "PySide6.QtGui", "PySide6.QtSvg"}


def room(path: Path) -> str:
    return path.relative_to(ROOT / "planner").as_posix()


def imported_modules(path: Path) -> set[str]:
    """The full names of all modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def qt_modules(path: Path) -> set[str]:
    parts = (name.split(".") for name in imported_modules(path))
    return {".".join(part[:2]) for part in parts if part[0] == "PySide6" and len(part) > 1}


def test_the_top_level_holds_only_what_it_should():
    visible = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert visible - {"build", "dist"} == {"pyproject.toml", "README.md", "planner", "resources", "tests"}


@pytest.mark.parametrize("path", SOURCES, ids=room)
def test_no_file_is_longer_than_400_lines(path: Path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_the_median_file_has_about_120_lines():
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES if path.name != "__init__.py"]
    assert median(lengths) <= 140


def test_no_file_is_named_for_what_has_no_place():
    assert not [path for path in SOURCES if path.stem in {"utils", "util", "helpers", "helper", "misc", "common"}]


@pytest.mark.parametrize("path", [path for path in SOURCES if not room(path).startswith("gui/")], ids=room)
def test_only_painters_use_qt_outside_the_window_and_only_its_drawing(path: Path):
    painter = room(path).startswith("chart/paint") or room(path) == "report/pdf.py"
    assert qt_modules(path) <= (QT_MODULES_OF_PAINTERS if painter else set())


@pytest.mark.parametrize("path", SOURCES, ids=room)
def test_pyqtgraph_is_only_used_by_the_views(path: Path):
    uses = any(name.split(".")[0] == "pyqtgraph" for name in imported_modules(path))
    assert not uses or room(path).startswith("gui/views/")
