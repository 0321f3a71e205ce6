"""Models of published sizes that the corpus does not hold, against the classes that Hugging Face builds."""

import json
from pathlib import Path
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

DATA = Path(__file__).parents[1] / "data" / "published_sizes.json"
ROWS = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
COUNTS = (parameters, embedding_parameters, active_parameters, linear_4bit_parameters, kv_bytes_per_token)


@pytest.mark.parametrize(("task", "config", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_every_count_is_that_of_the_real_class(task: str, config: dict[str, Any], expected: list[int | None]) -> None:
    spec = read_config(config, task)
    counted = [None if known is None else count(spec) for count, known in zip(COUNTS, expected, strict=True)]
    assert counted == expected
    assert spec.approximate is None


def test_more_than_ninety_models_are_held() -> None:
    assert len(ROWS) > 90
