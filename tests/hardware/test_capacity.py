"""Three readings of a GPU's memory, and what stands in where one of them is not known."""

from dataclasses import replace

import pytest

from planner.hardware import Capacities, HardwareCatalog, load_hardware
from planner.hardware.capacity import gpu_capacities
from planner.hardware.sources import gib_to_bytes
from planner.units import GIB, MIB

CATALOG: HardwareCatalog = load_hardware()
EVERY_ID = [
    *CATALOG.gpus,
    *(f"{gpu.id}/{variant}" for gpu in CATALOG.gpus.values() for variant in gpu.variants),
]


def capacities(entry: str) -> Capacities:
    return CATALOG.resolve(entry).capacities


def test_h100_has_three_different_capacities() -> None:
    h100 = capacities("h100-sxm5-80gb")
    assert h100.marketing_bytes == 80 * GIB
    assert h100.driver_bytes == 81_559 * MIB
    assert h100.usable_bytes == 80_998 * MIB  # 79.1 GiB, the smallest of six reports, is 80 998.4 MiB
    assert h100.usable_basis == "measured"
    assert "79.10 GiB to 79.19 GiB" in h100.note


@pytest.mark.parametrize(
    ("gpu_id", "usable_gib"),
    [
        ("a100-sxm4-80gb", 79.14),
        ("a100-sxm4-40gb", 39.49),
        ("h200-sxm-141gb", 139.7),
        ("b200", 178.35),
        ("l40s", 44.43),
        ("l4", 22.03),
        ("a10g", 22.06),
        ("t4", 14.57),
        ("rtx-4090", 23.51),
        ("rtx-3090", 23.56),
        ("rtx-5090", 31.34),
        ("rtx-a6000", 47.43),
        ("mi300x", 191.98),
        ("dgx-spark-gb10", 119.7),
        ("tpu-v5e", 15.75),
    ],
)
def test_usable_is_the_smallest_total_its_runtime_was_seen_to_hand_out(gpu_id: str, usable_gib: float) -> None:
    usable_bytes = capacities(gpu_id).usable_bytes
    assert usable_bytes is not None
    assert usable_gib * GIB - MIB < usable_bytes <= usable_gib * GIB


def test_printed_gib_are_rounded_down_to_whole_mib() -> None:
    assert gib_to_bytes(47.37) == 48_506 * MIB  # 48 506.88; the card really has 50 865 307 648 bytes, 48 509 MiB
    assert gib_to_bytes(15.75) == 16_128 * MIB


def test_usable_never_exceeds_the_driver_total_through_rounding() -> None:
    p100 = capacities("p100-pcie-16gb")  # 15.90 GiB would be 16 281 MiB, the driver has 16 280
    assert p100.usable_bytes == p100.driver_bytes == 16_280 * MIB


def test_a_figure_without_any_nameable_document_is_unverified() -> None:
    h20 = capacities("h20-96gb")
    assert h20.usable_basis == "unverified"
    assert "not recorded" in h20.note
    assert not any(source.verified for source in h20.sources)


def test_a_nameable_document_that_agrees_makes_a_figure_measured() -> None:
    rtx_4090 = capacities("rtx-4090")  # 23.51 GiB from an unnamed document, 23.61 from an issue
    assert rtx_4090.usable_basis == "measured"
    assert any(source.text.endswith("flux-webui/issues/11") for source in rtx_4090.sources)


def test_windows_hands_out_the_whole_card() -> None:
    rtx_4090 = CATALOG.resolve("rtx-4090", system="windows").capacities
    assert rtx_4090.usable_bytes == 24_564 * MIB  # printed as 23.99 GiB
    assert "Windows itself keeps part of the card" in rtx_4090.note


def test_windows_without_a_report_takes_the_driver_total_and_says_so() -> None:
    rtx_3090 = CATALOG.resolve("rtx-3090", system="windows").capacities
    assert rtx_3090.usable_bytes == 24_576 * MIB
    assert rtx_3090.usable_basis == "fallback"


def test_a_gpu_nobody_reported_takes_its_sibling_with_the_same_driver_total() -> None:
    a30 = capacities("a30")  # 24 576 MiB: as the RTX 3090 has, not the A10 with its 23 028
    assert a30.usable_bytes == gib_to_bytes(23.56)
    assert a30.usable_basis == "fallback"
    assert "NVIDIA GeForce RTX 3090 24 GB" in a30.note


def test_a_sibling_with_another_driver_total_lends_only_its_reserve() -> None:
    b300 = capacities("b300")  # GB300: 284 208 MiB, 276.5 GiB = 283 136 MiB usable, so 1 072 MiB kept back
    assert b300.usable_bytes == (275_040 - 1_072) * MIB
    assert "1072 MiB" in b300.note


def test_a_gpu_without_sibling_takes_four_percent_off_its_label() -> None:
    mi325x = capacities("mi325x")
    assert mi325x.usable_bytes == 251_658 * MIB  # 256 x 1024 x 0.96 = 251 658.24
    assert mi325x.usable_basis == "fallback"
    assert "4 %" in mi325x.note


def test_four_percent_come_off_the_driver_total_where_that_lies_below() -> None:
    quadro = capacities("quadro-rtx-6000")  # label 24 GB, 23 040 MiB with error correction
    assert quadro.usable_bytes == 22_118 * MIB  # 23 040 x 0.96 = 22 118.4
    assert "its driver's total less 4 %" in quadro.note


