import pytest

pytestmark = pytest.mark.usefixtures("qapp")


@pytest.mark.parametrize(("ending", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_chart_is_drawn_in_the_format_of_the_ending(command, tmp_path, plan_file, ending: str, start: bytes):
    picture = tmp_path / f"chart{ending}"
    outcome = command("render", plan_file, picture)
    assert (outcome.status, outcome.err) == (0, "")
    assert picture.read_bytes().startswith(start)


def test_the_self_test_passes(command):
    outcome = command("--self-test")
    assert (outcome.status, outcome.err) == (0, "")
    assert "reference plan" in outcome.out


def test_host_ram_and_storage_are_drawn_below_each_other(command, tmp_path, plan_file):
    picture = tmp_path / "chart.svg"
    outcome = command("render", plan_file, picture, "--view", "host-storage")
    assert (outcome.status, outcome.err) == (0, "")
    text = picture.read_text("utf-8")
    assert text.index("RAM per server (GiB)") < text.index("Storage of the job (GiB)")
    assert 'viewBox="0 0 960 1120"' in text


def test_the_step_of_a_phase_is_drawn_moment_by_moment(command, tmp_path, plan_file):
    picture = tmp_path / "chart.svg"
    outcome = command("render", plan_file, picture, "--view", "timeline", "--phase", "training")
    assert (outcome.status, outcome.err) == (0, "")
    text = picture.read_text("utf-8")
    assert "VRAM per GPU over a step: Training" in text
    assert all(f">{name}<" in text for name in ("Start of step", "Forward", "Backward", "Optimizer step"))
    assert text.count(">peak ") == 1


def test_a_phase_is_refused_where_the_chart_shows_them_all(command, tmp_path, plan_file):
    outcome = command("render", plan_file, tmp_path / "chart.png", "--phase", "training")
    assert outcome.status == 2
    assert "--view timeline" in outcome.err


def test_a_field_is_explored_as_a_curve(command, tmp_path, plan_file):
    picture = tmp_path / "chart.svg"
    outcome = command(
        "render", plan_file, picture, "--view", "explore", "--phase", "serving", "--field", "context_length"
    )
    assert (outcome.status, outcome.err) == (0, "")
    text = picture.read_text("utf-8")
    assert "Serving: VRAM per GPU by Context length" in text
    assert "on L40S" in text


def test_a_field_that_is_no_number_is_refused(command, tmp_path, plan_file):
    outcome = command("render", plan_file, tmp_path / "chart.svg", "--view", "explore", "--field", "optimizer")
    assert outcome.status == 2
    assert "Name a field that is a number" in outcome.err


@pytest.mark.parametrize("view", ["lifecycle", "timeline", "explore", "host-storage"])
def test_every_view_says_its_model_assumptions_date_and_catalogue(command, tmp_path, plan_file, view):
    picture = tmp_path / "chart.svg"
    assert command("render", plan_file, picture, "--view", view).status == 0
    text = picture.read_text("utf-8")
    for wanted in (
        "Plan: Llama 3.1 8B on one node · 8.03 B parameters",
        ">Training: precision",
        "hardware catalogue of",
    ):
        assert wanted in text
    command("render", plan_file, picture, "--view", view, "--bare")
    assert "hardware catalogue of" not in picture.read_text("utf-8")


def test_size_scale_and_background_are_as_asked(command, tmp_path, plan_file):
    from PySide6.QtGui import QImage

    picture = tmp_path / "chart.png"
    command("render", plan_file, picture, "--size", "640x480", "--scale", "1.5", "--transparent")
    image = QImage(str(picture))
    assert (image.width(), image.height()) == (960, 720)
    assert image.pixelColor(2, 2).alpha() == 0


def test_a_size_that_is_none_is_refused(command, tmp_path, plan_file):
    outcome = command("render", plan_file, tmp_path / "chart.png", "--size", "large")
    assert outcome.status == 2
    assert "written as 1280x720" in outcome.err
