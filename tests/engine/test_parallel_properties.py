"""Invariants of layouts over GPUs, for any legal degree."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.moments import ALL
from planner.engine.phases.stage_report import settled_step
from planner.engine.phases.step import plan_step
from planner.engine.pipeline import Stage, end_weights, layer_count, layers_of, stage_layers
from planner.engine.plan import PhasePlan
from planner.model import resolve_model
from planner.model.spec import ModelSpec
from planner.model.weights import weights
from planner.scenario import Scenario, validate
from planner.scenario.step import TrainingStep

LAYERS = 24
DIMENSIONS = {
    "layers": LAYERS, "hidden_size": 256, "attention_heads": 16, "kv_heads": 16, "ffn_hidden_size": 1024,
    "vocab_size": 4096, "max_positions": 1024,
}  # fmt: skip
MIXTURE = DIMENSIONS | {"experts": 16, "experts_per_token": 2, "expert_ffn_hidden_size": 256}
OWN_BUFFERS = 600_000_000 * 4
"""The largest bucket any scheme allocates whatever the model, and what a model this small gathers."""

ROUNDING = 1000
"""Each tensor's share is rounded up to a whole element."""


def planned(dimensions: dict[str, Any] = DIMENSIONS, **step: Any) -> tuple[TrainingStep, ModelSpec]:
    chosen = {"sequence_length": 512, "precision": "bf16-fp32-master", "optimizer_implementation": "fused"} | step
    scenario = Scenario.of({"model": {"dimensions": dimensions}, "phases": {"training": chosen}})
    training = scenario.phases.training
    assert training is not None
    return training, resolve_model(scenario.model, load_catalog().presets)


def peak(dimensions: dict[str, Any] = DIMENSIONS, **step: Any) -> int:
    return int(plan_step(*planned(dimensions, **step)).peak_bytes())


def states(dimensions: dict[str, Any] = DIMENSIONS, **parallelism: Any) -> int:
    """Weights and optimizer states when a step starts, and gradients when it ends."""
    settled, _ = settled_step(*planned(dimensions, parallelism=parallelism))
    start, end = settled.moments["start_of_step"], settled.moments["optimizer_step"]
    return start.components["weights"] + start.components["optimizer_states"] + end.components["gradients"]


@given(ranks=st.sampled_from([2, 3, 4, 8, 64]), stage=st.sampled_from([1, 2, 3]))
@settings(max_examples=15, deadline=None)
def test_a_shard_is_never_above_the_whole(ranks: int, stage: int) -> None:
    assert states(data=ranks, zero_stage=stage) <= states()


