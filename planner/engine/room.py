"""What the servers of a plan offer: the RAM of each, and the disks of all."""

from planner.engine.plan import UNNAMED, Room
from planner.hardware import HardwareCatalog
from planner.scenario.hardware import CustomNode, Hardware


def room_of(hardware: Hardware, catalog: HardwareCatalog) -> Room:
    """RAM and disks as the scenario states them, else as its server has them."""
    node = hardware.node
    ram, disk, name = hardware.host_ram_bytes, hardware.nvme_bytes, UNNAMED
    if isinstance(node, CustomNode):
        ram, disk, name = ram or node.host_ram_bytes, disk or node.nvme_bytes, node.name
    elif node is not None and (known := catalog.nodes.get(node)) is not None:
        ram, disk, name = ram or known.host_ram_bytes, disk or known.nvme_bytes, known.name
    elif ram is None and disk is None and hardware.shared_storage_bytes is None:
        return Room()
    if hardware.shared_storage_bytes is not None:
        return Room(name, ram, hardware.shared_storage_bytes, shared=True)
    return Room(name, ram, None if disk is None else disk * hardware.nodes)
