"""Scenarios in one line, and what is said of them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from planner.hardware import load_hardware
from planner.model import resolve_model
from planner.model.spec import ModelSpec
from planner.scenario import Issue, Scenario, issue_text, validate

LLAMA = {"preset": "meta-llama/Llama-3.1-8B"}
"""32 layers, 32 heads, 8 key-value heads, feed-forward 14 336, 131 072 positions."""
GPT2_LIKE = {
    "dimensions": {
        "layers": 12,
        "hidden_size": 768,
        "attention_heads": 12,
        "vocab_size": 50257,
        "ffn_hidden_size": 3072,
        "gated_mlp": False,
        "position_embedding": "learned",
        "max_positions": 1024,
    }
}
MIXTRAL_LIKE = {
    "dimensions": {
        "layers": 32,
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "vocab_size": 32000,
        "experts": 8,
        "experts_per_token": 2,
        "expert_ffn_hidden_size": 14336,
    }
}

Checker = Callable[..., dict[str, str]]


@cache
def _spec(model: str) -> ModelSpec:
    return resolve_model(
        Scenario.of({"model": {"llama": LLAMA, "gpt2": GPT2_LIKE, "mixtral": MIXTRAL_LIKE}[model]}).model
    )


@pytest.fixture
def check() -> Checker:
    """Issues of one phase, as `{"error field": text}`; the model is `llama`, `gpt2`, `mixtral` or not known."""

    def checked(phase: str, model: str | None = "llama", hardware: dict[str, Any] | None = None, **fields: Any) -> Any:
        document = {"model": LLAMA, "phases": {phase: fields}, "hardware": hardware or {}}
        issues = validate(Scenario.of(document), _spec(model) if model else None, load_hardware())
        return {f"{issue.severity} {_field(issue, phase)}": issue_text(issue) for issue in issues}

    return checked


def _field(issue: Issue, phase: str) -> str:
    return issue.path.removeprefix(f"phases.{phase}.")
