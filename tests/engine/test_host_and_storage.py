"""Host RAM and disk against published figures and hand counts."""

import json

import pytest

from planner.engine.host import NodeShare, fuller, loader_terms, loading_terms, offload_terms
from planner.engine.optimizer import ParameterTensor
from planner.engine.phases.preprocessing import plan_preprocessing
from planner.engine.phases.surroundings import (
    design_surroundings,
    evaluation_surroundings,
    serving_surroundings,
    trained_tensors,
    training_surroundings,
)
from planner.engine.plan import by_name
from planner.engine.storage import checkpoint_terms, data_terms, required_capacity
from planner.model.counts import lora_parameters
from planner.model.spec import Attention, DenseFeedForward, Embedding, Head, LayerGroup, ModelSpec, Stack
from planner.scenario.hardware import Hardware
from planner.scenario.phases import Design, Evaluation, FineTuning, Preprocessing, Training
from planner.scenario.serving import Serving
from planner.units import GIB

GROUP = LayerGroup(32, Attention(32, 8, 128), DenseFeedForward(14336))
LLAMA_8B = ModelSpec("m", "llama", "causal-lm", (Stack("decoder", 4096, Embedding(128256, 4096), (GROUP,)),),
                     Head(128256), 131072)  # fmt: skip
PARAMETERS = 8_030_261_248
T5_3B = 2851 * 10**6
ONE_NODE = NodeShare(8, 1)


def phase(kind, **fields):
    return kind.model_validate_json(json.dumps(fields))


def total(terms) -> int:
    return sum(item.bytes for item in terms)


def test_eight_processes_that_each_load_70b_in_fp32_need_2240_gb():
    # huggingface/blog#1412: "about 2 TB" on a node of 1 TB
    assert total(loading_terms(70 * 10**9, 4, ONE_NODE, per_rank=True)) == 2240 * 10**9
    assert total(loading_terms(70 * 10**9, 4, ONE_NODE, per_rank=False)) == 280 * 10**9


@pytest.mark.parametrize(
    ("weights", "sharded", "nodes", "published_gib"),
    [  # DeepSpeed docs/code-docs/source/memory.rst, t5-3b on eight GPUs of one node
        (True, True, 1, 71.71),
        (True, False, 1, 127.48),
        (False, True, 1, 63.74),
        (False, False, 1, 127.48),
    ],
)
def test_offloaded_states_are_what_deepspeed_publishes_for_t5_3b(weights, sharded, nodes, published_gib):
    share = NodeShare(8, nodes)
    terms = offload_terms(T5_3B, share, optimizer=True, weights=weights, initialised_sharded=sharded)
    assert total(terms) / GIB == pytest.approx(published_gib, rel=0.001)


def test_two_nodes_halve_what_each_keeps():
    one, two = (total(offload_terms(T5_3B, NodeShare(8, n), optimizer=True, weights=True)) for n in (1, 2))
    assert one == pytest.approx(2 * two, abs=2)


def test_nothing_offloaded_takes_nothing():
    assert offload_terms(T5_3B, ONE_NODE, optimizer=False, weights=False) == ()


def test_a_job_larger_than_a_node_spreads_over_several():
    assert NodeShare.of(16, 8) == NodeShare(8, 2)
    assert NodeShare.of(2, 8) == NodeShare(2, 1)


def test_the_fuller_moment_counts_and_never_both():
    loading, running = loading_terms(10**9, 2, ONE_NODE, per_rank=True), loader_terms(4, 1000, ONE_NODE)
    assert fuller(loading, running) in (loading, running)
    assert total(fuller(loading, running)) == max(total(loading), total(running))


def test_a_mixed_precision_adamw_checkpoint_takes_14_bytes_per_parameter():
    # NVIDIA-NeMo/Speech#9967, verl-tool#106: 12 to 14 bytes instead of 2
    tensors = (ParameterTensor((1000, 1000), 1, 2),)
    assert total(checkpoint_terms(tensors, "adamw", "foreach", master_weights=True, kept=1)) == 14 * 10**6


def test_four_fifths_of_a_file_system_can_be_relied_on():
    # stas00/ml-engineering, storage: 100 TB need 125 TB
    assert required_capacity(100 * 10**12) == 125 * 10**12


def test_tokenized_data_is_five_bytes_per_token_and_packed_data_four():
    stored = by_name(data_terms(10**6, 6000, 1500))
    assert stored["tokenized data"] == 7_500_000_000
    assert stored["packed sequences"] == 6_000_000_000
    assert stored["raw data"] == stored["Arrow copy of the raw data"] == 6_000_000_000


