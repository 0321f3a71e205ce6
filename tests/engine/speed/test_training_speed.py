"""Training steps at best: parts that can be counted by hand, and what must hold whatever the step."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from planner.catalog import load_catalog
from planner.engine.plan import PhaseName
from planner.engine.speed import Speed, Work, rough_speed
from planner.scenario import Scenario

CATALOG = load_catalog()
LLAMA = {"preset": "meta-llama/Llama-3.1-8B"}
LAYERS, HEAD = 6_979_321_856, 525_336_576
"""Weights that a token of Llama 3.1 8B meets."""
GIGA, TERA = 1e9, 1e12


def speed(fields: dict[str, Any], gpu: str = "h100-sxm5-80gb", phase: PhaseName = "training", **hardware: Any) -> Speed:
    document = {"model": LLAMA, "phases": {phase: fields}, "hardware": {"gpus": [gpu], **hardware}}
    found = rough_speed(Scenario.of(document), phase, CATALOG)
    assert found is not None
    return found


def works(found: Speed, resource: str) -> dict[str, Work]:
    return {work.name: work for item in found.passes for work in item.works if work.resource == resource}


def test_a_step_takes_six_flop_per_weight_and_token() -> None:
    found = works(speed({"sequence_length": 4096, "micro_batch_size": 2, "gradient_accumulation_steps": 3}), "compute")
    products = found["products with weights, decoder"]
    assert products.amount == 6 * LAYERS * 4096 * 2 * 3
    assert found["output projection"].amount == 6 * HEAD * 4096 * 2 * 3
    assert products.seconds == pytest.approx(6 * LAYERS * 4096 * 6 / (989 * TERA))


def test_frozen_weights_take_four_and_the_last_layers_their_share() -> None:
    lora = works(speed({"method": "lora"}, phase="fine_tuning"), "compute")["products with weights, decoder"]
    assert lora.amount == 4 * LAYERS * 2048
    tuned = {"method": "last_layers", "trained_layers": 8}
    last = works(speed(tuned, phase="fine_tuning"), "compute")["products with weights, decoder"]
    assert last.amount == 3 * LAYERS * 2048  # 2 + 4 x 8 / 32


def test_checkpointing_runs_layers_again_but_not_their_last_product() -> None:
    again = works(speed({"activation_checkpointing": "full"}), "compute")["recomputation, decoder"]
    assert again.amount == 2 * (LAYERS - 32 * 4096 * 14336) * 2048
    whole = {"activation_checkpointing": "full", "activation_profile": "megatron-core"}
    assert works(speed(whole), "compute")["recomputation, decoder"].amount == 2 * LAYERS * 2048
    assert "recomputation, decoder" not in works(speed({}), "compute")


def test_kernels_in_tiles_compute_scores_again_in_backward() -> None:
    """FlashAttention 2: two products forward, five backward; without tiles all pairs, twice as much backward."""
    tiles, eager = (
        works(speed({"attention_implementation": kernel, "sequence_length": 4096}), "compute")["attention"].amount
        for kernel in ("sdpa", "eager")
    )
    assert eager == 3 * 4 * 32 * 4096 * 4096 * 4096
    assert tiles == pytest.approx(3.5 * 2 * 32 * 4096 * 4096 * 4096, rel=1e-3)


def test_float8_doubles_the_rate_of_layers_alone() -> None:
    found = works(speed({"precision": "fp8"}), "compute")
    rates = {name: None if work.rate is None else work.rate.value for name, work in found.items()}
    assert rates["products with weights, decoder"] == 1979 * TERA
    assert rates["attention"] == rates["output projection"] == 989 * TERA


def test_tf32_has_half_of_the_16_bit_rate_on_an_a100() -> None:
    """156 of 312 TFLOP/s by NVIDIA's data sheet."""
    rate = works(speed({"precision": "tf32"}, "a100-sxm4-80gb"), "compute")["attention"].rate
    assert rate is not None
    assert rate.value == 156 * TERA


def test_stages_wait_for_one_another() -> None:
    """Narayanan et al., section 2.2: (p - 1) / m; with two chunks half of it."""
    layout = {"pipeline": 4}
    fields = {"activation_profile": "megatron-core", "gradient_accumulation_steps": 6}
    plain = works(speed({**fields, "parallelism": layout}), "compute")["products with weights, decoder"]
    halves = {**fields, "parallelism": {**layout, "pipeline_interleave": 2}}
    interleaved = works(speed(halves), "compute")["products with weights, decoder"]
    ideal = 6 * LAYERS * 2048 * 6 / 4
    assert plain.amount == pytest.approx(ideal * (1 + 3 / 6))
    assert interleaved.amount == pytest.approx(ideal * (1 + 3 / 12))


def test_gradients_cross_by_the_factors_of_nccl_tests() -> None:
    """All-reduce 2 (n - 1) / n, on Hopper's switches once; reduce-scatter and all-gather (n - 1) / n each."""
    weights = 8_030_261_248
    ddp = {"precision": "bf16", "parallelism": {"data": 8}}
    ampere = works(speed(ddp, "a100-sxm4-80gb"), "interconnect")["gradients"]
    assert ampere.amount == pytest.approx(2 * 7 / 8 * weights * 2)
    assert ampere.seconds == pytest.approx(2 * 7 / 8 * weights * 2 / (300 * GIGA))
    assert works(speed(ddp), "interconnect")["gradients"].amount == weights * 2
    sharded = {"precision": "bf16", "parallelism": {"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2"}}
    found = works(speed(sharded), "interconnect")
    assert found["gradients"].amount == pytest.approx(7 / 8 * weights * 2)
    assert found["weights"].amount == pytest.approx(2 * 7 / 8 * (weights - 128256 * 4096) * 2)


