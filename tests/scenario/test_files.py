import json
import os
import stat
import sys
from pathlib import Path

import pytest

from planner.scenario import ScenarioError, files, load_scenario, save_scenario, scenario_from_json, scenario_to_json
from planner.scenario.starting import starting_scenario

HEAD = '{"format": "vram-planner/scenario", "version": 1, '
MODEL = '"model": {"preset": "x"}'


def refusal_of(path: Path) -> str:
    with pytest.raises(ScenarioError) as error:
        load_scenario(path)
    return error.value.message


def refusal_of_text(text: str | bytes) -> str:
    with pytest.raises(ScenarioError) as error:
        scenario_from_json(text)
    return error.value.message


def test_a_saved_scenario_is_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "Plan für 8 GPUs – 计划.vramplan"
    save_scenario(starting_scenario(), path)
    assert load_scenario(path) == starting_scenario()
    assert path.read_bytes() == scenario_to_json(starting_scenario()).encode()


def test_a_file_begins_with_its_format_and_version() -> None:
    assert list(json.loads(scenario_to_json(starting_scenario())))[:2] == ["format", "version"]


def test_a_byte_order_mark_does_no_harm() -> None:
    assert scenario_from_json(b"\xef\xbb\xbf" + scenario_to_json(starting_scenario()).encode()) == starting_scenario()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal_of(tmp_path / "none.vramplan").endswith(
        "none.vramplan does not exist. Check the name and the folder."
    )


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert refusal_of(tmp_path).endswith("is a folder. Choose a file in it.")


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs there")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal_of(tmp_path / "pipe").endswith("is a device, and not a file.")


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.vramplan"
    path.write_text("{}")

    def refuse(*_arguments: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal_of(path).endswith("may not be read. Ask for permission, or copy it elsewhere.")


def test_a_name_that_no_file_can_have_is_refused() -> None:
    assert "cannot be read" in refusal_of(Path("a\0b"))
    assert "cannot be read" in refusal_of(Path("x" * 5000))


def test_a_file_far_too_large_is_refused_without_reading_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.vramplan"
    with path.open("wb") as file:
        file.truncate(40 * 1024**3 if sys.platform == "linux" else 11 * 1024**2)
    assert refusal_of(path).endswith("is larger than 10 MiB, far more than a scenario is.")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0", b"\xff\xfe{\0}\0", b"PK\x03\x04\0\0", bytes(range(256))])
def test_a_binary_file_is_called_so(content: bytes) -> None:
    assert refusal_of_text(content) == "It is not a text file. A scenario is JSON text in UTF-8."


def test_a_file_cut_off_is_told_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "cut.vramplan"
    text = scenario_to_json(starting_scenario())
    path.write_text(text[: len(text) // 2], "utf-8")
    message = refusal_of(path)
    assert message.startswith("cut.vramplan cannot be opened. It ends too early (line ")
    assert "as if it had been cut off" in message


@pytest.mark.parametrize("length", range(0, 1000, 37))
def test_no_truncation_is_taken_for_a_scenario(length: int) -> None:
    assert refusal_of_text(scenario_to_json(starting_scenario())[:length])


def test_a_slip_in_the_syntax_is_told_with_line_and_column() -> None:
    text = HEAD + "\n" + MODEL + "\n" + '"name": "x"}'
    assert refusal_of_text(text) == "It is not valid JSON at line 3, column 1: expecting ',' delimiter."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "It is empty."),
        (" \n", "It is empty."),
        ("[1]", "It does not hold a scenario, which is a JSON object in braces."),
        ("{}", 'It is not a scenario: its "format" is not "vram-planner/scenario".'),
        ('{"format": 3}', 'It is not a scenario: its "format" is not "vram-planner/scenario".'),
        ('{"format": "vram-planner/plan"}', "This is a plan, the result of an estimate, and not a scenario."),
        (
            '{"format": "vram-planner/corpus"}',
            "This is a corpus of measured cases. Use `vram-planner validate` with it.",
        ),
        ('{"model_type": "llama"}', "This is the configuration of a model. Import it as a model instead."),
        ('{"format": "vram-planner/scenario"}', 'Its "version" must be a whole number from 1 to 1.'),
        ('{"format": "vram-planner/scenario", "version": true}', 'Its "version" must be a whole number from 1 to 1.'),
        ('{"format": "vram-planner/scenario", "version": 0}', 'Its "version" must be a whole number from 1 to 1.'),
        (
            '{"format": "vram-planner/scenario", "version": 7}',
            "It was written by a newer VRAM Planner (file version 7, and this one reads up to 1). "
            "Install the newest version to open it.",
        ),
        (HEAD + MODEL + ', "name": NaN}', "It holds NaN, which is not a number that can be planned with."),
        (
            HEAD + MODEL + ', "name": "a", "name": "b"}',
            'The name "name" stands twice in the same object. Remove one of the two.',
        ),
        ("[" * 100 + "]" * 100, "It is nested more than 64 levels deep."),
        ("[" * 100_000, "It is nested too deeply."),
        ('{"a":' * 100_000, "It is nested too deeply."),
        (HEAD + '"name": ' + "9" * 100 + "}", "It holds a whole number of more than 38 digits."),
        (HEAD + '"name": ' + "9" * 10_000 + "}", "It holds a number with too many digits."),
    ],
)
def test_what_is_not_a_scenario_is_told_what_it_is(text: str, message: str) -> None:
    assert refusal_of_text(text) == message


