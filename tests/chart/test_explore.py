"""A curve over the values of a field: its points, what is marked, and where both lie."""

import pytest

from planner.catalog import load_catalog
from planner.chart.explore import explore_chart
from planner.chart.geometry import Rect
from planner.chart.labels import capacity_y, value_y
from planner.chart.layout import lay_out
from planner.chart.paint.export import export_chart
from planner.chart.table import chart_description, chart_table
from planner.engine.estimate import estimate
from planner.engine.explore import explore, own_value, values_of
from planner.scenario.starting import starting_scenario

PATH = ("phases", "serving", "concurrent_sequences")
GPUS = ("l40s", "h100-sxm5-80gb")


@pytest.fixture(scope="module")
def found():
    scenario = starting_scenario()
    return explore(scenario, PATH, values_of(scenario, PATH, None), load_catalog(), GPUS)


@pytest.fixture(scope="module")
def chart(found):
    scenario, catalog = starting_scenario(), load_catalog()
    gpus = tuple(catalog.hardware.resolve(name) for name in GPUS)
    own = own_value(scenario, PATH)
    plan = estimate(scenario, catalog)
    return explore_chart(found, plan, "Concurrent requests", own, gpus=gpus, judge="l40s")


def laid_out(chart):
    return lay_out(chart, Rect(0, 0, 900, 560), lambda text, size, _bold: 0.5 * len(text) * size)


def test_points_hold_the_numbers_of_the_sweep(chart, found):
    sizes = {str(point.value): (point.process_bytes, point.low_bytes, point.high_bytes) for point in found.points}
    assert len(chart.bars) > 10
    for bar in chart.bars:
        assert (bar.total_bytes, bar.low_bytes, bar.high_bytes) == sizes[bar.key]


def test_the_largest_that_fits_each_gpu_is_named(chart, found):
    largest = {one.gpu: one.largest for one in found.limits}
    assert [mark.label for mark in chart.crossings] == [
        f"max {largest['l40s']} on L40S",
        f"max {largest['h100-sxm5-80gb']} on H100",
    ]


def test_points_far_beyond_every_gpu_are_left_out_but_for_the_first(chart):
    largest = max(line.capacity_bytes for line in chart.capacities)
    assert [bar.total_bytes > 1.6 * largest for bar in chart.bars] == [False] * (len(chart.bars) - 1) + [True]


def test_points_lie_at_their_values_and_labels_on_no_line_and_not_on_one_another(chart):
    layout = laid_out(chart)
    for point in layout.curve.points:
        assert point.y == pytest.approx(value_y(point.bar.total_bytes, chart.axis, layout.plot))
        assert point.high_y <= point.y <= point.low_y
    rects = [mark.label.rect for mark in layout.curve.marks]
    for index, rect in enumerate(rects):
        assert not any(rect.overlaps(other) for other in rects[:index])
        for line in chart.capacities:
            assert not rect.y < capacity_y(line, chart.axis, layout.plot) < rect.bottom


def test_where_the_plan_is_now_is_a_line_through_its_point(chart):
    layout = laid_out(chart)
    (line,) = layout.bounds
    assert line.x1 == next(point.x for point in layout.curve.points if point.bar.key == chart.current == "32")


def test_table_and_description_tell_every_point(chart):
    rows = [line.split("\t") for line in chart_table(chart).splitlines()]
    assert rows[0] == ["Value", "Peak (GiB)", "Low (GiB)", "High (GiB)", "Verdict"]
    assert rows[1][0] == "Concurrent requests 1"
    assert rows[1][-1] == "fits"
    assert "Concurrent requests 32: 48.7 GiB; out of memory." in chart_description(chart)


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_it_is_written_in_every_format(chart, tmp_path, suffix):
    path = tmp_path / f"curve.{suffix}"
    export_chart(chart, path)
    if suffix == "svg":
        assert chart.crossings[0].label in path.read_text("utf-8")
    assert path.stat().st_size > 1000
