"""What the tests of several families check in the same way."""

from collections.abc import Callable
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.model import read_config
from planner.model.counts import parameters
from planner.scenario import Scenario

MOMENTS = ("start_of_step", "end_of_forward", "forward", "backward", "optimizer_step")
UNTOLD = 32
"""Random state, scalars and small buffers of one layer that a trace holds and the terms do not."""
WEIGHT_BYTES = {"bf16": 2, "amp-bf16": 4, "fp32": 4}


def _plan(config: dict[str, Any], task: str = "causal-lm", **fields: Any) -> PhasePlan:
    phase = {"precision": "bf16", "sequence_length": 2048, **fields}
    document = {"model": {"config": config, "task": task}, "phases": {"training": phase}}
    return estimate(Scenario.of(document), load_catalog()).phases["training"]


@pytest.fixture
def holds_what_was_traced() -> Callable[..., None]:
    """Every moment of a step lies within scalars of its trace."""

    def check(config: dict[str, Any], traced: tuple[int, ...], **fields: Any) -> None:
        phase = _plan(config, **fields)
        assert not phase.warnings
        for moment, expected in zip(MOMENTS, traced, strict=True):
            missing = expected - phase.moments[moment].allocated_bytes
            assert abs(missing) <= max(UNTOLD * 48, 2e-5 * expected), (moment, missing)

    return check


@pytest.fixture
def keeps_and_peaks() -> Callable[..., None]:
    """A small model's forward pass and backward, beside its weights and its batch."""

    def check(config: dict[str, Any], precision: str, forward: int, kept: int, backward: int) -> None:
        phase = _plan(
            config,
            precision=precision,
            attention_implementation="eager",
            micro_batch_size=2,
            sequence_length=64,
            optimizer="sgd",
        )
        assert not phase.warnings
        start = phase.moments["start_of_step"].allocated_bytes
        found = [phase.moments[moment].allocated_bytes - start for moment in ("forward", "end_of_forward", "backward")]
        for own, real in zip(found, (forward, kept, backward), strict=True):
            assert abs(real - own) <= 2 * UNTOLD, found

    return check


@pytest.fixture
def has_gradients_for_all() -> Callable[..., None]:
    """The gradients after backward are as many as the model's parameters."""

    def check(config: dict[str, Any], task: str = "causal-lm", untrained: int = 0, **fields: Any) -> None:
        count = parameters(read_config(config, task, "model")) - untrained
        for precision, width in WEIGHT_BYTES.items():
            phase = _plan(config, task, precision=precision, **fields)
            assert phase.moments["optimizer_step"].components["gradients"] == count * width

    return check
