"""`vram-planner gpus`: what the catalogue knows."""

import json
import sys
from typing import Annotated

import typer

from planner.cli.arguments import AsJson, Unit


def command(
    search: Annotated[str, typer.Argument(help="Show only GPUs whose id or name holds these words.")] = "",
    vendor: Annotated[str | None, typer.Option("--vendor", help="Show only this vendor's, such as nvidia.")] = None,
    as_json: AsJson = False,
    unit: Unit = "GiB",
) -> None:
    """List the GPUs of the catalogue with their three capacities."""
    from planner.catalog import load_catalog
    from planner.cli.listing import matches

    catalog = load_catalog().hardware
    chosen = [
        gpu
        for gpu in catalog.gpus.values()
        if matches(search, gpu.id, gpu.name) and (vendor is None or gpu.vendor.lower() == vendor.lower())
    ]
    if as_json:
        json.dump([gpu.model_dump(mode="json") for gpu in chosen], sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from rich.markup import escape

    from planner.cli.listing import print_listing
    from planner.units import format_size

    def size(count: int | None) -> str:
        return format_size(count, unit) if count is not None else "–"

    rows = []
    for gpu in chosen:
        capacities = catalog.resolve(gpu.id).capacities
        readings = (capacities.marketing_bytes, capacities.driver_bytes, capacities.usable_bytes)
        rows.append((gpu.id, escape(gpu.name), gpu.vendor, *map(size, readings), capacities.usable_basis))
    titles = ("Id", "Name", "Vendor", "Marketing", "Driver", "Usable", "Usable is")
    print_listing(titles, rows, numbers=(3, 4, 5), nothing="No GPU of the catalogue matches.")
