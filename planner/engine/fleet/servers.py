"""How many GPUs of a type a server holds, within which tensor parallelism stays."""

from planner.hardware import HardwareCatalog
from planner.scenario.hardware import Hardware

USUAL = 8
"""Where no server of the catalogue says otherwise."""
ALONE = ("unified", "laptop", "embedded")
"""Machines that are one GPU each."""
_MOST = 16
"""More than these are racks of servers."""


def gpus_per_server(gpu: str, hardware: Hardware, catalogue: HardwareCatalog) -> int:
    """As the plan says of its own GPUs; else what complete systems hold, or the largest instance with several."""
    if gpu in hardware.keys:
        return hardware.gpus_per_node
    known = catalogue.gpus.get(gpu.partition("/")[0])
    if known is None or known.segment in ALONE:
        return USUAL if known is None else 1
    servers = [node for node in catalogue.nodes.values() if node.gpu == known.id and node.gpu_count <= _MOST]
    systems = [node.gpu_count for node in servers if node.category == "system"]
    return max(systems or [node.gpu_count for node in servers if node.gpu_count > 1], default=USUAL)
