"""Later stages of a pipeline with the same layers are never fuller: looking at few of them finds the fullest."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.phases.step import plan_pipeline
from planner.engine.pipeline import may_be_fullest
from planner.model import resolve_model
from planner.scenario import Scenario

CONFIG = {
    "model_type": "llama", "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 4,
    "intermediate_size": 2816, "vocab_size": 32000, "max_position_embeddings": 8192,
}  # fmt: skip


def stages(layers: int, pipeline: int, **step: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Peaks of all stages, and of those that may be the fullest."""
    chosen = {"activation_profile": "megatron-core", "precision": "bf16-fp32-master", **step}
    chosen["parallelism"] = {"pipeline": pipeline}
    model = {"config": {**CONFIG, "num_hidden_layers": layers}}
    scenario = Scenario.of({"model": model, "phases": {"training": chosen}})
    phase, spec = scenario.phases.training, resolve_model(scenario.model, {})
    assert phase is not None
    found = (plan_pipeline(phase, spec, every_stage=every) for every in (True, False))
    every, some = (tuple(int(stage.peak_bytes()) for stage in planned) for planned in found)
    return every, some


@settings(max_examples=40, deadline=None)
@given(
    pipeline=st.integers(2, 8),
    more=st.integers(0, 20),
    micro_batches=st.integers(1, 12),
    kept=st.sampled_from(["none", "selective", "full"]),
)
def test_the_fullest_stage_is_among_those_that_are_looked_at(
    pipeline: int, more: int, micro_batches: int, kept: str
) -> None:
    sizes = {"micro_batch_size": 2, "sequence_length": 1024, "gradient_accumulation_steps": micro_batches}
    every, some = stages(pipeline + more, pipeline, activation_checkpointing=kept, **sizes)
    assert len(every) == pipeline
    assert max(some) == max(every)


@pytest.mark.parametrize(
    ("layers", "pipeline", "looked_at"),
    [(32, 4, (0, 1, 3)), (32, 2, (0, 1)), (34, 8, (0, 1, 2, 7)), (10, 8, (0, 1, 2, 7)), (9, 8, (0, 1, 7))],
)
def test_stages_with_the_same_layers_are_looked_at_once(layers: int, pipeline: int, looked_at: tuple[int, ...]) -> None:
    spec = resolve_model(Scenario.of({"model": {"config": {**CONFIG, "num_hidden_layers": layers}}}).model, {})
    assert may_be_fullest(spec, pipeline, 1) == looked_at
    assert may_be_fullest(spec, pipeline, 2) == tuple(range(pipeline))
