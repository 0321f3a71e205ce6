"""A new window shows the remembered chart of its starting plan first, and never a chart of another program."""

import pytest
from PySide6.QtCore import QPoint

from planner.gui import first_picture
from planner.gui.application import build_frame, fill_window
from planner.gui.first_picture import recall, remember


def test_a_remembered_chart_comes_back_as_it_was(window, tmp_path):
    remember(window.chart.spec, tmp_path / "chart.json")
    assert recall(tmp_path / "chart.json") == window.chart.spec


def test_the_chart_of_another_program_is_not_taken(window, tmp_path, monkeypatch):
    remember(window.chart.spec, tmp_path / "chart.json")
    monkeypatch.setattr(first_picture, "fingerprint", lambda: "other")
    assert recall(tmp_path / "chart.json") is None


def test_the_fingerprint_changes_with_any_file(tmp_path, monkeypatch):
    monkeypatch.setattr(first_picture, "resources_dir", lambda: tmp_path)
    before = first_picture.fingerprint()
    assert first_picture.fingerprint() == before
    (tmp_path / "fact.json").write_text("1", encoding="utf-8")
    assert first_picture.fingerprint() != before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"fingerprint": 1}', '{"fingerprint": "x", "chart": {"bars": 3}}'])
def test_a_damaged_memory_is_no_harm(tmp_path, content):
    (tmp_path / "chart.json").write_text(content, encoding="utf-8")
    assert recall(tmp_path / "chart.json") is None
    assert recall(tmp_path / "missing.json") is None


def test_a_place_that_cannot_be_written_is_no_harm(window, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    remember(window.chart.spec, tmp_path / "file" / "chart.json")


def test_the_picture_stands_where_the_chart_will(qtbot, qapp, settings, window):
    spec = window.chart.spec
    frame = build_frame(qapp, settings)
    qtbot.addWidget(frame)
    frame.resize(window.size())
    with qtbot.waitSignal(frame.first_painted):
        frame.show_picture(spec)
        frame.show()
    picture = frame.centralWidget().grab().toImage()
    fill_window(frame)
    frame.chart.load_plot()
    qapp.processEvents()
    filled = frame.centralWidget().grab().toImage()
    plot = frame.chart.plot
    corner = plot.mapTo(frame.centralWidget(), QPoint(0, 0))
    for shape in plot.placed.bars:
        for segment, rect in shape.segments:
            if rect.height > 12:
                point = corner + QPoint(round(rect.x + 6), round(rect.centre_y))
                assert picture.pixelColor(point).name() == filled.pixelColor(point).name(), segment
