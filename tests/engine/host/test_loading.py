"""Loading a checkpoint: published sizes, and files and processes counted by hand."""

import pytest

from planner.engine.host import CACHED, Checkpoint, NodeShare, fuller, loading_terms, sharding_copies_term
from planner.engine.phases.surroundings import training_surroundings
from planner.engine.plan import by_name
from planner.scenario.hardware import Hardware
from planner.scenario.phases import Training
from planner.units import GB

PARAMETERS = 8_030_261_248
EMBEDDING = 128256 * 4096


def held(terms):
    return by_name(item for item in terms if item.alive != CACHED)


@pytest.mark.parametrize(
    ("parameters", "processes", "published_gb"),
    [
        (70 * 10**9, 8, 2240),  # huggingface/blog#1412: "70*4*8 GB ~ 2TB of CPU RAM" on a node of 1 TB
        (40 * 10**9, 8, 1280),  # huggingface/transformers#25107: Falcon 40B, "160*8=1280GB"
    ],
)
def test_processes_that_each_load_a_model_in_fp32_need_what_was_published(parameters, processes, published_gb):
    checkpoint = Checkpoint(parameters, 4, 4)
    copies = loading_terms(checkpoint, copies=processes)
    assert sum(held(copies).values()) == published_gb * GB
    assert sum(held(loading_terms(checkpoint, copies=1)).values()) == published_gb * GB / processes


def test_fsdp2_ranks_that_all_load_peak_at_two_copies_each():
    # modelscope/ms-swift#9982: 35 B in bf16 are 67 GB a rank, 136 GB at the peak, 2.2 TB for 16 ranks
    checkpoint, share = Checkpoint(34_660_000_000, 2, 2), NodeShare(16, 1)
    terms = (*loading_terms(checkpoint, copies=16), sharding_copies_term(34_660_000_000, 2, share))
    assert sum(held(terms).values()) == pytest.approx(16 * 136e9, rel=0.03)


def test_tensors_that_go_straight_to_the_gpu_leave_nothing_on_the_host():
    terms = loading_terms(Checkpoint(10**9, 2, 2), copies=0, readers=4)
    assert held(terms) == {}
    assert by_name(terms) == {"page cache of the weight files": 2 * 10**9}


def test_a_cast_holds_the_largest_tensor_twice_and_nothing_else():
    # fp32 files into bf16: transformers casts tensor by tensor
    terms = held(loading_terms(Checkpoint(PARAMETERS, 2, 4, largest_tensor=EMBEDDING), copies=1))
    assert terms == {"loading the checkpoint": 2 * PARAMETERS, "tensor being cast": 4 * EMBEDDING}


def test_a_pickled_file_is_there_beside_the_model():
    terms = held(loading_terms(Checkpoint(PARAMETERS, 2, 2, pickled=True), copies=8))
    assert terms["pickled file being read"] == 8 * 5 * GB
    whole = held(loading_terms(Checkpoint(PARAMETERS, 2, 2, pickled=True, shard_bytes=10**12), copies=1))
    assert whole["pickled file being read"] == 2 * PARAMETERS


def test_zero_3_loads_one_copy_per_node_and_replicas_one_per_gpu(phase, llama_8b):
    def copies(**fields):
        ram = training_surroundings(phase(Training, **fields), llama_8b, Hardware()).host_terms
        return by_name(ram)["loading the checkpoint"]

    assert copies(parallelism={"data": 8}) == 8 * PARAMETERS * 2
    assert copies(parallelism={"data": 8, "zero_stage": 3}) == PARAMETERS * 2
    assert copies(parallelism={"data": 8}, loading={"strategy": "one_process"}) == PARAMETERS * 2


def test_what_the_kernel_may_drop_does_not_decide_which_moment_is_fuller():
    mapped = loading_terms(Checkpoint(10**9, 2, 2), copies=0)
    built = loading_terms(Checkpoint(10**6, 2, 2), copies=1)
    assert fuller(mapped, built) == built


def test_training_from_scratch_reads_and_stores_no_base_model(phase, llama_8b):
    def around(**fields):
        return training_surroundings(phase(Training, parallelism={"data": 8}, **fields), llama_8b, Hardware())

    scratch = around(loading={"strategy": "from_scratch"})
    assert by_name(scratch.host_terms)["model being built"] == 8 * PARAMETERS * 2
    assert by_name(around().storage_terms)["base model"] == 2 * PARAMETERS
    assert "base model" not in by_name(scratch.storage_terms)
    assert not any("cache" in name for name in by_name(scratch.host_terms))
