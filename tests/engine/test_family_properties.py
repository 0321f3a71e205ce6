"""What must hold of every step of every family, over random settings: the models are those that were traced."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.phases.step import plan_step
from planner.engine.plan import PhasePlan
from planner.model import resolve_model
from planner.scenario import Scenario
from planner.scenario.choices import LOSSES, OPTIMIZER_KERNELS
from planner.scenario.step import TrainingStep

CASES = json.loads((Path(__file__).parents[1] / "data" / "traced-small-models.json").read_text("utf-8"))["cases"]
MODELS = list({json.dumps([case["config"], case["task"]], sort_keys=True): case for case in CASES}.values())
LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
BOUNDED = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
PROFILES = ("hf-transformers", "hf-transformers", "megatron-core", "torchtitan", "torchtune", "litgpt")

TUNING: tuple[dict[str, Any], ...] = (
    {"method": "full"},
    {"method": "lora"},
    {"method": "lora", "lora": {"dropout": 0.1, "target_modules": "attention"}},
    {"method": "dora"},
    {"method": "qlora"},
    {"method": "last_layers", "trained_layers": 1},
    {"method": "prompt"},
    {"method": "prefix"},
)
CHECKPOINTING: tuple[dict[str, Any], ...] = (
    {"activation_checkpointing": "full"},
    {"activation_checkpointing": "full", "checkpointing_reentrant": True},
    {"activation_checkpointing": "selective", "selective_policy": "core-attention"},
    {"activation_checkpointing": "selective", "selective_policy": "op-sac"},
    {"activation_checkpointing": "selective", "selective_policy": "every-2nd-layer"},
)


class Raised(NamedTuple):
    """Where a framework really keeps more with checkpointing than without."""

    name: str
    holds: Callable[[dict[str, Any]], bool]
    source: str


REAL_EXCEPTIONS = (
    Raised(
        "in short sequences queries, keys and values are larger than the scores that are run again from them",
        lambda step: step.get("selective_policy") == "core-attention" and step["sequence_length"] < 300,
        "Korthikanti et al. 2022 (arXiv:2205.05198), section 5: 5as/h is large where sequences are long",
    ),
    Raised(
        "attention that autocast runs in 16 bits is run again from queries, keys and values in fp32",
        lambda step: step.get("selective_policy") == "core-attention" and step["precision"].startswith("amp-"),
        "torch 2.13, utils/checkpoint.py keeps the inputs of a region as they are passed",
    ),
    Raised(
        "products of frozen weights are kept though no gradient needs them",
        lambda step: step.get("selective_policy") == "op-sac" and step["method"] != "full",
        "torchtitan, distributed/activation_checkpoint.py: MUST_SAVE for every second mm",
    ),
    Raised(
        "reentrant checkpoints keep the inputs of layers that are frozen and need no gradient",
        lambda step: bool(step.get("checkpointing_reentrant")) and step["method"] != "full",
        "torch 2.13, utils/checkpoint.py: CheckpointFunction saves its inputs",
    ),
)


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    optimizer = draw(st.sampled_from(sorted(OPTIMIZER_KERNELS)))
    kernels = [name for name in OPTIMIZER_KERNELS[optimizer] if name != "*"]
    chosen: dict[str, Any] = {
        "precision": draw(st.sampled_from(["fp32", "bf16", "amp-bf16", "bf16-fp32-master", "fp8"])),
        "micro_batch_size": draw(st.integers(1, 4)),
        "sequence_length": draw(st.integers(2, 400)),
        "attention_implementation": draw(st.sampled_from(["eager", "sdpa"])),
        "attention_mask": draw(st.sampled_from(["none", "full", "padded"])),
        "loss_implementation": draw(st.sampled_from(sorted(LOSSES))),
        "label_smoothing": draw(st.sampled_from([0.0, 0.1])),
        "optimizer": optimizer,
        "keeps_outputs": draw(st.booleans()),
        "zero_grad_set_to_none": draw(st.booleans()),
        "tiled_mlp": draw(st.booleans()),
        "activation_profile": draw(st.sampled_from(PROFILES)),
        "optimizer_in_backward": draw(st.booleans()),
    }
    if kernels:
        chosen["optimizer_implementation"] = draw(st.sampled_from(kernels))
    return chosen | draw(st.sampled_from(TUNING))


EVERY_KIND = st.sampled_from(({}, *CHECKPOINTING))


def source(model: dict[str, Any], step: dict[str, Any], **config: Any) -> Scenario:
    chosen = {"config": model["config"] | config, "task": model["task"]}
    return Scenario.of({"model": chosen, "phases": {"fine_tuning": step}})


def planned(model: dict[str, Any], step: dict[str, Any], **config: Any) -> PhasePlan:
    return estimate(source(model, step, **config), load_catalog()).phases["fine_tuning"]


@BOUNDED
@given(st.sampled_from(MODELS), steps(), EVERY_KIND)
def test_terms_sum_to_moments_and_moments_to_the_peak(
    model: dict[str, Any], step: dict[str, Any], checkpointing: dict[str, Any]
) -> None:
    phase = planned(model, step | checkpointing)
    assert phase.peak.allocated_bytes == max(moment.allocated_bytes for moment in phase.moments.values())
    assert sum(phase.components.values()) == phase.peak.process_bytes
    for name, moment in phase.moments.items():
        told = sum(item.bytes for item in phase.terms if name in item.alive and item.component != "overhead")
        assert told == moment.allocated_bytes == sum(moment.components.values())


@BOUNDED
@given(st.sampled_from(MODELS), steps(), EVERY_KIND, st.sampled_from(["micro_batch_size", "sequence_length", "layers"]))
def test_a_larger_batch_a_longer_sequence_or_one_more_layer_never_needs_less(
    model: dict[str, Any], step: dict[str, Any], checkpointing: dict[str, Any], axis: str
) -> None:
    chosen = step | checkpointing
    small = planned(model, chosen).peak.allocated_bytes
    if axis == "layers":
        config = model["config"]
        counted = [name for name in LAYER_COUNTS if name in config]
        assume(counted and not any(isinstance(value, list) for value in config.values()))
        more = planned(model, chosen, **{counted[0]: config[counted[0]] + 1})
    else:
        more = planned(model, chosen | {axis: chosen[axis] + 1})
    assert more.peak.allocated_bytes >= small


@BOUNDED
@given(st.sampled_from(MODELS), steps(), st.sampled_from(CHECKPOINTING))
def test_checkpointing_never_raises_what_the_layers_keep_but_where_a_framework_does(
    model: dict[str, Any], step: dict[str, Any], checkpointing: dict[str, Any]
) -> None:
    chosen = step | checkpointing
    assume(not any(exception.holds(chosen) for exception in REAL_EXCEPTIONS))
    assert planned(model, chosen).layer_activation_bytes <= planned(model, step).layer_activation_bytes


@BOUNDED
@given(
    st.sampled_from(MODELS), steps(), EVERY_KIND,
    st.lists(st.tuples(st.integers(1, 6), st.integers(2, 300)), min_size=2, max_size=4),
)  # fmt: skip
def test_a_sweep_of_batches_and_lengths_equals_single_estimates_to_the_byte(
    model: dict[str, Any], step: dict[str, Any], checkpointing: dict[str, Any], points: list[tuple[int, int]]
) -> None:
    scenario = source(model, step | checkpointing)
    spec = resolve_model(scenario.model, load_catalog().presets)
    phase = scenario.phases.fine_tuning
    assert isinstance(phase, TrainingStep)
    batches, lengths = (np.array(axis) for axis in zip(*points, strict=True))
    swept = plan_step(phase, spec, micro_batch_size=batches, sequence_length=lengths).peak_bytes()
    single = [
        plan_step(phase.model_copy(update={"micro_batch_size": batch, "sequence_length": length}), spec).peak_bytes()
        for batch, length in points
    ]
    assert np.asarray(swept).tolist() == single


def test_exceptions_are_named_with_their_sources() -> None:
    assert all(exception.name and exception.source for exception in REAL_EXCEPTIONS)
