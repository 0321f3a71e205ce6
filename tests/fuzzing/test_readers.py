"""A few damaged files for every reader; `run.py` and `guided.py` feed many more."""

import random
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.usefixtures("qapp")
"""Reports are drawn; the application must be one for windows, which other tests of this process need."""


def test_every_reader_takes_sound_files_and_refuses_damaged_ones_with_a_message(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    readers, mutation = import_module("readers"), import_module("mutation")
    chance = random.Random(20240229)
    for reader in readers.readers():
        assert [told for seed in reader.seeds if (told := reader.feed(seed, tmp_path))] == [], reader.name
        told = [reader.feed(mutation.mutated(reader.seeds, chance), tmp_path) for _ in range(40)]
        assert any(told), reader.name


def test_the_guided_fuzzer_names_every_reader(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    readers, guided = import_module("readers"), import_module("guided")
    assert tuple(reader.name for reader in readers.readers()) == guided.NAMES


def test_what_fails_is_kept_and_named(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.chdir(tmp_path)
    readers, run = import_module("readers"), import_module("run")
    broken = readers.Reader("own", ".x", lambda _path: 1 / 0, (b"seed",))
    assert not run._feed(broken, 3, random.Random(1))
    (kept,) = (tmp_path / "fuzzed").iterdir()
    assert kept.read_bytes() == b"seed"
    assert kept.name in capsys.readouterr().err
