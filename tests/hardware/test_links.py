"""Links between GPUs and their servers."""

import pytest

from planner.hardware import load_hardware, load_links


@pytest.mark.parametrize(("architecture", "transfers"), [("Turing", 8), ("Ampere", 16), ("Hopper", 32)])
def test_sixteen_lanes_carry_what_their_encoding_leaves(architecture: str, transfers: int) -> None:
    """128 of 130 bits are data; eight bits are a byte."""
    assert load_links()[architecture].gb_per_s == pytest.approx(transfers * 16 * 128 / 130 / 8, rel=1e-3)


def test_links_are_of_architectures_that_the_catalogue_knows() -> None:
    assert set(load_links()) <= {gpu.architecture for gpu in load_hardware().gpus.values()}
    assert all(link.sources for link in load_links().values())


def test_rates_of_shaders_beside_matrix_units_are_no_peak() -> None:
    """The Arc A770 has XMX units, the RX 9070 XT matrix ones; the H100's figure is that of its tensor cores."""
    peaks = {gpu: load_hardware().gpus[gpu].speed.peak_fp16_tflops for gpu in ("arc-a770-16gb", "rx-9070-xt")}
    assert set(peaks.values()) == {None}
    assert load_hardware().gpus["h100-sxm5-80gb"].speed.peak_fp16_tflops == 989