def test_preprocessing_needs_no_vram_and_grows_with_workers():
    few, many = (plan_preprocessing(phase(Preprocessing, workers=count)) for count in (2, 32))
    assert few.ledger.peak_bytes() == 0
    assert list(few.ledger.moments) == ["process"]
    per_worker = 400 * 2**20 + (2 * 32 + 1000) * (6000 + 1500 * 5)
    assert total(many.host_terms) - total(few.host_terms) == 30 * per_worker
    assert total(few.storage_terms) == total(many.storage_terms) == 25_500_000_000


def test_zero_3_loads_one_copy_per_node_and_replicas_one_per_gpu():
    replicas = phase(Training, parallelism={"data": 8})
    sharded = phase(Training, parallelism={"data": 8, "zero_stage": 3})
    copies = by_name(training_surroundings(replicas, LLAMA_8B, Hardware()).host_terms)["loading the checkpoint"]
    assert copies == 8 * PARAMETERS * 2
    one = by_name(training_surroundings(sharded, LLAMA_8B, Hardware()).host_terms)["loading the checkpoint"]
    assert one == PARAMETERS * 2


def test_offloaded_optimizer_states_fill_the_host():
    step = phase(Training, parallelism={"data": 8, "zero_stage": 3}, offload={"optimizer": "cpu"})
    ram = by_name(training_surroundings(step, LLAMA_8B, Hardware()).host_terms)
    assert ram["offloaded optimizer states"] == PARAMETERS * 24


def test_offloaded_activations_fill_the_host():
    step = phase(Training, parallelism={"data": 8}, offload={"activations": "cpu"})
    around = training_surroundings(step, LLAMA_8B, Hardware(), saved_activation_bytes=30 * GIB)
    assert by_name(around.host_terms)["offloaded activations"] == 8 * 30 * GIB


def test_states_on_nvme_are_storage():
    step = phase(Training, offload={"optimizer": "nvme"})
    disk = by_name(training_surroundings(step, LLAMA_8B, Hardware()).storage_terms)
    assert disk["optimizer states on NVMe"] == 12 * PARAMETERS


def test_lora_checkpoints_hold_adapters_alone():
    tuned = phase(FineTuning, method="lora")
    trained = trained_tensors(tuned, LLAMA_8B)
    assert sum(tensor.elements * tensor.multiplicity for tensor in trained) == lora_parameters(LLAMA_8B, 16)
    disk = by_name(training_surroundings(tuned, LLAMA_8B, Hardware()).storage_terms)
    assert disk["weights in checkpoints"] == 2 * 4 * lora_parameters(LLAMA_8B, 16)
    assert disk["base model"] == 2 * PARAMETERS


def test_evaluation_moves_logits_of_a_batch_to_the_host():
    # huggingface/transformers#25313
    wide = phase(Evaluation, batch_size=64, sequence_length=8192)
    ram = by_name(evaluation_surroundings(wide, LLAMA_8B, Hardware()).host_terms)
    assert ram["logits of one batch"] == 64 * 8192 * 128256 * 4


def test_serving_maps_the_weight_files():
    around = serving_surroundings(phase(Serving, weights="q4_k_m", engine="llama.cpp"), LLAMA_8B, Hardware())
    assert total(around.storage_terms) == pytest.approx(4917737554, rel=0.0015)
    assert by_name(around.host_terms)["page cache of the weight files"] == total(around.storage_terms)


def test_vllm_v0_pins_four_gib_of_swap_per_gpu():
    serving = phase(Serving, engine_version="0.6.4 V0", parallelism={"tensor": 2})
    assert by_name(serving_surroundings(serving, LLAMA_8B, Hardware()).host_terms)["swap space"] == 8 * GIB


def test_construction_alone_stores_and_loads_nothing():
    around = design_surroundings(phase(Design, smoke_test="construct"), LLAMA_8B, Hardware())
    assert by_name(around.host_terms).keys() == {"processes"}
    assert around.storage_terms == ()


def test_every_term_names_its_source_and_its_factors():
    steps = (
        *training_surroundings(phase(Training), LLAMA_8B, Hardware()).host_terms,
        *training_surroundings(phase(Training), LLAMA_8B, Hardware()).storage_terms,
        *plan_preprocessing(Preprocessing()).host_terms,
    )
    for item in steps:
        assert item.source
        assert item.factors
        assert item.alive in (("host_ram",), ("storage",))