def test_four_percent_come_off_the_label_where_the_driver_reports_more_than_what_is_left() -> None:
    gb200 = capacities("gb200")  # 186 x 1024 x 0.96 = 182 845.44, the driver has 189 471
    assert gb200.usable_bytes == 182_845 * MIB
    assert "its label less 4 %" in gb200.note


def test_a_fallback_tells_what_else_was_reported() -> None:
    assert "184.00 GiB (Linux aarch64, integer only)" in capacities("gb200").note


def test_a_gpu_whose_share_is_a_setting_stays_unknown() -> None:
    strix = capacities("strix-halo-128gb")
    assert strix.usable_bytes is None
    assert strix.usable_basis == "unknown"
    assert "custom GPU" in strix.note


def test_mi300a_has_what_its_allocator_reaches_by_default() -> None:
    assert capacities("mi300a").usable_bytes == 96 * GIB


def test_apple_has_the_working_set_of_its_memory_size() -> None:
    assert capacities("apple-m4-max").usable_bytes == 96 * GIB
    assert capacities("apple-m4-max/64gb").usable_bytes == 48 * GIB
    assert capacities("apple-m4-max/64gb").marketing_bytes == 64 * GIB
    assert capacities("apple-m1/16gb").usable_bytes == gib_to_bytes(10.67)


def test_an_apple_size_nobody_reported_takes_the_smallest_share_of_its_chip() -> None:
    m4_max = capacities("apple-m4-max/36gb")
    assert m4_max.usable_bytes == 27 * GIB  # 75 %, as with 48, 64 and 128 GB
    assert m4_max.usable_basis == "fallback"


def test_an_apple_chip_nobody_reported_takes_the_smallest_share_of_all() -> None:
    m3_pro = capacities("apple-m3-pro/18gb")
    assert m3_pro.usable_basis == "fallback"
    assert m3_pro.usable_bytes == pytest.approx(18 * GIB * 5.33 / 8, rel=1e-3)


def test_a_reported_mig_slice_has_the_size_its_driver_gives_it() -> None:
    sliced = capacities("a100-sxm4-40gb/3g.20gb")
    assert sliced.usable_bytes == sliced.driver_bytes == gib_to_bytes(19.5)
    assert sliced.marketing_bytes == 20 * GIB
    assert sliced.usable_basis == "measured"


def test_a_mig_slice_reported_by_an_unnamed_document_is_unverified() -> None:
    assert capacities("h200-sxm-141gb/1g.18gb").usable_basis == "unverified"


@pytest.mark.parametrize(
    ("entry", "share"),
    [
        ("h100-sxm5-80gb/1g.10gb", 1 / 8),
        ("h100-sxm5-80gb/1g.20gb", 2 / 8),
        ("h100-sxm5-80gb/3g.40gb", 4 / 8),
        ("h100-sxm5-80gb/7g.80gb", 1),
        ("b300/2g.67gb", 2 / 8),
        ("rtx-pro-6000-bse/1g.24gb", 1 / 4),
    ],
)
def test_a_mig_slice_nobody_reported_is_its_share_of_memory_slices(entry: str, share: float) -> None:
    sliced, whole = capacities(entry), capacities(entry.partition("/")[0])
    assert sliced.usable_basis == "fallback"
    assert sliced.usable_bytes is not None
    assert whole.usable_bytes is not None
    assert whole.usable_bytes * share - MIB < sliced.usable_bytes <= whole.usable_bytes * share


def test_a_full_slice_is_not_larger_than_the_gpu() -> None:
    full = capacities("h200-sxm-141gb/7g.141gb")  # reported as a round 140.0 GiB, the GPU hands out 139.7
    assert full.usable_bytes == gib_to_bytes(139.7)


def test_without_a_catalogue_there_is_no_sibling() -> None:
    a30 = gpu_capacities(CATALOG.gpus["a30"], ())
    assert a30.usable_bytes == 23_592 * MIB  # 24 576 x 0.96 = 23 592.96


def test_siblings_share_vendor_size_generation_and_kind_of_memory() -> None:
    jetson = CATALOG.gpus["jetson-orin-nano-8gb"]
    rtx_3070 = CATALOG.gpus["rtx-3070"]
    assert jetson.architecture == rtx_3070.architecture
    alone = replace(rtx_3070, memory=replace(rtx_3070.memory, driver=()))
    assert gpu_capacities(alone, (jetson,)).usable_bytes == 7_864 * MIB  # 8192 x 0.96 = 7 864.32


@pytest.mark.parametrize("system", ["linux", "windows"])
@pytest.mark.parametrize("entry", EVERY_ID)
def test_usable_is_at_most_what_the_driver_reports_and_never_unexplained(entry: str, system: str) -> None:
    found = CATALOG.resolve(entry, system="windows" if system == "windows" else "linux").capacities
    if found.usable_bytes is None:
        assert found.usable_basis == "unknown"
        assert found.note
        return
    limit = found.driver_bytes if found.driver_bytes is not None else found.marketing_bytes
    # Google's label of 95 GB is the one that stands below what its runtime hands out.
    assert found.usable_bytes <= (96 * GIB if entry == "tpu-v5p" else limit)
    assert found.usable_bytes > 0.6 * found.marketing_bytes
    assert found.usable_basis in ("measured", "unverified", "fallback")
    assert found.usable_basis == "measured" or found.note
    assert found.sources or found.usable_basis == "fallback"


def test_most_gpus_have_a_reported_usable_size() -> None:
    bases = [capacities(gpu_id).usable_basis for gpu_id in CATALOG.gpus]
    assert bases.count("measured") + bases.count("unverified") >= 90
    assert bases.count("unknown") == 1
