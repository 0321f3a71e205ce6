"""FSDP2 on the stages of a pipeline, counted by hand from torch's schedule."""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.scenario import Scenario

HIDDEN, FFN, VOCABULARY, LAYERS = 512, 1536, 8000, 8
CONFIG = {
    "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": VOCABULARY, "max_position_embeddings": 2048, "num_hidden_layers": LAYERS,
    "tie_word_embeddings": False,
}  # fmt: skip
LAYER = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN + 2 * HIDDEN
TABLE = VOCABULARY * HIDDEN


def plan(stage: str, *, data: int = 8, pipeline: int = 2, **parallelism: Any) -> PhasePlan:
    spread = {"data": data, "pipeline": pipeline, "zero_stage": 3, "sharding_backend": "fsdp2"}
    spread |= {"reported_stage": stage} | parallelism
    step = {"precision": "amp-bf16", "sequence_length": 512, "gradient_accumulation_steps": 8, "parallelism": spread}
    document = {"model": {"config": CONFIG, "task": "causal-lm"}, "phases": {"training": step}}
    return estimate(Scenario.of(document), load_catalog()).phases["training"]


def sizes(found: PhasePlan) -> dict[str, int]:
    return {term.name: int(term.bytes) for term in found.terms if term.name.endswith("of the stage")}


@pytest.mark.parametrize(("stage", "ends"), [("first", TABLE), ("last", TABLE + HIDDEN)])
@pytest.mark.parametrize(("reduce", "width"), [("fp32", 4), ("bf16", 2)])
def test_a_stage_is_gathered_and_its_gradients_are_added_up_whole(
    stage: str, ends: int, reduce: str, width: int
) -> None:
    own = LAYERS // 2 * LAYER + ends
    assert sizes(plan(stage, fsdp_reduce_dtype=reduce)) == {
        "gathered weights of the stage": 2 * own,
        "whole gradients of the stage": width * own,
    }


@pytest.mark.parametrize("stage", ["first", "last"])
def test_between_steps_a_rank_keeps_its_share_of_the_stage_alone(stage: str) -> None:
    found = plan(stage)
    own = LAYERS // 2 * LAYER + TABLE + (HIDDEN if stage == "last" else 0)
    start, end = found.moments["start_of_step"].components, found.moments["optimizer_step"].components
    assert start["weights"] == pytest.approx(4 * own / 8, rel=0.001)
    assert start["optimizer_states"] == pytest.approx(8 * own / 8, rel=0.001)
    assert end["gradients"] == pytest.approx(4 * own / 8, rel=0.001)


def test_more_ranks_divide_what_stands_and_not_what_is_gathered() -> None:
    few, many = plan("last", data=4), plan("last", data=64)
    assert sizes(few) == sizes(many)
    shares = sum(few.moments["start_of_step"].components[name] for name in ("weights", "optimizer_states"))
    fewer = sum(many.moments["start_of_step"].components[name] for name in ("weights", "optimizer_states"))
    assert fewer == pytest.approx(shares / 16, rel=0.03)
    assert many.peak.allocated_bytes < few.peak.allocated_bytes


def test_without_a_pipeline_units_are_gathered_one_after_the_other() -> None:
    spread = {"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2"}
    step = {"precision": "amp-bf16", "sequence_length": 512, "parallelism": spread}
    document = {"model": {"config": CONFIG, "task": "causal-lm"}, "phases": {"training": step}}
    assert not sizes(estimate(Scenario.of(document), load_catalog()).phases["training"])
