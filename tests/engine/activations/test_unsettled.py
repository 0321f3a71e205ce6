"""Steps that runs of their class showed to differ say so, and others do not."""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario


def warned(preset: str, phase: str, **fields: Any) -> bool:
    scenario = Scenario.of({"name": preset, "model": {"preset": preset}, "phases": {phase: fields}})
    return any("on a small scale" in text for text in estimate(scenario, load_catalog()).phases[phase].warnings)  # type: ignore[index]


@pytest.mark.parametrize(
    ("preset", "phase", "fields", "told"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "training",
         {"attention_implementation": "eager", "activation_checkpointing": "full"}, True),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "training", {"activation_checkpointing": "full"}, False),
        ("answerdotai/ModernBERT-base", "evaluation", {"attention_implementation": "eager"}, True),
        ("answerdotai/ModernBERT-base", "evaluation", {}, False),
        ("meta-llama/Llama-3.1-8B", "evaluation", {}, False),
    ],
)  # fmt: skip
def test_only_steps_that_were_seen_to_differ_are_doubted(
    preset: str, phase: str, fields: dict[str, Any], told: bool
) -> None:
    assert warned(preset, phase, sequence_length=128, **fields) == told
