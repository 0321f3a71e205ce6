"""`vram-planner gpus`: what the catalogue knows."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.arguments import AsJson, Unit

if TYPE_CHECKING:
    from planner.hardware import ChosenGpu, Gpu, HardwareCatalog


def command(
    search: Annotated[str, typer.Argument(help="Show only GPUs whose names hold these words, such as 'h100'.")] = "",
    vendor: Annotated[str | None, typer.Option("--vendor", help="Show only this vendor's, such as nvidia.")] = None,
    here: Annotated[bool, typer.Option("--here", help="Show the GPUs of this machine, with what is free now.")] = False,
    as_json: AsJson = False,
    unit: Unit = "GiB",
) -> None:
    """List the GPUs of the catalogue with their three capacities."""
    from planner.hardware import load_hardware

    catalog = load_hardware()
    if here:
        _print_machine(catalog, as_json, unit)
        return
    found = [gpu for gpu in catalog.search(search) if vendor is None or gpu.vendor.casefold() == vendor.casefold()]
    listed = [(gpu, catalog.resolve(gpu.id)) for gpu in found]
    if as_json:
        json.dump([_as_json(gpu, chosen) for gpu, chosen in listed], sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
        return
    from planner.cli.listing import print_listing
    from planner.units import format_size

    def size(count: int | None) -> str:
        return format_size(count, unit) if count is not None else "–"

    rows = [
        (
            gpu.id,
            gpu.full_title,
            size(chosen.capacities.marketing_bytes),
            size(chosen.capacities.driver_bytes),
            size(chosen.capacities.usable_bytes),
            chosen.capacities.usable_basis,
            ", ".join(gpu.variants),
        )
        for gpu, chosen in listed
    ]
    titles = ("Id", "Name", "Label", "Driver", "Usable", "Usable is", "Parts")
    print_listing(titles, rows, numbers=(2, 3, 4), nothing="No GPU of the catalogue matches.")


def _print_machine(catalog: "HardwareCatalog", as_json: bool, unit: Unit) -> None:
    """What the driver of this machine tells, with the ids of the catalogue."""
    from dataclasses import asdict

    from planner.cli.listing import print_listing
    from planner.hardware.machine import local_gpus
    from planner.units import format_size

    found = local_gpus(catalog.gpus.values())
    if as_json:
        json.dump([{**asdict(card), "usable_bytes": card.usable_bytes} for card in found], sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    rows = [
        (
            str(card.index),
            card.name,
            card.id or "–",
            *(format_size(size, unit) for size in (card.total_bytes, card.usable_bytes, card.free_bytes)),
        )
        for card in found
    ]
    titles = ("Number", "Name", "Id", "Driver", "Usable", "Free now")
    print_listing(titles, rows, numbers=(3, 4, 5), nothing="No NVIDIA GPU was found on this machine.")


def _as_json(gpu: "Gpu", chosen: "ChosenGpu") -> dict[str, Any]:
    capacities = chosen.capacities
    return {
        "id": gpu.id,
        "name": gpu.name,
        "vendor": gpu.vendor,
        "architecture": gpu.architecture,
        "segment": gpu.segment,
        "released": gpu.released,
        "memory_type": gpu.memory.kind,
        "marketing_bytes": capacities.marketing_bytes,
        "driver_bytes": capacities.driver_bytes,
        "usable_bytes": capacities.usable_bytes,
        "usable_basis": capacities.usable_basis,
        "note": capacities.note,
        "parts": list(gpu.variants),
        "supports": sorted(gpu.supports),
        "sources": [source.text for source in (*gpu.sources, *capacities.sources)],
    }
