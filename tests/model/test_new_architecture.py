"""What README and the registry say about adding an architecture is true, word for word."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from planner.model.counts import parameters
from planner.model.readers import registry
from planner.model.readers.config import Config

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
CONFIG = {
    "model_type": "novel",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 32,
    "attention_bias": True,
}
LAYER = 4 * (64 * 64 + 64) + 3 * 64 * 128 + 2 * 2 * 64
"""Projections with biases, a gated feed-forward without, two LayerNorms."""


def _in_readme() -> str:
    (found,) = re.findall(r"```python\n(.*?MODEL_TYPES.*?)```", README, re.DOTALL)
    return str(found)


def _in_registry() -> str:
    assert registry.__doc__ is not None
    lines = [line for line in registry.__doc__.splitlines() if line.startswith("    ") or not line]
    return textwrap.dedent("\n".join(lines))


@pytest.mark.parametrize("source", [_in_readme, _in_registry], ids=["README", "registry"])
def test_the_worked_example_reads_a_model(source: Any) -> None:
    module: dict[str, Any] = {}
    exec(compile(source(), "novel.py", "exec"), module)
    assert module["MODEL_TYPES"] == ("novel",)
    spec = module["read"](Config(CONFIG, "novel"), None)
    # Token table and untied head, table of positions, final LayerNorm.
    assert parameters(spec) == 2 * 100 * 64 + 32 * 64 + 2 * LAYER + 2 * 64
    assert spec.task == "causal-lm"
