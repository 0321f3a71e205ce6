"""PDF, errors for people, and painting without an application of one's own."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.chart.paint.export import export_chart
from planner.chart.spec import ChartSpec
from planner.errors import PlannerError

Chart = Callable[..., ChartSpec]


def test_a_pdf_is_one_page_of_the_charts_size_with_embedded_fonts(mockup: Chart, tmp_path: Path) -> None:
    path = tmp_path / "chart.pdf"
    export_chart(mockup(title="Plan (draft) <1>"), path)
    content = path.read_bytes()
    assert content.startswith(b"%PDF-1.6")
    assert len(re.findall(rb"/Type /Page\b", content)) == 1
    box = re.search(rb"/MediaBox \[([^\]]*)\]", content)
    assert box
    assert [float(number) for number in box[1].split()] == [0, 0, 960 * 72 / 96, 560 * 72 / 96]
    for face in (b"Inter-Regular", b"Inter-SemiBold"):
        assert face in content
    assert b"/FontFile2" in content
    assert "Plan (draft) <1>".encode("utf-16-be") in content.replace(b"\\", b"")


def test_the_suffix_may_be_in_capitals(mockup: Chart, tmp_path: Path) -> None:
    export_chart(mockup(), tmp_path / "CHART.PDF")
    assert (tmp_path / "CHART.PDF").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("name", ["chart", "chart.jpeg", "chart.svg.txt"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(mockup: Chart, tmp_path: Path, name: str) -> None:
    with pytest.raises(PlannerError, match=re.escape(".png, .svg, .pdf")):
        export_chart(mockup(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_in_the_way_is_named(mockup: Chart, tmp_path: Path) -> None:
    (tmp_path / "chart.png").mkdir()
    with pytest.raises(PlannerError, match="folder"):
        export_chart(mockup(), tmp_path / "chart.png")


def test_a_missing_folder_is_named(mockup: Chart, tmp_path: Path) -> None:
    with pytest.raises(PlannerError, match="missing"):
        export_chart(mockup(), tmp_path / "missing" / "chart.svg")


def test_a_failed_export_leaves_the_file_that_was_there(
    mockup: Chart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chart.svg"
    path.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(PlannerError, match="No space left"):
        export_chart(mockup(), path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [(0, 560), (960, -1), (100_000, 100_000)])
def test_a_picture_that_cannot_be_made_is_refused(mockup: Chart, tmp_path: Path, size: tuple[int, int]) -> None:
    with pytest.raises(PlannerError, match="another size"):
        export_chart(mockup(), tmp_path / "chart.png", width=size[0], height=size[1])
    assert not list(tmp_path.iterdir())


def test_charts_are_painted_without_a_display_or_an_application(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from planner.chart.build import lifecycle_chart\n"
        "from planner.chart.paint import export_chart\n"
        "from planner.engine.plan import ModelSummary, Plan\n"
        "spec = lifecycle_chart(Plan('empty', ModelSummary(0, 0, 0, 0, 0, 0), {}), gpus=(), judge='')\n"
        "for name in ('a.png', 'a.svg', 'a.pdf'):\n"
        "    export_chart(spec, Path(sys.argv[1]) / name)\n"
        "print([module for module in sys.modules if 'Widgets' in module or 'pyqtgraph' in module])\n"
    )
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pdf", "a.png", "a.svg"]
