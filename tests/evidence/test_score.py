"""The engine against the cases that ship: exact where they are exact."""

import pytest

from planner.catalog import load_catalog
from planner.evidence.corpus import load_corpus
from planner.evidence.score import CaseScore, Score, score_corpus
from planner.evidence.summary import NumberSummary, summarize
from planner.resources import resource

LLAMA_SHAPED = ("llama", "mistral", "qwen2", "qwen3")
GATED = ("start_of_step.allocated_bytes", "end_of_forward.allocated_bytes", "peak.allocated_bytes")


@pytest.fixture(scope="module")
def traces() -> Score:
    return score_corpus(load_corpus(resource("evidence", "optrace-llama.json")), load_catalog())


def llama_shaped(name: str) -> set[str]:
    corpus = load_corpus(resource("evidence", name))
    return {case.id for case in corpus.cases if case.scenario["model"]["config"].get("model_type") in LLAMA_SHAPED}


def numbers(score: Score) -> list[NumberSummary]:
    return [row for row in score.summary if isinstance(row, NumberSummary)]


def test_every_traced_llama_step_is_planned(traces: Score):
    assert not traces.failed
    assert all(row.missing == 0 for row in numbers(traces))
    assert sum(len(case.results) for case in traces.cases) == 765


def test_traced_llama_steps_are_met(traces: Score):
    gated = [row for row in numbers(traces) if row.path.endswith(GATED)]
    assert len(gated) >= 7
    for row in gated:
        assert row.median <= 0.001, row
        assert row.largest <= 0.01, row


def test_llama_steps_of_an_older_transformers_are_met():
    ids = llama_shaped("optrace-transformers4.json")
    score = score_corpus(load_corpus(resource("evidence", "optrace-transformers4.json")), load_catalog())
    chosen: list[CaseScore] = [case for case in score.cases if case.id in ids]
    assert len(chosen) >= 10
    assert not [case.failure for case in chosen if case.failure]
    rows = [row for row in summarize(result for case in chosen for result in case.results) if row.path.endswith(GATED)]
    for row in rows:
        assert row.median <= 0.001, row
        assert row.largest <= 0.01, row


def test_parameters_of_llama_shaped_models_are_exact():
    ids = llama_shaped("parameters.json")
    score = score_corpus(load_corpus(resource("evidence", "parameters.json")), load_catalog())
    chosen = [case for case in score.cases if case.id in ids]
    assert len(chosen) >= 20
    for case in chosen:
        assert case.failure is None, case
        assert all(result.expected == result.estimated for result in case.results), case
