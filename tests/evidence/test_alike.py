import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.evidence.alike import NEAREST, cases_alike
from planner.evidence.corpus import load_corpus, shipped_corpora
from planner.scenario import Scenario


def shipped(name: str) -> Scenario:
    (path,) = [path for path in shipped_corpora() if path.stem == "training-measured"]
    (case,) = [case for case in load_corpus(path).cases if case.id == name]
    return Scenario.of(case.scenario)


@pytest.fixture(scope="module")
def alike():
    """Of a case that is itself shipped."""
    scenario = shipped("swift1-qwen-7b-chat-full_finetune-512")
    return cases_alike(scenario, estimate(scenario, load_catalog()))


def test_the_nearest_case_of_a_case_is_itself(alike):
    found = alike["fine_tuning"]
    assert found.case_class == "training"
    assert found.nearest[0].id.startswith("swift1-qwen-7b-chat-full_finetune")
    assert found.nearest[0].distance == pytest.approx(0)
    assert found.nearest[0].expected == 78_780_437_627


def test_the_nearest_cases_are_different_runs_in_order(alike):
    nearest = alike["fine_tuning"].nearest
    assert len({case.id for case in nearest}) == len(nearest) == NEAREST
    assert [case.distance for case in nearest] == sorted(case.distance for case in nearest)


def test_errors_are_of_the_whole_class(alike):
    found = alike["fine_tuning"]
    assert found.sizes >= 25
    assert 0 < found.median_error < 0.05
    assert found.largest_error >= max(abs(case.error) for case in found.nearest if case.error is not None)
    assert 0 < found.agreeing <= found.verdicts


def test_phases_without_a_gpu_have_no_cases():
    scenario = shipped("swift1-qwen-7b-chat-full_finetune-512").with_value(("phases", "preprocessing"), {})
    assert "preprocessing" not in cases_alike(scenario, estimate(scenario, load_catalog()))
