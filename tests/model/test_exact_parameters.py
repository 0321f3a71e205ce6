"""Every model that Hugging Face's own classes were built for must be counted exactly."""

import json
from typing import Any

import pytest

from planner.model import read_config
from planner.model.counts import (
    active_parameters,
    embedding_parameters,
    kv_bytes_per_token,
    linear_4bit_parameters,
    parameters,
)
from planner.resources import resource

CASES = json.loads(resource("evidence", "parameters.json").read_text(encoding="utf-8"))["cases"]
COUNTS = {
    "model.parameters": parameters,
    "model.embedding_parameters": embedding_parameters,
    "model.active_parameters": active_parameters,
    "model.linear_4bit_parameters": linear_4bit_parameters,
    "model.kv_bytes_per_token": kv_bytes_per_token,
}


@pytest.mark.parametrize("case", CASES, ids=[case["id"].removeprefix("parameters/") for case in CASES])
def test_every_count_equals_that_of_the_real_model(case: dict[str, Any]) -> None:
    model = case["scenario"]["model"]
    spec = read_config(model["config"], model["task"])
    counted = {expected["path"]: COUNTS[expected["path"]](spec) for expected in case["expect"]}
    assert counted == {expected["path"]: expected["value"] for expected in case["expect"]}
    assert spec.approximate is None


def test_the_corpus_holds_all_114_models() -> None:
    assert len(CASES) == 114
