"""`vram-planner nodes`: the servers, cloud instances and workstations that the catalogue knows."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.arguments import AsJson, Unit

if TYPE_CHECKING:
    from planner.hardware.nodes import Node


def command(
    search: Annotated[str, typer.Argument(help="Show only servers whose names hold these words, such as 'p5'.")] = "",
    provider: Annotated[str | None, typer.Option("--provider", help="Show only this provider's, such as AWS.")] = None,
    as_json: AsJson = False,
    unit: Unit = "GiB",
) -> None:
    """List the servers of the catalogue with their GPUs, RAM and disks."""
    from planner.hardware import load_hardware

    found = [
        node
        for node in load_hardware().search_nodes(search)
        if provider is None or node.provider.casefold() == provider.casefold()
    ]
    if as_json:
        json.dump([_as_json(node) for node in found], sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
        return
    from planner.cli.listing import print_listing
    from planner.units import format_size

    def size(count: int | None) -> str:
        return format_size(count, unit) if count is not None else "–"

    print_listing(
        ("Id", "Name", "Provider", "GPUs", "RAM", "NVMe"),
        [
            (
                node.id,
                node.name,
                node.provider,
                f"{node.gpu_count} × {node.gpu}",
                size(node.host_ram_bytes),
                size(node.nvme_bytes),
            )
            for node in found
        ],
        numbers=(4, 5),
        nothing="No server of the catalogue matches.",
    )


def _as_json(node: "Node") -> dict[str, Any]:
    return {
        "id": node.id,
        "name": node.name,
        "provider": node.provider,
        "category": node.category,
        "gpu": node.gpu,
        "gpu_count": node.gpu_count,
        "host_ram_bytes": node.host_ram_bytes,
        "nvme_bytes": node.nvme_bytes,
        "cpu_cores": node.cpu_cores,
        "network_gbit_per_s": node.network_gbit_per_s,
        "note": node.note,
        "sources": [source.text for source in node.sources],
    }