def test_between_servers_the_network_carries_what_is_left_after_each_server_has_added_up() -> None:
    layout = {"parallelism": {"data": 16}, "precision": "bf16"}
    found = speed(layout, gpus_per_node=8, nodes=2, network_gbit_per_s=3200)
    crossing = works(found, "network")["gradients, between servers"]
    assert crossing.amount == 2 * 1 / 2 * 8_030_261_248 * 2
    assert crossing.seconds == pytest.approx(crossing.amount / (400 * GIGA))
    unknown = speed(layout, gpus_per_node=8, nodes=2)
    assert unknown.notes == ("The network between servers is not stated: gradients, between servers not counted.",)


def test_tensor_parallel_ranks_meet_twice_per_layer_and_direction() -> None:
    """Megatron-LM, section 3: two all-reduces forward, two backward, each of the hidden states."""
    found = works(speed({"parallelism": {"tensor": 2}}, "a100-sxm4-80gb"), "interconnect")["tensor parallel"]
    assert found.amount == 2 * 1 / 2 * 2048 * 4096 * 2 * 64 * 2


def test_an_update_reads_and_writes_every_state() -> None:
    found = works(speed({"precision": "bf16-fp32-master"}), "memory")
    states = found["optimizer states in the update"].amount
    assert states == 2 * 12 * 8_030_261_248  # momentum, variance and the master copy in fp32


def test_what_waits_in_host_ram_crosses_the_link_to_it() -> None:
    plain = {"parallelism": {"data": 8, "zero_stage": 3}, "precision": "bf16-fp32-master"}
    assert works(speed(plain), "host link") == {}
    offloaded = works(speed({**plain, "offload": {"optimizer": "cpu", "parameters": "cpu"}}), "host link")
    assert offloaded["updated weights from the host"].amount == 8_030_261_248 * 2 / 8
    assert offloaded["weights from the host"].seconds == pytest.approx(2 * 15_009_849_344 / 8 / (63.02 * GIGA))
    saved = works(speed({"offload": {"activations": "cpu"}, "activation_checkpointing": "full"}), "host link")
    assert saved["saved activations"].amount == 2 * 31 * 2048 * 4096 * 2  # the inputs of layers but the first


def test_the_bound_names_what_is_busiest() -> None:
    assert speed({"sequence_length": 8192, "micro_batch_size": 2}).bound == "compute"
    assert speed({"sequence_length": 16, "optimizer": "sgd"}).bound == "memory"
    slow = {"sequence_length": 64, "parallelism": {"data": 8}}
    assert speed(slow, "l40s").bound == "interconnect"


def test_utilization_is_at_most_what_the_busiest_resource_leaves() -> None:
    found = speed({"sequence_length": 8192, "activation_checkpointing": "full"})
    share = found.figure("model FLOPs utilization")
    assert share is not None
    assert 70 < share < 80  # three quarters, where everything runs once more
    assert (speed({"sequence_length": 8192}).figure("model FLOPs utilization") or 0) > share


def test_no_rates_are_told_where_the_arithmetic_has_no_peak() -> None:
    for gpu in ("apple-m4-max", "a100-sxm4-80gb/3g.40gb"):
        found = speed({}, gpu)
        assert (found.figures, found.costs) == ((), ())
        assert any("peak rate" in note for note in found.notes)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["h100-sxm5-80gb", "a100-pcie-40gb", "l40s", "mi300x", "gb200", "t4", "rtx-4090"]),
    st.sampled_from(["none", "selective", "full"]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 8]),
    st.integers(0, 3),
    st.integers(1, 4),
    st.sampled_from(["bf16", "amp-bf16", "fp32", "bf16-fp32-master", "fp8"]),
)
def test_at_best_is_never_longer_than_one_after_the_other_and_recomputation_never_faster(
    gpu: str, checkpointing: str, tensor: int, data: int, stage: int, batch: int, precision: str
) -> None:
    layout = {"tensor": tensor, "data": data, "zero_stage": stage}
    fields = {"precision": precision, "micro_batch_size": batch, "parallelism": layout}
    plain, again = speed(fields, gpu), speed({**fields, "activation_checkpointing": checkpointing}, gpu)
    for found in (plain, again):
        assert 0 < found.seconds <= found.in_turn_seconds * (1 + 1e-9)
        assert found.bound in found.passes[0].busy or found.bound in found.passes[-1].busy
        assert all(work.amount > 0 and work.source for item in found.passes for work in item.works)
    assert again.order >= plain.order


def test_tiles_of_a_feed_forward_run_again() -> None:
    again = works(speed({"tiled_mlp": True}), "compute")["tiles again, decoder"]
    assert again.amount == 2 * 32 * 3 * 4096 * 14336 * 2048
