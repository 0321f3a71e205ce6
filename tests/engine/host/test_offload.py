"""States in host RAM against DeepSpeed's published tables, and FSDP's by hand."""

import pytest

from planner.engine.host import Checkpoint, NodeShare, fsdp_offload_terms, loading_terms, offload_terms
from planner.engine.phases.surroundings import training_surroundings
from planner.engine.plan import by_name
from planner.scenario.hardware import Hardware
from planner.scenario.phases import Training
from planner.units import GIB

PARAMETERS = 8_030_261_248
T5_3B = 2851 * 10**6


@pytest.mark.parametrize(
    ("weights", "sharded", "published_gib"),
    [  # DeepSpeed docs/code-docs/source/memory.rst, ZeRO-3, t5-3b on eight GPUs of one node
        (True, True, 71.71),
        (True, False, 127.48),
        (False, True, 63.74),
        (False, False, 127.48),
    ],
)
def test_offloaded_states_are_what_deepspeed_publishes_for_zero_3(weights, sharded, published_gib, one_node, total):
    terms = offload_terms(T5_3B, one_node, optimizer=True, weights=weights, initialised_sharded=sharded)
    assert total(terms) / GIB == pytest.approx(published_gib, rel=0.001)


def test_zero_2_with_offload_is_what_deepspeed_publishes(one_node, total):
    # memory.rst, ZeRO-2, t5-3b: 127.48 GB of CPU memory for eight GPUs, offload_optimizer=cpu
    terms = offload_terms(T5_3B, one_node, optimizer=True, weights=False, initialised_sharded=False)
    assert total(terms) / GIB == pytest.approx(127.48, rel=0.001)


def test_zero_2_and_3_without_offload_load_two_thirds_of_what_deepspeed_keeps_ready():
    # memory.rst: 127.48 GB for eight fp32 copies, of which a third is its buffer factor of 1.5; a model in a checkpoint
    # is loaded without such a buffer
    terms = loading_terms(Checkpoint(T5_3B, 4, 4), copies=8)
    assert by_name(terms)["loading the checkpoint"] * 1.5 / GIB == pytest.approx(127.48, rel=0.001)


def test_two_nodes_halve_what_each_keeps(total):
    one, two = (total(offload_terms(T5_3B, NodeShare(8, n), optimizer=True, weights=True)) for n in (1, 2))
    assert one == pytest.approx(2 * two, abs=8)


def test_nothing_offloaded_takes_nothing(one_node):
    assert offload_terms(T5_3B, one_node, optimizer=False, weights=False) == ()


def test_offloaded_optimizer_states_fill_the_host(phase, llama_8b):
    step = phase(Training, parallelism={"data": 8, "zero_stage": 3}, offload={"optimizer": "cpu"})
    ram = by_name(training_surroundings(step, llama_8b, Hardware()).host_terms)
    assert ram["offloaded optimizer states"] == pytest.approx(8 * PARAMETERS, rel=1e-3)
    assert ram["offloaded fp32 weights"] == ram["offloaded gradients"] == 4 * PARAMETERS
    assert ram["offload buffers"] == pytest.approx(8 * PARAMETERS, rel=1e-3)


def test_fsdp_keeps_weights_gradients_and_states_in_their_own_width(phase, llama_8b):
    # torch FSDP, CPUOffload: 2 + 2 + 2 x 2 bytes per bf16 parameter, without DeepSpeed's buffers
    step = phase(
        Training,
        parallelism={"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2"},
        offload={"optimizer": "cpu", "parameters": "cpu"},
    )
    ram = by_name(training_surroundings(step, llama_8b, Hardware()).host_terms)
    kept = [size for name, size in ram.items() if name.startswith("offloaded")]
    assert sum(kept) == pytest.approx(8 * PARAMETERS, rel=1e-4)
    assert sum(item.bytes for item in fsdp_offload_terms(1000, NodeShare(8, 2), width=4, state_bytes=8)) == 500 * 16


def test_weights_on_nvme_pass_through_pinned_buffers(phase, llama_8b):
    # DeepSpeed runtime/zero/offload_config.py: 5 buffers of 1e8 elements; in 16 bits, for each of eight processes
    step = phase(Training, parallelism={"data": 8, "zero_stage": 3}, offload={"parameters": "nvme"}, data_loading={
        "workers": 0}, loading={"strategy": "streamed"})  # fmt: skip
    ram = by_name(training_surroundings(step, llama_8b, Hardware()).host_terms)
    assert ram["NVMe buffers"] == 8 * 10**9


def test_offloaded_activations_fill_the_host(phase, llama_8b):
    step = phase(Training, parallelism={"data": 8}, offload={"activations": "cpu"})
    around = training_surroundings(step, llama_8b, Hardware(), saved_activation_bytes=30 * GIB)
    assert by_name(around.host_terms)["offloaded activations"] == 8 * 30 * GIB


def test_a_job_larger_than_a_node_spreads_over_several():
    assert NodeShare.of(16, 8) == NodeShare(8, 2)
    assert NodeShare.of(2, 8) == NodeShare(2, 1)
