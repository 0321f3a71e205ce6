"""GPUs, nodes and overheads: the catalogue in `resources/hardware/`, each fact with its source."""

from planner.hardware.capacity import Capacities, System, UsableBasis
from planner.hardware.catalogue import ChosenGpu, GpuEntry, HardwareCatalog, load_hardware
from planner.hardware.gpus import Gpu, MigProfile
from planner.hardware.links import Link, load_links
from planner.hardware.nodes import Node
from planner.hardware.overheads import Overhead, Overheads
from planner.hardware.search import distinct_labels

__all__ = [
    "Capacities",
    "ChosenGpu",
    "Gpu",
    "GpuEntry",
    "HardwareCatalog",
    "Link",
    "MigProfile",
    "Node",
    "Overhead",
    "Overheads",
    "System",
    "UsableBasis",
    "distinct_labels",
    "load_hardware",
    "load_links",
]
