"""Servers in words: which can be chosen, what the plan's offers, and whether that is enough."""

from planner.catalog import Catalog
from planner.chart.numbers import size_text
from planner.engine.plan import Room, Verdict
from planner.gui.state import State
from planner.gui.widgets.choice_list import Choice
from planner.scenario.hardware import Hardware
from planner.units import SizeUnit, format_size

NO_SERVER = "none of the catalogue"
_TIGHT = {
    "RAM": "the page cache that is wanted does not fit beside it",
    "disks": "a fifth of them should",
}
"""Why something that fits is tight all the same."""


def server_choices(catalog: Catalog) -> list[Choice]:
    """The servers of the catalogue, and none of them."""
    nodes = catalog.hardware.nodes.values()
    return [
        Choice("", NO_SERVER),
        *(Choice(node.id, node.name, f"{node.gpu_count} × {node.gpu}", node.provider) for node in nodes),
    ]


def chosen_server(state: State, catalog: Catalog) -> tuple[str, str]:
    """The id of the plan's server, empty for one that is not in the catalogue, and its name."""
    node = state.scenario.hardware.node
    key = node if isinstance(node, str) else ""
    known = catalog.hardware.nodes.get(key)
    return key, known.name if known else (key or getattr(node, "name", NO_SERVER))


def room_text(room: Room, hardware: Hardware, unit: SizeUnit) -> str:
    """`2 048 GiB RAM · 27 940 GiB NVMe`, or `RAM not known`; what is entered in place of a server's own is marked."""
    disks = "shared storage" if room.shared else "NVMe"
    replaces = hardware.node is not None
    offers = (
        (room.ram_bytes, "RAM", replaces and hardware.host_ram_bytes is not None),
        (room.disk_bytes, disks, replaces and not room.shared and hardware.nvme_bytes is not None),
    )
    return " · ".join(
        f"{what} not known" if size is None else f"{size_text(size, unit)} {unit} {what}{' as entered' * entered}"
        for size, what, entered in offers
    )


def room_sentence(verdict: Verdict, server: str, what: str, unit: SizeUnit) -> str:
    """`Fits the RAM of NVIDIA DGX H100: 1980.2 GiB of 2048.0 GiB stay free.` `what` is `RAM` or `disks`."""
    if verdict.capacity_bytes is None or verdict.headroom_bytes is None:
        return f"Whether it fits the {what} of {server} is unknown: nothing states their size."
    capacity, by = format_size(verdict.capacity_bytes, unit), format_size(abs(verdict.headroom_bytes), unit)
    if verdict.verdict == "oom":
        return f"Too large for the {what} of {server} by {by}: there are {capacity}."
    free = f"{what} of {server}: {by} of {capacity} stay free"
    return f"Tight for the {free}, but {_TIGHT[what]}." if verdict.verdict == "tight" else f"Fits the {free}."
