"""The SVG read back as data: the picture's geometry is the plan's."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import Element, parse

import pytest

from planner.chart.paint.export import export_chart
from planner.chart.spec import ChartSpec
from planner.units import GIB

Chart = Callable[..., ChartSpec]
SVG = "{http://www.w3.org/2000/svg}"
WIDTH, HEIGHT = 960, 560
NASTY = "<b>&\"quotes\"</b> 'x' \U0001f680 深度求索大规模混合专家语言模型 " + "a-very-long-name/" * 30


def written(spec: ChartSpec, folder: Path, **options: int) -> Element:
    path = folder / "chart.svg"
    export_chart(spec, path, **options)
    return parse(path).getroot()


def groups(root: Element, paint: str, colour: str) -> list[Element]:
    return [group for group in root.iter(f"{SVG}g") if group.get(paint) == colour.lower()]


def rects(root: Element, colour: str) -> list[tuple[float, float, float, float]]:
    """Filled rectangles of a colour: x, y, width, height."""
    found = [rect for group in groups(root, "fill", colour) for rect in group.findall(f"{SVG}rect")]
    return [tuple(float(rect.get(name, "")) for name in ("x", "y", "width", "height")) for rect in found]  # type: ignore[misc]


def lines(root: Element, colour: str) -> list[list[float]]:
    """Straight lines of a colour: x1, y1, x2, y2."""
    found = [line for group in groups(root, "stroke", colour) for line in group.findall(f"{SVG}polyline")]
    return [[float(number) for number in re.split(r"[ ,]+", line.get("points", "").strip())] for line in found]


def texts(root: Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def ends(text: Element) -> tuple[float, float]:
    """Where a text begins and ends."""
    x, width = float(text.get("x", "")), float(text.get("textLength", ""))
    before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")] * width
    return x - before, x - before + width


@pytest.fixture
def drawn(mockup: Chart, tmp_path: Path) -> Element:
    return written(mockup(), tmp_path)


@pytest.fixture
def pixels_per_gib(drawn: Element) -> float:
    """Measured from the grid, whose lines are 20 GiB apart."""
    ys = sorted({line[1] for line in lines(drawn, "#ECEFF3")}, reverse=True)
    assert len(ys) == 5
    return (ys[0] - ys[1]) / 20


def test_every_bar_is_as_high_as_the_axis_says(mockup: Chart, drawn: Element, pixels_per_gib: float) -> None:
    spec = mockup()
    for entry in spec.legend:
        sizes = [
            segment.size_bytes / GIB
            for bar in spec.bars
            for segment in bar.segments
            if segment.component == entry.component
        ]
        _swatch, *bars = rects(drawn, entry.colour)
        assert [height for _, _, _, height in bars] == [pytest.approx(size * pixels_per_gib, abs=0.5) for size in sizes]


def test_segments_stand_on_one_another_from_the_axis_upwards(drawn: Element, pixels_per_gib: float) -> None:
    zero = max(line[1] for line in lines(drawn, "#ECEFF3"))
    weights = rects(drawn, "#4477AA")[1:]
    gradients = rects(drawn, "#66CCEE")[1:]
    assert [y + height for _, y, _, height in weights] == [pytest.approx(zero, abs=0.01)] * 5
    assert gradients[0][1] + gradients[0][3] == pytest.approx(zero - 15 * pixels_per_gib, abs=0.5)


def test_capacity_lines_lie_at_their_values(drawn: Element, pixels_per_gib: float) -> None:
    zero = max(line[1] for line in lines(drawn, "#ECEFF3"))
    level = {round(y1, 2) for _, y1, _, y2 in lines(drawn, "#1C2430") if y1 == y2}
    for gib in (23.5, 44.4, 79.1):
        assert any(y == pytest.approx(zero - gib * pixels_per_gib, abs=0.5) for y in level)


def test_the_overflow_is_hatched_above_the_judges_line_only(drawn: Element, pixels_per_gib: float) -> None:
    zero = max(line[1] for line in lines(drawn, "#ECEFF3"))
    hatches = lines(drawn, "#C0262D")
    assert len(hatches) > 10
    lowest = max(max(line[1], line[3]) for line in hatches)
    highest = min(min(line[1], line[3]) for line in hatches)
    assert lowest == pytest.approx(zero - 44.4 * pixels_per_gib, abs=0.5)
    assert highest == pytest.approx(zero - 59.1 * pixels_per_gib, abs=0.5)


def test_the_document_is_as_large_as_asked_at_96_dots_per_inch(drawn: Element) -> None:
    """QSvgGenerator's default of 72 would say 338.667 mm and draw text and geometry at odds."""
    assert drawn.get("viewBox") == f"0 0 {WIDTH} {HEIGHT}"
    assert drawn.get("width") == "254mm"
    assert drawn.get("height") == "148.167mm"
    sizes = {text.get("font-size") for text in drawn.iter(f"{SVG}text")}
    assert sizes == {"17", "12", "14"}


