import json
from pathlib import Path

import pytest

from planner.evidence.corpus import Case, EvidenceError, Unreadable, load_corpus, shipped_corpora

GOOD = {"id": "one", "source": "a paper", "scenario": {}, "expect": [{"path": "model.parameters", "value": 1}]}


def write(path: Path, **changes: object) -> Path:
    path.write_text(
        json.dumps({"format": "vram-planner/corpus", "version": 1, "name": "x", "cases": [GOOD], **changes})
    )
    return path


def test_further_fields_of_a_case_are_kept(tmp_path: Path):
    corpus = load_corpus(write(tmp_path / "c.json", cases=[{**GOOD, "confidence": "high", "assumed": ["a"]}]))
    (case,) = corpus.cases
    assert isinstance(case, Case)
    assert case.further_fields == {"confidence": "high", "assumed": ["a"]}


def test_a_broken_case_does_not_hide_the_others(tmp_path: Path):
    corpus = load_corpus(write(tmp_path / "c.json", cases=[{"id": "broken", "source": "s"}, 7, GOOD]))
    broken, number, good = corpus.cases
    assert isinstance(broken, Unreadable)
    assert "scenario" in broken.failure
    assert isinstance(number, Unreadable)
    assert number.id == "case 2"
    assert isinstance(good, Case)


def test_a_value_keeps_its_type(tmp_path: Path):
    values = [31540000000, 0.5, "oom"]
    expect = [{"path": "p", "value": value} for value in values]
    (case,) = load_corpus(write(tmp_path / "c.json", cases=[{**GOOD, "expect": expect}])).cases
    assert [(item.value, type(item.value)) for item in case.expect] == [(value, type(value)) for value in values]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "vram-planner/scenario"}, "not a corpus"),
        ({"version": 2}, "version 2"),
        ({"cases": {}}, "no list"),
    ],
)
def test_a_file_that_is_no_corpus_says_why(tmp_path: Path, changes: dict[str, object], message: str):
    with pytest.raises(EvidenceError, match=message):
        load_corpus(write(tmp_path / "c.json", **changes))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe\x00\x80", "not a text file"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[1, 2]", "not a corpus"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=message):
        load_corpus(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path):
    with pytest.raises(EvidenceError, match="No such file"):
        load_corpus(tmp_path / "none.json")
    with pytest.raises(EvidenceError, match="directory"):
        load_corpus(tmp_path)


@pytest.mark.parametrize("path", shipped_corpora(), ids=lambda path: path.stem)
def test_every_shipped_case_can_be_read(path: Path):
    corpus = load_corpus(path)
    assert corpus.cases
    assert all(isinstance(case, Case) for case in corpus.cases)
    assert len({case.id for case in corpus.cases}) == len(corpus.cases)


def test_the_readme_lists_every_shipped_corpus():
    readme = (shipped_corpora()[0].parent / "README.md").read_text(encoding="utf-8")
    for path in shipped_corpora():
        assert f"| `{path.name}` | {len(load_corpus(path).cases)} |" in readme
