"""The catalogue of machines: figures known from elsewhere, and what must hold for every row."""

import pytest

from planner.hardware import Node, load_hardware
from planner.units import GB, GIB

CATALOG = load_hardware()
NODES = CATALOG.nodes
ALL = pytest.mark.parametrize("node", NODES.values(), ids=NODES.keys())


def test_catalogue_holds_94_machines() -> None:
    assert len(NODES) == 94
    assert sum(node.template for node in NODES.values()) == 13


def test_aws_p5_is_eight_h100_with_two_tebibytes_of_ram() -> None:
    p5 = NODES["aws-p5-48xlarge"]
    assert (p5.gpu, p5.gpu_count, p5.vcpu) == ("h100-sxm5-80gb", 8, 192)
    assert p5.host_ram_bytes == 2048 * GIB
    assert p5.nvme_bytes == 30_400 * GB
    assert (p5.nvlink_gb_per_s_per_gpu, p5.network_gbit_per_s) == (900, 3200)
    assert p5.common


def test_ram_printed_in_gb_is_read_as_gb() -> None:
    assert NODES["gcp-a3-highgpu-8g"].host_ram_bytes == 1872 * GB


def test_a_figure_nobody_states_is_absent() -> None:
    b200 = NODES["dgx-b200"]
    assert b200.host_ram_bytes is None
    assert b200.nvme_bytes is None
    assert "not found" in b200.note


def test_a_workstation_leaves_its_host_to_the_user() -> None:
    workstation = NODES["ws-2x-rtx-3090"]
    assert workstation.template
    assert workstation.host_ram_bytes is None
    assert workstation.gpu_count == 2


@ALL
def test_every_node_has_gpus_of_the_catalogue_and_a_source(node: Node) -> None:
    assert node.gpu in CATALOG.gpus
    assert node.gpu_count >= 1
    assert node.sources
    assert node.interconnect


@ALL
def test_ram_of_a_node_is_plausible(node: Node) -> None:
    assert node.host_ram_bytes is None or 8 * GIB <= node.host_ram_bytes <= 8192 * GIB