def test_text_is_text_in_the_bundled_family_with_a_generic_one_behind_it(drawn: Element) -> None:
    assert {"59.1", "OOM +14.7", "L40S · 44.4 GiB", "QLoRA", "VRAM per GPU (GiB)"} <= set(texts(drawn))
    families = {text.get("font-family") for text in drawn.iter(f"{SVG}text")}
    assert len(families) == 1
    family = families.pop() or ""
    assert family.startswith("Inter, ")
    assert family.endswith("sans-serif")


def test_no_text_leaves_the_picture(mockup: Chart, tmp_path: Path) -> None:
    root = written(mockup(title=NASTY, subtitle=NASTY, footnote=NASTY), tmp_path)
    for group in root.iter(f"{SVG}g"):
        if group.get("transform", "").startswith("matrix(1,0,0,1"):
            for text in group.findall(f"{SVG}text"):
                left, right = ends(text)
                assert left >= 0
                assert right <= WIDTH


def test_a_text_keeps_its_middle_and_its_width_in_a_viewer_without_the_font(drawn: Element) -> None:
    chip = next(text for text in drawn.iter(f"{SVG}text") if text.text == "OOM +14.7")
    total = next(text for text in drawn.iter(f"{SVG}text") if text.text == "59.1")
    title = next(text for text in drawn.iter(f"{SVG}text") if (text.text or "").startswith("Peak VRAM"))
    assert [text.get("text-anchor") for text in (chip, total, title)] == ["middle", "middle", "start"]
    assert float(chip.get("x", "")) == pytest.approx(float(total.get("x", "")), abs=0.01)
    assert sum(ends(chip)) / 2 == pytest.approx(float(chip.get("x", "")))
    assert ends(title)[0] == pytest.approx(22)


def test_outlines_leave_no_text_and_change_no_bar(mockup: Chart, drawn: Element, tmp_path: Path) -> None:
    outlined = written(mockup(), tmp_path, outlines=True)
    assert not texts(outlined)
    assert rects(outlined, "#4477AA") == rects(drawn, "#4477AA")


def test_names_with_markup_quotes_emoji_and_chinese_stay_a_valid_document(mockup: Chart, tmp_path: Path) -> None:
    root = written(mockup(title=NASTY, captions={"training": NASTY}), tmp_path)
    assert root.findtext(f"{SVG}title") == NASTY.strip()
    description = root.findtext(f"{SVG}desc") or ""
    assert 'Training (<b>&"quotes"</b>' in description
    assert "out of memory by 14.7 GiB" in description
    assert any("深度求索" in text for text in texts(root))


def test_the_size_can_be_chosen(mockup: Chart, tmp_path: Path) -> None:
    assert written(mockup(), tmp_path, width=640, height=400).get("viewBox") == "0 0 640 400"