@given(ranks=st.sampled_from([2, 4, 16, 128]), batch=st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_each_stage_of_zero_needs_less_than_the_one_before_up_to_its_own_buffers(ranks: int, batch: int) -> None:
    needs = [
        peak(micro_batch_size=batch, parallelism={"data": ranks, "zero_stage": stage, "sharding_backend": backend})
        for stage, backend in ((3, "deepspeed"), (2, "deepspeed"), (1, "deepspeed"), (0, "ddp"))
    ]
    for less, more in itertools.pairwise(needs):
        assert less <= more + OWN_BUFFERS


@pytest.mark.parametrize("dimensions", [DIMENSIONS, MIXTURE])
def test_each_stage_of_zero_keeps_less_states_than_the_one_before(dimensions: dict[str, Any]) -> None:
    kept = [states(dimensions, data=8, zero_stage=stage) for stage in (3, 2, 1, 0)]
    assert kept == sorted(kept)


@pytest.mark.parametrize(
    ("backend", "stage"),
    [
        ("fsdp1", 3), ("fsdp2", 3), ("deepspeed", 1), ("deepspeed", 2), ("deepspeed", 3),
        ("megatron-distributed-optimizer", 1), ("zero-redundancy-optimizer", 1),
    ],
)  # fmt: skip
def test_more_ranks_never_raise_what_one_of_them_keeps(backend: str, stage: int) -> None:
    kept = [states(data=ranks, zero_stage=stage, sharding_backend=backend) for ranks in (2, 4, 8, 32)]
    assert kept == sorted(kept, reverse=True)


@given(ranks=st.sampled_from([8, 16, 64]), replicas=st.sampled_from([2, 4, 8]))
@settings(max_examples=9, deadline=None)
def test_hybrid_shards_are_those_of_one_group(ranks: int, replicas: int) -> None:
    hybrid = states(data=ranks, zero_stage=3, sharding_backend="fsdp2", shard_replicas=replicas)
    group = {"zero_stage": 3, "sharding_backend": "fsdp2"} if ranks > replicas else {}
    assert hybrid == states(data=max(1, ranks // replicas), **group)


@given(tensor=st.sampled_from([2, 4, 8, 16]), pipeline=st.sampled_from([2, 3, 4, 8]))
@settings(max_examples=12, deadline=None)
def test_model_parallel_ranks_keep_less_than_the_whole(tensor: int, pipeline: int) -> None:
    assert states(tensor=tensor) <= states()
    assert states(pipeline=pipeline) <= states()
    assert states(tensor=tensor, pipeline=pipeline) <= states(tensor=tensor)


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_expert_parallel_ranks_keep_less_and_sharding_is_not_counted_twice(stage: int) -> None:
    kept = [states(MIXTURE, data=8, zero_stage=stage, expert=expert) for expert in (1, 2, 8)]
    if stage == 3:
        assert max(kept) - min(kept) < ROUNDING
    else:
        assert kept == sorted(kept, reverse=True)


@given(tensor=st.sampled_from([1, 2, 4]), data=st.sampled_from([1, 2, 4]), expert=st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=36, deadline=None)
def test_all_ranks_together_hold_every_expert(tensor: int, data: int, expert: int) -> None:
    """Experts that are dealt to tensor-parallel ranks are whole there (vLLM, SGLang, transformers)."""
    if expert > tensor * data:
        return
    together = states(MIXTURE, tensor=tensor, data=data, expert=expert) * tensor * data
    assert together >= states(MIXTURE)


@given(
    layers=st.integers(1, 97),
    stages=st.integers(1, 12),
    chunks=st.integers(1, 4),
    kinds=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_the_stages_of_a_pipeline_together_hold_every_layer_once(
    layers: int, stages: int, chunks: int, kinds: int
) -> None:
    _, spec = planned()
    group = spec.stack.groups[0]
    counts = [layers // kinds + (kind < layers % kinds) for kind in range(kinds)]
    groups = tuple(replace(group, count=count) for count in counts if count)
    spec = replace(spec, stacks=(replace(spec.stack, groups=groups),))
    pipeline = [Stage(index, stages, chunks) for index in range(stages)]
    assert sum(layer_count(stage_layers(spec, stage)) for stage in pipeline) == layers
    for stage in pipeline:
        parts = [layer_count(layers_of(spec, stage, chunk)) for chunk in range(chunks)]
        assert sum(parts) == layer_count(stage_layers(spec, stage))
        assert max(parts) <= -(-layers // (stages * chunks))


@pytest.mark.parametrize("tied", [False, True])
def test_the_ends_of_a_pipeline_hold_what_is_outside_the_layers_and_a_tied_table_twice(tied: bool) -> None:
    _, spec = planned(DIMENSIONS | {"tied_embeddings": tied})

    def count(*ends: Any) -> int:
        return sum(weight.elements * copies for end in ends for weight, copies in end_weights(spec, end))

    outside = sum(weight.elements * copies for weight, copies in weights(spec) if weight.group is None)
    assert count("first", "none", "last") == outside + tied * 4096 * 256
    assert count("both") == outside


@given(stages=st.integers(1, 16), micro_batches=st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_1f1b_keeps_a_micro_batch_for_each_stage_that_follows(stages: int, micro_batches: int) -> None:
    held = [Stage(index, stages, 1).micro_batches_in_flight(micro_batches)[0] for index in range(stages)]
    assert held == [min(micro_batches, stages - index) for index in range(stages)]


@pytest.mark.parametrize(("stages", "chunks"), [(8, 3), (35, 3), (4, 2)])
def test_interleaving_raises_the_first_stage_by_the_factor_of_the_paper(stages: int, chunks: int) -> None:
    """Korthikanti et al. (arXiv:2205.05198), section 4.2.3: L (1 + (p - 1) / (p m)) layers."""
    in_flight = sum(Stage(0, stages, chunks).micro_batches_in_flight(4 * stages))
    assert in_flight == stages * chunks + stages - 1


def plan(**parallelism: Any) -> PhasePlan:
    step = {"parallelism": parallelism, "gradient_accumulation_steps": 8, "activation_profile": "megatron-core"}
    step |= {"precision": "bf16-fp32-master", "sequence_length": 512}
    scenario = Scenario.of({"model": {"dimensions": DIMENSIONS}, "phases": {"training": step}})
    return estimate(scenario, load_catalog()).phases["training"]


def test_every_stage_is_listed_and_the_fullest_is_reported() -> None:
    reported = plan(pipeline=4)
    stages = reported.details["stages"]
    assert [stage["layers"] for stage in stages] == [6, 6, 6, 6]
    assert [stage["micro_batches_in_flight"] for stage in stages] == [4, 3, 2, 1]
    assert reported.peak.allocated_bytes == max(stage["allocated_bytes"] for stage in stages)
    for end, place in (("first", 0), ("last", -1)):
        assert plan(pipeline=4, reported_stage=end).peak.allocated_bytes == stages[place]["allocated_bytes"]


def test_terms_of_a_pipeline_stage_sum_to_its_moments() -> None:
    reported = plan(pipeline=4, pipeline_interleave=3)
    for name in ALL:
        told = sum(int(item.bytes) for item in reported.terms if name in item.alive and item.component != "overhead")
        assert told == reported.moments[name].allocated_bytes


ILLEGAL = [
    ({"tensor": 3}, "tensor_heads"),
    ({"pipeline": 25}, "pipeline_layers"),
    ({"pipeline_interleave": 2}, "interleave_without_pipeline"),
    ({"expert": 2}, "expert_dense"),
    ({"data": 4, "zero_stage": 3, "sharding_backend": "ddp"}, "zero_backend"),
    ({"data": 4, "zero_stage": 2, "pipeline": 2, "sharding_backend": "deepspeed"}, "zero_with_pipeline"),
    ({"context": 3, "context_parallel_mode": "ulysses"}, "context_heads"),
    ({"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2", "shard_replicas": 3}, "shard_replicas"),
    ({"tensor": 16, "sequence_parallel": True}, "sequence_divides"),
]


@pytest.mark.parametrize(("parallelism", "code"), ILLEGAL)
def test_an_illegal_layout_is_refused_with_the_reason(parallelism: dict[str, Any], code: str) -> None:
    step = {"parallelism": parallelism, "sequence_length": 513}
    scenario = Scenario.of({"model": {"dimensions": DIMENSIONS}, "phases": {"training": step}})
    catalog = load_catalog()
    found = validate(scenario, resolve_model(scenario.model, catalog.presets), catalog.hardware)
    assert code in {issue.code for issue in found if issue.severity == "error"}
