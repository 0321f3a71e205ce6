"""A short play of the monkey; `monkey.py` plays for longer."""

from importlib import import_module
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_edits_break_nothing_and_are_undone_to_the_byte(window, tmp_path, monkeypatch, seed):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(QMessageBox, "exec", lambda _box: QMessageBox.StandardButton.Discard)
    import_module("monkey").play(window, tmp_path, 100, seed)
