"""The catalogue of servers, cloud instances and workstations: GPUs, host memory and disks of one machine."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, cast, get_args

from planner.errors import CatalogueError
from planner.hardware.records import Record, read_catalogue_file
from planner.hardware.sources import Source, cited, read_sources
from planner.units import BYTES_PER_UNIT, GB, SizeUnit

Category = Literal["cloud", "system", "workstation template"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. A figure that no citable document states is None."""

    id: str
    name: str
    provider: str
    category: Category
    gpu: str
    """Catalogue id of its GPUs."""
    gpu_count: int
    interconnect: str
    nvlink_gb_per_s_per_gpu: float | None
    """Both directions together, in decimal GB/s."""
    host_ram_bytes: int | None
    nvme_bytes: int | None
    vcpu: int | None
    cpu_cores: int | None
    cpu: str
    network_gbit_per_s: float | None
    """In total, one way."""
    common: bool
    """On the short list of a first menu."""
    template: bool
    """A starting point whose host figures the user fills in."""
    note: str
    sources: tuple[Source, ...]


def load_nodes(gpu_ids: Collection[str]) -> Mapping[str, Node]:
    """Read `resources/hardware/nodes.json`; every node must hold a GPU of the catalogue."""
    content = read_catalogue_file("nodes.json", "vram-planner/nodes")
    sources = read_sources(content)
    nodes: dict[str, Node] = {}
    for record in content.records("nodes"):
        node = read_node(record, sources)
        if node.gpu not in gpu_ids:
            raise CatalogueError(f"{record.where}: the GPU '{node.gpu}' is not in the catalogue.")
        if node.id in nodes:
            raise CatalogueError(f"{record.where}: the id '{node.id}' is used twice.")
        nodes[node.id] = node
    content.close()
    return MappingProxyType(nodes)


def read_node(record: Record, sources: Mapping[str, Source]) -> Node:
    """One machine from its record; raises `CatalogueError` for anything missing, wrong or unknown."""
    nvme_gb = record.optional_number("local_nvme_gb")
    node = Node(
        id=record.text("id"),
        name=record.text("name"),
        provider=record.text("provider"),
        category=cast(Category, record.choice("category", CATEGORIES)),
        gpu=record.text("gpu"),
        gpu_count=record.whole("gpu_count"),
        interconnect=record.text("interconnect"),
        nvlink_gb_per_s_per_gpu=record.optional_number("nvlink_gb_per_s_per_gpu"),
        host_ram_bytes=_read_size(record.optional_record("host_ram")),
        nvme_bytes=None if nvme_gb is None else int(nvme_gb * GB),
        vcpu=record.optional_whole("vcpu"),
        cpu_cores=record.optional_whole("cpu_cores"),
        cpu=record.text("cpu", ""),
        network_gbit_per_s=record.optional_number("network_gbit_per_s"),
        common=record.flag("common", False),
        template=record.flag("template", False),
        note=record.text("note", ""),
        sources=cited(record, sources),
    )
    record.close()
    return node


def _read_size(record: Record | None) -> int | None:
    """A size in the unit its provider prints. Some mix GB and GiB; then GB is the smaller, so the cautious reading."""
    if record is None:
        return None
    size_bytes = record.whole("size") * BYTES_PER_UNIT[cast(SizeUnit, record.choice("unit", tuple(BYTES_PER_UNIT)))]
    record.close()
    return size_bytes
