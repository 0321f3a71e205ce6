"""A recording at many points is the product of its table with every column's value, row by row."""

from typing import Any

import numpy as np
import pytest

from planner.catalog import load_catalog
from planner.engine.phases.step import kinds_of_points, plan_step
from planner.engine.points import FEWEST, ONE_THREAD
from planner.engine.switches import switches, tile_length
from planner.engine.traced import TracedPhase, held_at
from planner.model import resolve_model
from planner.scenario import Scenario
from planner.scenario.step import TrainingStep

LLAMA = {"preset": "meta-llama/Llama-3.1-8B"}
BATCHES = np.array([2, 3, 5, 64, 2, 9])
LENGTHS = np.array([1, 17, 512, 4096, 70_000, 2048])


def planned(fields: dict[str, Any], batches: Any = BATCHES, lengths: Any = LENGTHS) -> TracedPhase:
    scenario = Scenario.of({"model": LLAMA, "phases": {"training": fields}})
    phase = scenario.phases.training
    assert isinstance(phase, TrainingStep)
    spec = resolve_model(scenario.model, load_catalog().presets)
    return plan_step(phase, spec, micro_batch_size=batches, sequence_length=lengths)


def plainly(phase: TracedPhase) -> tuple[Any, Any]:
    """Bytes of every recorded row that is shown, and the number of each."""
    recorded, count = phase.trace, len(BATCHES)
    values = np.array([np.broadcast_to(value, count) for value in phase._values()], dtype=object)
    rows = [(row, shown) for name, shown in phase.rename.items() for row in recorded.moments.get(name, ())]
    totals = [
        recorded.table[row].astype(object) @ values + sum(held_at(phase.standing, at).values()) for row, at in rows
    ]
    return np.array(totals), np.array([row for row, _ in rows])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"attention_implementation": "eager", "precision": "amp-bf16"},
        {"activation_checkpointing": "full", "loss_implementation": "fused_linear"},
        {"parallelism": {"data": 8, "zero_stage": 2}},
        {"parallelism": {"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2"}},
    ],
    ids=str,
)
def test_the_fullest_row_of_each_point_is_that_of_the_whole_table(fields: dict[str, Any]) -> None:
    phase = planned(fields)
    points = phase.at_points()
    totals, rows = plainly(phase)
    assert points.highest().tolist() == totals.max(axis=0).tolist()
    highest, places = points.fullest
    assert highest.tolist() == totals.max(axis=0).tolist()
    assert points.row_of[places].tolist() == rows[totals.argmax(axis=0)].tolist()


def test_rows_and_columns_that_vary_alike_are_few() -> None:
    phase = planned({"activation_checkpointing": "full"})
    points = phase.at_points()
    rows, products = points.coefficients.shape
    assert rows < len(phase.trace.table) / 2
    assert products < len(phase.trace.columns) / 2


def test_blocks_do_not_change_what_is_found() -> None:
    count = 3 * max(FEWEST, ONE_THREAD // 10)
    batches, lengths = np.arange(count) % 50 + 2, np.arange(count) % 977 + 1
    whole = planned({}, batches, lengths).peak_bytes()
    assert isinstance(whole, np.ndarray)
    for index in (0, 1, count // 2, count - 1):
        assert whole[index] == planned({}, int(batches[index]), int(lengths[index])).peak_bytes()


def test_points_are_told_apart_by_a_batch_of_one_and_by_windows() -> None:
    config = {
        "model_type": "mistral", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 512, "sliding_window": 100,
        "max_position_embeddings": 4096, "architectures": ["MistralForCausalLM"],
    }  # fmt: skip
    spec = resolve_model(Scenario.of({"model": {"config": config, "task": "causal-lm"}}).model, load_catalog().presets)
    assert [(item.axis, item.last) for item in switches(spec)] == [("batch", 1), ("sequence", 100)]
    assert tile_length(spec) == 128
    kinds = kinds_of_points(spec, np.array([1, 1, 2, 2, 1]), np.array([100, 101, 100, 101, 7]))
    assert sorted(np.flatnonzero(kind).tolist() for kind in kinds) == [[0, 4], [1], [2], [3]]
