from dataclasses import replace
from io import BytesIO

import pytest
from openpyxl import load_workbook
from pptx import Presentation
from pptx.enum.chart import XL_CHART_TYPE

from planner.report.parts import Report
from planner.report.pptx import pptx_report
from planner.report.progress import CalledOffError
from planner.report.write import write_report
from planner.units import GIB


def opened(report: Report):
    return Presentation(BytesIO(pptx_report(report)))


def texts(slide) -> list[str]:
    """Every text of a slide, those in tables too."""
    found = [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
    for shape in slide.shapes:
        if shape.has_table:
            found += [cell.text for row in shape.table.rows for cell in row.cells]
    return found


def charts(slide) -> list:
    return [shape.chart for shape in slide.shapes if shape.has_chart]


@pytest.fixture(scope="module")
def deck(report):
    return opened(report)


@pytest.fixture(scope="module")
def hostile_deck(hostile_report):
    return opened(hostile_report)


def test_a_summary_is_followed_by_a_slide_for_each_phase(deck, report):
    titles = [slide.shapes.title.text_frame.text for slide in deck.slides]
    assert titles[0] == "Llama 3.1 8B on one node"
    assert [title.split(" · ")[0] for title in titles[1:-1]] == [part.title for part in report.phases]
    assert titles[-1] == "How to reproduce it"


def test_the_summary_says_what_does_not_fit_and_shows_the_verdicts(deck, report):
    told = texts(deck.slides[0])
    assert any(report.summary[0] in text for text in told)
    assert "out of memory by 8.3 GiB" in told


def test_the_chart_is_a_native_one_with_the_components_of_every_phase(deck, report):
    (chart,) = charts(deck.slides[0])
    bars, lines = chart.plots
    assert chart.chart_type == XL_CHART_TYPE.COLUMN_STACKED
    drawn = {series.name: series.values for series in bars.series}
    serving = report.phases[-1]
    assert drawn["KV cache"][-1] == pytest.approx(serving.components["kv_cache"] / GIB)
    sums = [sum(values) for values in zip(*drawn.values(), strict=True)]
    assert sums == pytest.approx([part.peak.process_bytes / GIB for part in report.phases])
    said = {series.name: series.values for series in lines.series}
    assert set(said["L40S · 44.4 GiB"]) == {report.charts[0].judge.capacity_bytes / GIB}
    assert [value or 0 for value in said["Sum"]] == pytest.approx(sums)


def test_the_workbook_in_a_chart_holds_what_the_chart_shows(deck):
    (chart,) = charts(deck.slides[0])
    sheet = load_workbook(BytesIO(chart.part.chart_workbook.xlsx_part.blob)).active
    rows = list(sheet.iter_rows(values_only=True))
    bars, lines = chart.plots
    assert list(rows[0][1:]) == [series.name for plot in (bars, lines) for series in plot.series]
    assert [row[1] for row in rows[1:]] == pytest.approx(list(bars.series[0].values))


def test_a_phase_shows_its_moments_and_its_components_in_bytes(deck, report):
    for slide, part in zip(list(deck.slides)[1:-1], report.phases, strict=True):
        if part.peak.process_bytes:
            (chart,) = charts(slide)
            assert len(list(chart.plots[0].categories)) == len(part.moments)
            assert f"{part.peak.process_bytes:,}".replace(",", "\u202f") in texts(slide)
        else:
            assert "Needs no GPU memory." in texts(slide)


def test_every_term_stands_in_the_notes_with_its_source(deck, report):
    for slide, part in zip(list(deck.slides)[1:-1], report.phases, strict=True):
        told = slide.notes_slide.notes_text_frame.text
        for term in (*part.terms, *part.host_terms, *part.storage_terms):
            assert term.name in told
            assert " ".join(term.source.split()) in told


def test_hostile_names_come_out_as_text(hostile_deck, hostile):
    assert hostile_deck.slides[0].shapes.title.text_frame.text == hostile
    assert hostile_deck.core_properties.title == hostile
    assert any(hostile in text for text in texts(hostile_deck.slides[0])[1:])


def test_no_cell_of_a_chart_is_taken_for_a_formula(report):
    spec = report.charts[0]
    lines = tuple(replace(line, name="=cmd()") for line in spec.capacities)
    deck = opened(replace(report, charts=(replace(spec, capacities=lines),)))
    (chart,) = charts(deck.slides[0])
    sheet = load_workbook(BytesIO(chart.part.chart_workbook.xlsx_part.blob)).active
    cells = [cell for row in sheet.iter_rows() for cell in row]
    assert [cell.value for cell in cells if cell.data_type == "f"] == []
    assert any(str(cell.value).startswith("'=cmd()") for cell in cells)


def test_a_long_title_is_shortened_on_its_slide(report):
    title = opened(replace(report, name="N" * 300)).slides[0].shapes.title.text_frame.text
    assert title.endswith("…")
    assert len(title) < 200


def test_nothing_is_written_when_it_is_called_off(report, tmp_path):
    def proceed(done: int, _parts: int) -> None:
        if done == 3:
            raise CalledOffError

    with pytest.raises(CalledOffError):
        write_report(report, tmp_path / "report.pptx", proceed)
    assert not list(tmp_path.iterdir())
