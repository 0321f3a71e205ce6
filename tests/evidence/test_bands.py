import json
from pathlib import Path

import pytest

from planner.engine.band import Band
from planner.evidence import bands
from planner.evidence.corpus import Case, Corpus, Unreadable
from planner.evidence.result import Result
from planner.evidence.score import CaseScore, Score
from planner.scenario import Scenario

PATH = "phases.training.peak.reserved_bytes"


def case(number: int, **training: object) -> Case:
    scenario = {"model": {"preset": "meta-llama/Llama-3.1-8B"}, "phases": {"training": training}}
    return Case(id=str(number), source="by hand", scenario=scenario, expect=())


def scored(measured: list[int], **training: object) -> tuple[Corpus, Score]:
    """Cases whose estimate is 100 bytes each."""
    results = [Result(PATH, value, 100, (100 - value) / value) for value in measured]
    corpus = Corpus(name="mine", cases=tuple(case(number, **training) for number in range(len(measured))))
    scores = tuple(CaseScore(str(number), None, (result,)) for number, result in enumerate(results))
    return corpus, Score("mine", scores, ())


@pytest.fixture
def bands_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bands.json"
    untouched = {"low": 0.9, "high": 1.1, "source": "before"}
    path.write_text(json.dumps({"classes": {"training": untouched, "serving": untouched}}), encoding="utf-8")
    monkeypatch.setattr(bands, "resource", lambda *_parts: path)
    return path


def test_a_band_holds_nine_tenths_of_the_measured_peaks(bands_file: Path):
    assert bands.write_bands([scored(list(range(90, 111)))]) == {"training": 21}
    written = json.loads(bands_file.read_text(encoding="utf-8"))["classes"]
    assert (written["training"]["low"], written["training"]["high"]) == (0.91, 1.09)
    assert "mine" in written["training"]["source"]
    assert Band(**written["training"]).around(1000) == (910, 1090)
    assert written["serving"]["source"] == "before"


def test_a_class_with_few_cases_keeps_its_band(bands_file: Path):
    before = bands_file.read_text(encoding="utf-8")
    assert bands.write_bands([scored([90] * 9)]) == {}
    assert bands_file.read_text(encoding="utf-8") == before


@pytest.mark.usefixtures("bands_file")
def test_cases_of_one_class_are_taken_together_over_corpora():
    layout = {"parallelism": {"data": 8, "zero_stage": 3}}
    parts = [scored([100] * 6, **layout), scored([100] * 6, **layout), scored([100] * 9)]
    assert bands.write_bands(parts) == {"training, sharded": 12}


@pytest.mark.usefixtures("bands_file")
def test_unreadable_cases_and_missing_estimates_are_left_out():
    corpus, score = scored([100] * 10)
    missing = CaseScore("m", None, (Result(PATH, 100, None, None),))
    broken = corpus.model_copy(update={"cases": (*corpus.cases, case(10), Unreadable(id="u", failure="why"))})
    scores = Score("mine", (*score.cases, missing, CaseScore("u", "why", ())), ())
    assert bands.write_bands([(broken, scores)]) == {"training": 10}


@pytest.mark.parametrize(
    ("phase", "fields", "name"),
    [
        ("training", {}, "training"),
        ("training", {"parallelism": {"tensor": 2}}, "training, sharded"),
        ("training", {"activation_profile": "megatron-core"}, "training, other profile"),
        ("evaluation", {}, "inference"),
        ("serving", {"engine": "vllm"}, "serving, unknown version"),
        ("serving", {"engine": "vllm", "engine_version": "0.19.0 V1"}, "serving"),
    ],
)
def test_the_class_of_a_case_is_the_one_the_engine_uses(phase, fields, name: str):
    scenario = Scenario.of({"model": {"preset": "meta-llama/Llama-3.1-8B"}, "phases": {phase: fields}})
    assert bands.class_of(scenario, phase) == name


def test_a_model_of_which_only_the_size_is_known_is_rough():
    scenario = Scenario.of({"model": {"parameters": 10**9}, "phases": {"training": {}}})
    assert bands.class_of(scenario, "training") == "rough"
