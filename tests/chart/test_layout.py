"""Whatever the plan, no label covers another, a bar, or leaves the picture; heights are the axis's."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.chart.geometry import Rect
from planner.chart.layout import ChartLayout, lay_out
from planner.chart.spec import Axis, Bar, CapacityLine, ChartSpec, Chip, LegendEntry, Segment, Tick
from planner.engine.plan import PHASES
from planner.engine.term import COMPONENTS

Chart = Callable[..., ChartSpec]
KIB, GIB, TIB = 2**10, 2**30, 2**40
NAMES = ("L40S", "H100", "RTX PRO 6000 Blackwell Workstation Edition", "华为昇腾 910B 训练卡", "<b>&\"'", "🚀", "")


def measure(text: str, size: float, bold: bool) -> float:
    """About as wide as a real typeface: wide characters take a whole em."""
    ems = sum(1.0 if ord(character) > 0x2E80 else 0.58 for character in text)
    return ems * size * (1.06 if bold else 1.0)


def picture(spec: ChartSpec, width: float = 960, height: float = 560) -> ChartLayout:
    return lay_out(spec, Rect(0, 0, width, height), measure)


sizes = st.one_of(
    st.sampled_from([0, 1, KIB, GIB // 50, 24 * GIB, 80 * GIB, 10 * TIB]),
    st.integers(min_value=0, max_value=200 * GIB),
)


@st.composite
def charts(draw: st.DrawFn) -> ChartSpec:
    """Charts as `build` could make them, of any sizes and names."""
    gpus = draw(st.lists(sizes.filter(bool), max_size=6))
    if gpus and draw(st.booleans()):  # several in the same place
        gpus = [gpus[0] + draw(st.integers(0, 3)) * (GIB // 10) for _ in gpus]
    judge = draw(st.integers(0, max(len(gpus) - 1, 0)))
    lines = tuple(
        CapacityLine(str(index), draw(st.sampled_from(NAMES)), "79.2 GiB", size, index == judge)
        for index, size in enumerate(sorted(gpus))
    )
    limit = lines[judge].capacity_bytes if lines else None
    bars = []
    for phase in draw(st.lists(st.sampled_from(PHASES), min_size=1, max_size=6, unique=True)):
        parts, top = [], 0
        for component in draw(st.lists(st.sampled_from(COMPONENTS), max_size=4, unique=True)):
            size = draw(sizes)
            parts.append(Segment(component, component, top, size, "1.0 GiB"))
            top += size
        over = limit is not None and top > limit
        bars.append(
            Bar(
                phase,
                phase,
                draw(
                    st.sampled_from(["Training", "Data pre\u00adprocessing", "Design & validation", "一二三四五六七八"])
                ),
                "Train",
                draw(st.sampled_from(["", "QLoRA", "32 × 8k", "连续批处理与分页注意力机制的推理服务"])),
                tuple(parts),
                top,
                draw(st.sampled_from(["0.4", "59.1", "10\u202f240", "1\u202f000\u202f000"])),
                int(top * draw(st.floats(0.5, 1))),
                int(top * draw(st.floats(1, 1.5))),
                "" if top else "host RAM only",
                Chip("oom", "OOM +10\u202f240", "+10\u202f240") if over else None,
                "",
                limit,
            )
        )
    tallest = max(bar.top_bytes for bar in bars)
    if lines and lines[-1].capacity_bytes > tallest and draw(st.booleans()):
        lines = (*lines[:-1], replace(lines[-1], beyond=True))
    largest = max([tallest] + [line.capacity_bytes for line in lines if not line.beyond] + [1])
    maximum = int(largest * 1.2) + 1
    axis = Axis("VRAM per GPU (GiB)", "GiB", (Tick(0, "0"), Tick(maximum // 2, "5"), Tick(maximum, "10")), maximum)
    legend = tuple(LegendEntry(component, component, "#000000", "solid") for component in COMPONENTS)
    title = draw(st.sampled_from(["Title", "很长的标题" * 40, "word " * 90]))
    return ChartSpec(title, title, tuple(bars), lines, axis, legend, draw(st.sampled_from(["", "note", title])))


def labels_of(layout: ChartLayout) -> list[Rect]:
    rects = [label.rect for label in (*layout.heading, *layout.footnote)]
    rects += [label.rect for _, _, label in layout.legend]
    rects += [swatch for _, swatch, _ in layout.legend]
    for shape in layout.bars:
        rects += [label.rect for label in (*shape.labels.all, *shape.names)]
    rects += [shape.label.label.rect for shape in layout.capacities]
    return [rect for rect in rects if rect.width > 0 and rect.height > 0]


@given(charts(), st.sampled_from([(960, 560), (620, 420), (1600, 900), (700, 300)]))
def test_no_label_covers_another_or_leaves_the_picture(spec: ChartSpec, size: tuple[int, int]) -> None:
    layout = picture(spec, *size)
    rects = labels_of(layout)
    for one, other in combinations(rects, 2):
        assert not one.overlaps(other, 0.01), (one, other)
    area = Rect(0, 0, *size)
    assert all(area.contains(rect, 0.01) for rect in rects)


@given(charts(), st.sampled_from([(960, 560), (620, 420), (1600, 900)]))
def test_labels_stand_clear_of_bars_and_lines(spec: ChartSpec, size: tuple[int, int]) -> None:
    layout = picture(spec, *size)
    lines = [piece for capacity in layout.capacities for piece in capacity.pieces]
    lines += [piece for shape in layout.bars for piece in shape.limit] + list(layout.grid)
    for shape in layout.bars:
        for label in shape.labels.all:
            column = shape.slot.column
            assert column.x - 0.01 <= label.rect.x
            assert label.rect.right <= column.right + 0.01
            for line in lines:
                strikes = label.rect.y < line.y1 < label.rect.bottom
                assert not (strikes and line.x1 < label.rect.right and line.x2 > label.rect.x)


@given(charts())
def test_labels_stand_clear_of_the_bar_and_its_whisker_where_there_is_room(spec: ChartSpec) -> None:
    for shape in picture(spec, 1200, 900).bars:
        tops = [rect.y for _, rect in shape.segments] + ([shape.whisker.y1] if shape.whisker else [])
        for label in shape.labels.all:
            assert all(label.rect.bottom <= top + 0.01 for top in tops)


@given(charts())
def test_every_height_is_in_the_proportion_of_the_axis(spec: ChartSpec) -> None:
    layout = picture(spec)
    per_byte = layout.plot.height / spec.axis.maximum_bytes
    for shape in layout.bars:
        for segment, rect in shape.segments:
            assert rect.height == pytest.approx(segment.size_bytes * per_byte, abs=1e-6)
            assert rect.bottom == pytest.approx(layout.plot.bottom - segment.start_bytes * per_byte, abs=1e-6)
    for capacity in layout.capacities:
        line = capacity.label.line
        y = layout.plot.y if line.beyond else layout.plot.bottom - line.capacity_bytes * per_byte
        assert all(piece.y1 == piece.y2 == pytest.approx(y) for piece in capacity.pieces)


def test_a_total_at_a_capacity_line_moves_above_it(mockup: Chart) -> None:
    layout = picture(mockup())
    fine_tuning = layout.bars[3].labels.total
    rtx_4090 = layout.capacities[2]
    assert fine_tuning
    assert rtx_4090.label.line.name == "RTX 4090"
    assert fine_tuning.rect.bottom < rtx_4090.label.y


def test_labels_of_near_capacities_are_spread_with_leaders(mockup: Chart, gpu: Callable[..., Any]) -> None:
    near = [gpu("A", 79.2), gpu("B", 79.1), gpu("C", 79.15), gpu("D", 20)]
    layout = picture(mockup(gpus=near))
    slanted = [abs(shape.label.leader.y1 - shape.label.leader.y2) > 1 for shape in layout.capacities]
    assert slanted == [True, False, True, False]
    assert [shape.label.line.name for shape in layout.capacities] == ["A", "C", "B", "D"]


def test_a_capacity_label_loses_its_name_before_its_number(mockup: Chart, gpu: Callable[..., Any]) -> None:
    label = picture(mockup(gpus=[gpu("A very long name of a GPU that nobody can remember", 44.4)])).capacities[0].label
    assert label.label.text.endswith("… · 44.4 GiB")


def test_a_narrow_chart_takes_short_names_for_all_phases(mockup: Chart) -> None:
    wide, narrow = picture(mockup()), picture(mockup(), 500, 400)
    assert wide.bars[0].names[0].text == "Design &"
    assert [shape.names[0].text for shape in narrow.bars] == ["Design", "Data", "Train", "Tune", "Eval", "Serve"]
    assert narrow.bars[2].labels.chip
    assert narrow.bars[2].labels.chip.text == "+14.7"


def test_a_serving_budget_below_the_capacity_line_is_marked(
    phase: Callable[..., Any], plan: Callable[..., Any], gpu: Callable[..., Any]
) -> None:
    from planner.chart.build import lifecycle_chart

    phases = {
        "training": phase({"weights": 10}, capacities={"h100": 80}),
        "serving": phase({"weights": 75}, capacities={"h100": 72}),
    }
    training, serving = picture(lifecycle_chart(plan(phases), gpus=[gpu("H100", 80, "h100")], judge="h100")).bars
    assert training.limit == ()
    assert serving.overflow
    assert [line.y1 for line in serving.limit] == [pytest.approx(serving.overflow.bottom)]


@pytest.mark.parametrize("size", [(1, 1), (60, 40), (200, 2000), (3000, 120)])
def test_a_picture_of_any_size_can_be_laid_out(mockup: Chart, size: tuple[int, int]) -> None:
    assert len(picture(mockup(), *size).bars) == 6
