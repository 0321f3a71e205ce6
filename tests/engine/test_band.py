"""Bands by class of case."""

import pytest

from planner.engine.band import band, bands, case_class


def test_every_band_contains_its_estimate_and_cites_a_source():
    for known in bands().values():
        low, high = known.around(10**9)
        assert low < 10**9 < high
        assert known.source


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"phase": "training"}, "training"),
        ({"phase": "training", "ranks": 8}, "training, sharded"),
        ({"phase": "fine_tuning", "profile": "torchtitan"}, "training, other profile"),
        ({"phase": "serving", "engine": "vllm"}, "serving, unknown version"),
        ({"phase": "serving", "engine": "vllm", "engine_version": "0.19.0"}, "serving"),
        ({"phase": "serving", "engine": "vllm", "engine_version": "0.8.3 V0"}, "serving, vLLM V0"),
        ({"phase": "serving", "engine": "vllm", "engine_version": "0.6.4"}, "serving, vLLM V0"),
        ({"phase": "serving", "engine": "llama.cpp"}, "serving, llama.cpp"),
        ({"phase": "serving", "engine": "transformers"}, "inference"),
        ({"phase": "evaluation", "approximate": True}, "rough"),
    ],
)
def test_a_phase_belongs_to_one_class(facts, expected):
    assert case_class(**facts) == expected
    assert band(expected)
