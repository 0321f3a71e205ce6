"""Host memory of serving engines, by their settings."""

import pytest

from planner.engine.host import CACHED
from planner.engine.phases.serving_host import WEIGHTS_ON_HOST, serving_surroundings
from planner.engine.plan import by_name
from planner.engine.term import Factor, Term
from planner.scenario.hardware import Hardware
from planner.scenario.serving import Serving
from planner.units import GIB

ON_HOST = Term("weights", WEIGHTS_ON_HOST, (Factor("bytes in the file", 10**9),), ("host_ram",), "a test")


@pytest.fixture
def ram(phase, llama_8b):
    def of(*engine_terms, pool_bytes=None, **fields):
        serving = phase(Serving, **fields)
        around = serving_surroundings(serving, llama_8b, Hardware(), engine_terms, pool_bytes=pool_bytes)
        return by_name(around.host_terms)

    return of


def test_serving_maps_the_weight_files(phase, llama_8b):
    around = serving_surroundings(phase(Serving, weights="q4_k_m", engine="llama.cpp"), llama_8b, Hardware())
    stored = sum(item.bytes for item in around.storage_terms)
    assert stored == pytest.approx(4917737554, rel=0.0015)
    cached = [item for item in around.host_terms if item.alive == CACHED]
    assert by_name(cached) == {"page cache of the weight files": pytest.approx(stored, abs=8)}


def test_vllm_v0_pins_four_gib_of_swap_per_gpu_and_v1_none(ram):
    assert ram(engine_version="0.6.4 V0", parallelism={"tensor": 2})["swap space"] == 8 * GIB
    assert "swap space" not in ram(engine_version="0.19.0 V1")
    assert ram(swap_space_bytes=2 * GIB, parallelism={"tensor": 2})["swap space"] == 4 * GIB


def test_vllm_shares_its_host_cache_among_the_gpus_of_a_replica(ram):
    # vllm/config/cache.py: kv_offloading_size is the total over tensor-parallel ranks
    assert ram(host_cache_bytes=64 * GIB, parallelism={"tensor": 4})["host cache"] == 64 * GIB
    assert ram(host_cache_bytes=64 * GIB, parallelism={"tensor": 4, "data": 2})["host cache"] == 128 * GIB


def test_sglang_has_a_host_pool_for_each_gpu(ram):
    sglang = {"engine": "sglang", "parallelism": {"tensor": 4}}
    assert ram(**sglang, host_cache_bytes=100 * GIB)["host cache"] == 400 * GIB
    assert ram(**sglang, host_cache_ratio=2.0, pool_bytes=30 * GIB)["host cache"] == 240 * GIB
    assert "host cache" not in ram(**sglang)


def test_weights_that_stay_in_host_ram_count_for_every_gpu(ram):
    assert ram(cpu_offload_bytes=5 * GIB, parallelism={"tensor": 2})["weights in host RAM"] == 10 * GIB


def test_no_more_weights_lie_in_host_ram_than_the_layers_hold(ram):
    held = ram(cpu_offload_bytes=100 * GIB)["weights in host RAM"]
    # all of Llama 3.1 8B but token table and head, and but the norm behind the last layer, which counts with the layers
    assert held == 2 * (8_030_261_248 - 2 * 128256 * 4096)


def test_llama_cpp_without_a_map_holds_its_part_alone(ram):
    llama = {"engine": "llama.cpp", "weights": "q4_k_m"}
    assert "page cache of the weight files" not in ram(ON_HOST, **llama, memory_map=False)
    assert ram(ON_HOST, **llama, memory_map=False)[WEIGHTS_ON_HOST] == 10**9


def test_a_locked_file_is_held_whole_and_its_parts_not_again(ram):
    locked = ram(ON_HOST, engine="llama.cpp", weights="q4_k_m", lock_memory=True)
    assert locked["locked weight file"] == pytest.approx(4917737554, rel=0.0015)
    assert WEIGHTS_ON_HOST not in locked


def test_ranks_that_stage_a_checkpoint_need_a_copy_each(ram):
    # sgl-project/sglang#34902: 114.3 GiB on two ranks, 233.5 on four, for files of 61.7 GiB: 57 to 58 per rank
    two, four = (
        ram(engine="sglang", loading={"strategy": "every_process"}, parallelism={"tensor": n})["loading the checkpoint"]
        for n in (2, 4)
    )
    assert four == 2 * two
    assert two == pytest.approx(2 * 8_030_261_248 * 2, abs=8)