def test_a_number_too_large_to_hold_is_not_planned_with() -> None:
    text = HEAD + MODEL + ', "phases": {"serving": {"gpu_memory_utilization": 1e999}}}'
    assert "NaN and infinity are not numbers" in refusal_of_text(text)


def test_an_error_of_a_file_keeps_the_issues_of_its_fields(tmp_path: Path) -> None:
    path = tmp_path / "wrong.vramplan"
    path.write_text(HEAD + MODEL + ', "phases": {"training": {"micro_batch_size": 0}}}')
    with pytest.raises(ScenarioError) as error:
        load_scenario(path)
    assert [issue.path for issue in error.value.issues] == ["phases.training.micro_batch_size"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_saving_keeps_the_permissions_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.vramplan"
    save_scenario(starting_scenario(), path)
    path.chmod(0o640)
    save_scenario(starting_scenario(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_new_file_has_the_permissions_that_the_user_gives_new_files(tmp_path: Path) -> None:
    path, ordinary = tmp_path / "plan.vramplan", tmp_path / "ordinary"
    save_scenario(starting_scenario(), path)
    ordinary.touch()
    assert path.stat().st_mode == ordinary.stat().st_mode


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege there")
def test_saving_through_a_link_changes_the_file_and_not_the_link(tmp_path: Path) -> None:
    path, link = tmp_path / "plan.vramplan", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(path)
    save_scenario(starting_scenario(), link)
    assert link.is_symlink()
    assert load_scenario(path) == starting_scenario()


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "plan.vramplan"
    path.write_text("old")

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    if failing == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ScenarioError, match=r"cannot be saved: No space left on device\. Nothing was changed\."):
        save_scenario(starting_scenario(), path)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_read_only_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.tempfile, "mkstemp", refuse)
    with pytest.raises(ScenarioError, match=r"its folder is read-only\. Choose another place"):
        save_scenario(starting_scenario(), tmp_path / "plan.vramplan")


def test_a_write_protected_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.vramplan"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_arguments: False)
    with pytest.raises(ScenarioError, match=r"is write-protected\. Save under another name"):
        save_scenario(starting_scenario(), path)
    assert path.read_text() == "old"


def test_saving_where_nothing_can_be_saved_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"its folder does not exist\. Choose another place"):
        save_scenario(starting_scenario(), tmp_path / "missing" / "plan.vramplan")
    with pytest.raises(ScenarioError, match=r"is a folder\. Choose a file name in it"):
        save_scenario(starting_scenario(), tmp_path)
    with pytest.raises(ScenarioError, match="cannot be saved"):
        save_scenario(starting_scenario(), tmp_path / ("x" * 5000))
    with pytest.raises(ScenarioError, match="cannot be saved"):
        save_scenario(starting_scenario(), tmp_path / "a\0b")


def test_a_ring_of_links_is_told(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    ring.symlink_to(ring)
    assert "cannot be read" in refusal_of(ring)
    with pytest.raises(ScenarioError, match="cannot be saved"):
        save_scenario(starting_scenario(), ring)
