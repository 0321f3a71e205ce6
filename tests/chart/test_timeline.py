"""The memory of one phase over the moments of its step."""

import pytest

from planner.catalog import load_catalog
from planner.chart.geometry import Rect
from planner.chart.layout import lay_out
from planner.chart.table import chart_description, chart_table
from planner.chart.timeline import timeline_chart
from planner.engine.estimate import estimate
from planner.scenario.starting import starting_scenario


@pytest.fixture(scope="module")
def plan():
    return estimate(starting_scenario(), load_catalog())


@pytest.fixture(scope="module")
def gpus():
    hardware = load_catalog().hardware
    return tuple(hardware.resolve(name) for name in ("l40s", "h100-sxm5-80gb"))


def chart_of(plan, gpus, phase):
    return timeline_chart(plan, phase, gpus=gpus, judge="l40s")


@pytest.mark.parametrize("phase", ["design", "training", "fine_tuning", "evaluation", "serving"])
def test_steps_are_the_moments_of_the_plan_and_their_segments_add_up(plan, gpus, phase):
    chart, figures = chart_of(plan, gpus, phase), plan.phases[phase]
    assert [bar.moment for bar in chart.bars] == list(figures.moments)
    for bar in chart.bars:
        held = {segment.component: segment.size_bytes for segment in bar.segments}
        overhead = held.pop("overhead")
        assert sum(held.values()) == figures.moments[bar.moment].allocated_bytes
        assert overhead == figures.components["overhead"]
        assert bar.total_bytes == sum(segment.size_bytes for segment in bar.segments)


def test_only_the_peak_is_marked_and_has_the_process_the_band_and_the_verdict(plan, gpus):
    chart, peak = chart_of(plan, gpus, "training"), plan.phases["training"].peak
    (marked,) = [bar for bar in chart.bars if bar.peak]
    assert marked.moment == peak.moment == "backward"
    assert (marked.total_bytes, marked.high_bytes) == (peak.process_bytes, peak.high_bytes)
    assert marked.label_above == "peak 44.6"
    assert marked.verdict
    assert not any(bar.verdict or bar.chip or bar.has_band for bar in chart.bars if not bar.peak)


def test_serving_loads_fills_the_cache_and_decodes(plan, gpus):
    assert [bar.name for bar in chart_of(plan, gpus, "serving").bars] == ["Load", "Prefill", "Decode"]


def test_what_uses_no_vram_has_no_chart(plan, gpus):
    assert chart_of(plan, gpus, "preprocessing") is None


def test_steps_touch_and_fill_the_plot(plan, gpus):
    layout = lay_out(chart_of(plan, gpus, "training"), Rect(0, 0, 900, 500), lambda text, size, _bold: len(text) * size)
    edges = [(shape.segments[0][1].x, shape.segments[0][1].right) for shape in layout.bars]
    assert edges[0][0] == pytest.approx(layout.plot.x)
    assert edges[-1][1] == pytest.approx(layout.plot.right)
    assert [right for _, right in edges[:-1]] == pytest.approx([left for left, _ in edges[1:]])
    assert [line.x1 for line in layout.bounds] == pytest.approx([left for left, _ in edges[1:]])


def test_table_and_description_tell_each_moment(plan, gpus):
    chart = chart_of(plan, gpus, "training")
    rows = [line.split("\t") for line in chart_table(chart).splitlines()]
    assert rows[0][0] == "Moment"
    assert rows[0][-2:] == ["Total (GiB)", "Verdict"]
    assert [row[0] for row in rows[1:6]] == [bar.name for bar in chart.bars]
    assert "Optimizer step: " in chart_description(chart)
