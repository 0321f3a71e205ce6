import json

import pytest

pytestmark = pytest.mark.usefixtures("qapp")


@pytest.mark.parametrize("ending", [".html", ".pdf", ".md", ".xlsx", ".pptx", ".csv"])
def test_a_report_is_written_in_the_format_of_the_ending(command, tmp_path, plan_file, ending):
    path = tmp_path / f"report{ending}"
    outcome = command("report", "--quick", plan_file, path)
    assert (outcome.status, outcome.err) == (0, "")
    assert path.stat().st_size > 10_000
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_a_report_gives_the_same_plan_again(command, tmp_path, plan_file):
    command("report", "--quick", plan_file, tmp_path / "report.html")
    again = command("estimate", tmp_path / "report.html", "--json")
    assert json.loads(again.out) == json.loads(command("estimate", plan_file, "--json").out)


def test_an_existing_file_is_kept_unless_force_is_said(command, tmp_path, plan_file):
    path = tmp_path / "report.md"
    path.write_text("mine")
    outcome = command("report", "--quick", plan_file, path)
    assert outcome.status == 2
    assert "exists already. Choose another name, or add --force to replace it." in outcome.err
    assert path.read_text() == "mine"
    assert command("report", "--quick", plan_file, path, "--force").status == 0
    assert path.read_text("utf-8").startswith("# Llama 3.1 8B on one node")


def test_on_a_terminal_it_asks_before_it_replaces_a_file(command, tmp_path, plan_file, monkeypatch):
    path = tmp_path / "report.md"
    path.write_text("mine")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda _text: False)
    assert command("report", "--quick", plan_file, path).status == 2
    assert path.read_text() == "mine"
    monkeypatch.setattr("typer.confirm", lambda _text: True)
    assert command("report", "--quick", plan_file, path).status == 0
    assert path.read_text("utf-8") != "mine"


def test_another_ending_is_refused_with_those_that_are_known(command, tmp_path, plan_file):
    outcome = command("report", "--quick", plan_file, tmp_path / "report.docx")
    assert outcome.status == 2
    assert "choose a name that ends in .html" in outcome.err


def test_the_template_block_stands_in_the_report(command, tmp_path, plan_file):
    path = tmp_path / "report.md"
    command("report", "--quick", plan_file, path, "--company", "Example Ltd", "--author", "Ada", "--status", "draft")
    assert "- Company: Example Ltd\n- Author: Ada\n- Status: draft" in path.read_text("utf-8")


def test_a_logo_of_another_kind_is_refused(command, tmp_path, plan_file):
    logo = tmp_path / "logo.bmp"
    logo.write_bytes(b"BM")
    outcome = command("report", "--quick", plan_file, tmp_path / "report.html", "--logo", logo)
    assert outcome.status == 2
    assert "Choose a PNG, JPEG or SVG picture." in outcome.err
    assert not (tmp_path / "report.html").exists()


def test_what_takes_seconds_is_looked_for_unless_it_is_left_out(command, tmp_path, plan_file):
    path = tmp_path / "report.md"
    assert command("report", plan_file, path).status == 0
    text = path.read_text("utf-8")
    for heading in ("What would make it fit: Serving", "GPUs needed", "Measured cases like it: Training"):
        assert f"## {heading}" in text
    command("report", plan_file, path, "--quick", "--force")
    assert "## GPUs needed" not in path.read_text("utf-8")
