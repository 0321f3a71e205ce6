"""One rank of 4, 16 and 64 under FSDP2 and FSDP1, whole and hybrid, against operator-level traces of small models.

The numbers, and how they were traced, are in `tests/data/traced-shards.json`. One of the models has rows that no number
of ranks divides.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario

DATA = json.loads((Path(__file__).parents[1] / "data" / "traced-shards.json").read_text("utf-8"))
MOMENTS = ("start_of_step", "forward", "end_of_forward", "backward", "optimizer_step")


def name(case: dict[str, Any]) -> str:
    step, spread = case["step"], case["step"]["parallelism"]
    kind = f"{case['model']}/{spread['sharding_backend']}/{spread['data']}/{spread.get('shard_replicas', 1)}"
    further = f"{step.get('method', 'full')}/{'offload' if 'offload' in step else 'gpu'}"
    further += f"/{step.get('gradient_accumulation_steps', 1)}"
    further += "" if spread.get("reduces_every_micro_batch", True) else "/at the last"
    return f"{kind}/{spread['fsdp_reduce_dtype']}/{step.get('activation_checkpointing', 'none')}/{further}"


@pytest.mark.parametrize("case", DATA["cases"], ids=name)
def test_a_rank_holds_what_the_trace_shows(case: dict[str, Any]) -> None:
    chosen = {"precision": "amp-bf16", "optimizer_implementation": "fused"} | case["step"]
    phase: Any = "fine_tuning" if "method" in chosen else "training"
    document = {"model": {"config": DATA["models"][case["model"]], "task": "causal-lm"}, "phases": {phase: chosen}}
    moments = estimate(Scenario.of(document), load_catalog()).phases[phase].moments
    found = [moments[moment].allocated_bytes for moment in MOMENTS]
    assert found == pytest.approx(case["traced"], rel=0.002)


def test_a_weight_of_few_rows_is_divided_no_further_than_they_go() -> None:
    def start(ranks: int) -> int:
        spread = {"data": ranks, "zero_stage": 3, "sharding_backend": "fsdp2"}
        model = {"config": DATA["models"]["small"], "task": "causal-lm"}
        document = {"model": model, "phases": {"training": {"precision": "amp-bf16", "parallelism": spread}}}
        phase = estimate(Scenario.of(document), load_catalog()).phases["training"]
        return phase.moments["start_of_step"].components["weights"]

    # Each of 16384 ranks has room for one row of every weight: q, k, v, o, gate and up of 512 inputs, down of 1536 and
    # two norms in each of six layers, and outside of them the token table, the head and a norm.
    rows = 6 * (4 * 512 + 2 * 512 + 1536 + 2 * 1) + 2 * 512 + 1
    assert start(16384) - start(32768) == 0
    assert start(16384) == pytest.approx(4 * rows, abs=1000)


@pytest.mark.parametrize(
    ("model", "ranks", "elements"),
    [
        # `ZeroRedundancyOptimizer._partition_parameters` of torch 2.13 on the models' own parameters.
        ("small", 2, 13143552),
        ("small", 4, 6586368),
        ("small", 16, 4096000),
        ("small", 64, 4096000),
        ("odd", 2, 3819200),
        ("odd", 4, 1909760),
        ("odd", 16, 1600960),
        ("odd", 64, 1600960),
    ],
)
def test_whole_tensors_are_dealt_out_as_torch_does(model: str, ranks: int, elements: int) -> None:
    spread = {"data": ranks, "zero_stage": 1, "sharding_backend": "zero-redundancy-optimizer"}
    document = {
        "model": {"config": DATA["models"][model], "task": "causal-lm"},
        "phases": {"training": {"precision": "fp32", "parallelism": spread}},
    }
    phase = estimate(Scenario.of(document), load_catalog()).phases["training"]
    states = phase.moments["start_of_step"].components["optimizer_states"]
    # Beside two averages of each element, a counter of 4 bytes per tensor.
    assert 0 <= states - 8 * elements <= 4 * 100
