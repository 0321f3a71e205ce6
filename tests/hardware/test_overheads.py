"""Allowances for what no tensor explains, and the observations behind them."""

import pytest

from planner.hardware import Overhead, load_hardware
from planner.hardware.overheads import ALLOWANCE_KINDS, Allowance, Observation
from planner.units import GIB, MIB

CATALOG = load_hardware()
GPUS = CATALOG.gpus
OVERHEADS = CATALOG.overheads
ALLOWANCES = [allowance for items in OVERHEADS.allowances.values() for allowance in items]


def mib(overhead: Overhead) -> tuple[float, float, float]:
    return overhead.low_bytes / MIB, overhead.bytes / MIB, overhead.high_bytes / MIB


def test_catalogue_holds_87_observations_of_which_48_are_measured() -> None:
    assert len(OVERHEADS.observations) == 87
    assert sum(item.kind == "measured" for item in OVERHEADS.observations.values()) == 48


def test_a_context_on_a100_is_what_pytorch_2_takes_there() -> None:
    lazy = OVERHEADS.observations["ctx-a100-t2.1-lazy"]
    assert (lazy.size_bytes, lazy.pytorch, lazy.cuda) == (481 * MIB, "2.1.1", "12.1")
    assert mib(OVERHEADS.context_overhead(GPUS["a100-sxm4-80gb"])) == (481, 530, 942)


@pytest.mark.parametrize(
    ("gpu_id", "typical_mib"),
    [
        ("rtx-3090", 300),
        ("a10g", 300),
        ("rtx-6000-ada", 430),
        ("l40s", 430),
        ("h100-sxm5-80gb", 530),
        ("b200", 700),
        ("gb300", 700),
        ("mi300x", 410),
        ("t4", 600),
        ("rtx-5090", 600),
        ("tpu-v5e", 600),
    ],
)
def test_the_context_follows_the_generation(gpu_id: str, typical_mib: int) -> None:
    assert OVERHEADS.context_overhead(GPUS[gpu_id]).bytes == typical_mib * MIB


def test_an_unknown_gpu_gets_a_wide_band() -> None:
    unknown = OVERHEADS.context_overhead(None)
    assert mib(unknown) == (256, 600, 1371)
    assert "nobody measured" in unknown.source


def test_every_lookup_names_the_documents_behind_it() -> None:
    source = OVERHEADS.context_overhead(GPUS["rtx-6000-ada"]).source
    assert "https://github.com/unslothai/unsloth-zoo/pull/1053" in source
    assert "a default" in source


def test_one_gpu_needs_no_communication_buffers() -> None:
    for training in (True, False):
        assert mib(OVERHEADS.nccl_overhead(GPUS["mi300x"], 1, training=training)) == (0, 0, 0)


def test_communication_buffers_grow_with_gpus_and_with_training() -> None:
    h100 = GPUS["h100-sxm5-80gb"]
    assert OVERHEADS.nccl_overhead(h100, 2, training=False).bytes == 350 * MIB
    assert OVERHEADS.nccl_overhead(h100, 8, training=False).bytes == 400 * MIB
    assert mib(OVERHEADS.nccl_overhead(h100, 8, training=True)) == (544, 1500, 6000)


def test_rccl_counts_its_first_communicator_in_full() -> None:
    assert OVERHEADS.nccl_overhead(GPUS["mi250x-gcd"], 8, training=False).bytes == 1024 * MIB


def test_cublas_workspaces_are_pytorchs_defaults() -> None:
    # ":4096:2:16:8": 2 x 4096 KiB and 8 x 16 KiB
    assert OVERHEADS.cublas_workspace(GPUS["a100-sxm4-80gb"]).bytes == (2 * 4096 + 8 * 16) * 1024
    assert OVERHEADS.cublas_workspace(GPUS["h100-sxm5-80gb"]).bytes == 32 * MIB
    assert OVERHEADS.cublas_workspace(GPUS["mi300x"]).bytes == 76 * MIB
    assert OVERHEADS.te_workspace(GPUS["a100-sxm4-80gb"]).bytes == 4 * MIB
    assert OVERHEADS.te_workspace(GPUS["h100-sxm5-80gb"]).bytes == 32 * MIB
    assert OVERHEADS.cublaslt_workspace(GPUS["a100-sxm4-80gb"]).bytes == MIB
    assert OVERHEADS.cublaslt_workspace(GPUS["mi300x"]).bytes == 0


def test_llama_cpp_and_cuda_graphs_have_their_own_allowances() -> None:
    assert OVERHEADS.llama_cpp_overhead(GPUS["rtx-3090"]).bytes == 457 * MIB
    assert OVERHEADS.llama_cpp_overhead(GPUS["apple-m4"]).bytes == 512 * MIB
    assert mib(OVERHEADS.cuda_graphs_overhead()) == (100, 500, 1050)


def test_windows_keeps_a_share_of_the_card() -> None:
    kept = OVERHEADS.desktop_overhead("windows", GPUS["rtx-4090"], 24 * GIB)
    assert kept.bytes == pytest.approx(2.4 * GIB, abs=1)
    assert (kept.low_bytes, kept.high_bytes) == (pytest.approx(1.2 * GIB, abs=1), pytest.approx(4.8 * GIB, abs=1))


def test_a_headless_server_keeps_next_to_nothing() -> None:
    assert OVERHEADS.desktop_overhead("headless", GPUS["h100-sxm5-80gb"], 80 * GIB).bytes == 4 * MIB
    assert OVERHEADS.desktop_overhead("headless", GPUS["mi300x"], 192 * GIB).bytes == 284 * MIB
    assert OVERHEADS.desktop_overhead("linux", None, 24 * GIB).bytes == 800 * MIB
    assert OVERHEADS.desktop_overhead("wsl2", None, 24 * GIB).bytes == 1341 * MIB


@pytest.mark.parametrize("gpu", [None, *GPUS.values()], ids=lambda gpu: gpu.id if gpu else "unknown")
def test_every_gpu_gets_an_answer_of_every_kind(gpu: object) -> None:
    card = GPUS.get(getattr(gpu, "id", ""))
    for kind in ALLOWANCE_KINDS:
        for gpus in (1, 2, 8, 4096):
            found = OVERHEADS.allowance(kind, card, gpus).overhead(24 * GIB)
            assert 0 <= found.low_bytes <= found.bytes <= found.high_bytes


@pytest.mark.parametrize("allowance", ALLOWANCES, ids=lambda allowance: allowance.id)
def test_every_allowance_rests_on_observations_with_sources(allowance: Allowance) -> None:
    assert allowance.observations
    assert any(item.sources for item in allowance.observations)
    assert all(source.text in allowance.source for item in allowance.observations for source in item.sources)


@pytest.mark.parametrize("observation", OVERHEADS.observations.values(), ids=OVERHEADS.observations.keys())
def test_every_observation_has_a_source_unless_it_was_not_found(observation: Observation) -> None:
    assert (observation.sources == ()) == (observation.kind == "missing")
    if observation.size_bytes is not None and observation.range_bytes is not None:
        low, high = observation.range_bytes
        assert low <= observation.size_bytes <= high
