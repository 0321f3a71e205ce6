"""The catalogue of accelerators: figures known from elsewhere, and what must hold for every row."""

import pytest

from planner.hardware import Gpu, load_hardware
from planner.units import GIB, MIB

GPUS = load_hardware().gpus
ALL = pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS.keys())


def test_catalogue_holds_161_accelerators_of_six_vendors() -> None:
    assert len(GPUS) == 161
    assert load_hardware().vendors == ("NVIDIA", "AMD", "Intel", "Apple", "Google", "AWS")


@pytest.mark.parametrize(
    ("gpu_id", "marketing_gb", "driver_mib"),
    [
        ("h100-sxm5-80gb", 80, 81559),
        ("a100-sxm4-80gb", 80, 81920),
        ("a100-sxm4-40gb", 40, 40960),
        ("h200-sxm-141gb", 141, 143771),
        ("b200", 180, 183359),
        ("b300", 288, 275040),
        ("gb300", 288, 284208),
        ("l40s", 48, 46068),
        ("l4", 24, 23034),
        ("t4", 16, 15360),
        ("rtx-4090", 24, 24564),
        ("rtx-5090", 32, 32607),
        ("rtx-3090", 24, 24576),
        ("mi300x", 192, 196592),
        ("gaudi2", 96, 98304),
        ("titan-rtx", 24, 24219),
        ("quadro-rtx-8000", 48, 48601),
    ],
)
def test_driver_total_is_what_its_tool_prints(gpu_id: str, marketing_gb: int, driver_mib: int) -> None:
    memory = GPUS[gpu_id].memory
    assert memory.marketing_bytes == marketing_gb * GIB
    assert memory.driver_bytes == driver_mib * MIB


def test_runtime_reports_are_kept_from_smallest_to_largest() -> None:
    printed = [round(report.size_bytes / GIB, 2) for report in GPUS["h100-sxm5-80gb"].memory.usable]
    assert printed == [79.1, 79.18, 79.19]


def test_older_drivers_and_error_correction_stand_beside_the_driver_total() -> None:
    t4, ada = GPUS["t4"].memory, GPUS["rtx-6000-ada"].memory
    assert [(report.size_bytes, report.condition) for report in t4.driver_otherwise] == [
        (15109 * MIB, "older drivers (R45x)")
    ]
    assert {report.condition for report in ada.driver_otherwise} == {"ECC on"}


def test_speeds_and_formats_of_an_h100_are_those_of_its_data_sheet() -> None:
    h100 = GPUS["h100-sxm5-80gb"]
    assert (h100.speed.bandwidth_gb_per_s, h100.speed.nvlink_gb_per_s, h100.power_w) == (3350, 900, 700)
    assert (h100.speed.fp16_tflops, h100.speed.fp8_tflops, h100.speed.fp4_tflops) == (989, 1979, None)
    assert h100.supports == {"bf16", "fp8"}
    assert h100.compute_capability == "9.0"


def test_a_turing_card_computes_in_none_of_the_newer_formats() -> None:
    assert GPUS["t4"].supports == frozenset()


def test_mig_profiles_of_an_a100_are_those_of_the_user_guide() -> None:
    profiles = {profile.name: profile for profile in GPUS["a100-sxm4-40gb"].memory.mig}
    assert {name: profile.instances for name, profile in profiles.items()} == {
        "1g.5gb": 7,
        "1g.10gb": 4,
        "2g.10gb": 3,
        "3g.20gb": 2,
        "4g.20gb": 1,
        "7g.40gb": 1,
    }
    assert profiles["1g.5gb"].memory_gb == 5


def test_names_serve_lists_and_charts() -> None:
    h100 = GPUS["h100-sxm5-80gb"]
    assert (h100.full_title, h100.title, h100.label) == ("NVIDIA H100 SXM5 80 GB", "H100 SXM5 80 GB", "H100")
    assert GPUS["rtx-4090"].full_title == "NVIDIA GeForce RTX 4090 24 GB"
    assert GPUS["apple-m4-max"].full_title == "Apple M4 Max 128 GB"
    assert GPUS["tpu-v5e"].full_title == "Google TPU v5e 16 GB"


def test_variants_are_mig_profiles_or_memory_sizes() -> None:
    assert GPUS["a30"].variants == ("1g.6gb", "2g.12gb", "4g.24gb")
    assert GPUS["apple-m4-pro"].variants == ("24gb", "48gb", "64gb")
    assert GPUS["rtx-4090"].variants == ()


def test_titles_and_full_names_tell_all_gpus_apart() -> None:
    assert len({gpu.full_title for gpu in GPUS.values()}) == len(GPUS)


@ALL
def test_every_gpu_and_every_report_has_a_source(gpu: Gpu) -> None:
    memory = gpu.memory
    reports = [
        *memory.driver,
        *memory.driver_otherwise,
        *memory.usable,
        *memory.usable_windows,
        *memory.usable_otherwise,
        *(profile.memory for profile in memory.mig if profile.memory),
        *(option.working_set for option in memory.options if option.working_set),
    ]
    assert gpu.sources
    assert all(report.sources and report.count >= len(report.sources) for report in reports)


@ALL
def test_one_driver_total_is_told_for_every_gpu(gpu: Gpu) -> None:
    assert len(gpu.memory.driver) <= 1


@ALL
def test_a_driver_never_reports_more_than_the_label(gpu: Gpu) -> None:
    assert (gpu.memory.driver_bytes or 0) <= gpu.memory.marketing_bytes


@ALL
def test_every_name_is_filled_and_carries_the_size(gpu: Gpu) -> None:
    assert gpu.title.endswith(f" {gpu.memory.marketing_gb} GB")
    assert gpu.label in gpu.title.replace("Ryzen ", "") or gpu.vendor == "NVIDIA"
    assert 2012 <= gpu.release_year <= 2026
