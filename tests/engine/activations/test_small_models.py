"""Two-layer models of every family that is written down, against a run of their classes.

The numbers, and how they were traced, are in `tests/data/traced-small-models.json`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario

CASES = json.loads((Path(__file__).parents[2] / "data" / "traced-small-models.json").read_text("utf-8"))["cases"]
SCALARS = 2_000
"""Random state, position ids and per-norm vectors, which the terms leave out."""


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_small_model_holds_what_its_class_holds(case: dict[str, Any]) -> None:
    document = {
        "model": {"config": case["config"], "task": case["task"]},
        "phases": {"training": {"optimizer": "sgd", **case["phase"]}},
    }
    phase = estimate(Scenario.of(document), load_catalog()).phases["training"]
    assert not phase.warnings
    start = phase.moments["start_of_step"].allocated_bytes
    for moment, real in zip(("forward", "end_of_forward", "backward"), case["traced"], strict=True):
        own = phase.moments[moment].allocated_bytes - start
        assert own == pytest.approx(real, rel=3e-3, abs=SCALARS), moment
