"""Every architecture, with its switches turned one by one, against the classes that Hugging Face builds.

`tests/data/architecture_variants.json` holds the class defaults of each model type with one switch changed, and the
counts of the model objects that transformers 5.23 and diffusers 0.42 build from them on torch's meta device.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.model import read_config
from planner.model.counts import embedding_parameters, linear_4bit_parameters, parameters

DATA = Path(__file__).parents[1] / "data" / "architecture_variants.json"
ROWS = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
TYPES = sorted({row[3].get("model_type") or row[3]["_class_name"] for row in ROWS})


def _rows(model_type: str) -> list[list[Any]]:
    return [row for row in ROWS if model_type in (row[3].get("model_type"), row[3].get("_class_name"))]


@pytest.mark.parametrize("model_type", TYPES)
def test_every_variant_is_counted_exactly(model_type: str) -> None:
    for name, _class, task, config, expected in _rows(model_type):
        spec = read_config(config, task)
        counted = [parameters(spec), embedding_parameters(spec), linear_4bit_parameters(spec)]
        assert counted == expected, name


def test_more_than_a_hundred_architectures_are_covered() -> None:
    assert len(TYPES) > 100
