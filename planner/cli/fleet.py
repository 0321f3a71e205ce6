"""`vram-planner fleet`: which GPUs would do, how many of each, and how a phase would be laid out on them."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli.arguments import AsJson, ScenarioFile, Unit

if TYPE_CHECKING:
    from planner.hardware import Gpu, HardwareCatalog

SortBy = Literal["memory", "gpus", "name"]


def command(
    scenario: ScenarioFile,
    gpu: Annotated[
        list[str] | None, typer.Option("--gpu", metavar="ID", help="Only this GPU; repeat it for more.")
    ] = None,
    phase: Annotated[
        list[str] | None, typer.Option("--phase", metavar="PHASE", help="Only this phase; repeat it for more.")
    ] = None,
    vendor: Annotated[str | None, typer.Option("--vendor", help="Only this vendor's, such as nvidia.")] = None,
    segment: Annotated[str | None, typer.Option("--segment", help="Only this kind, such as data-centre.")] = None,
    least: Annotated[float, typer.Option("--min-memory", metavar="GB", help="Only GPUs of at least this label.")] = 0.0,
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, max=1024, help="No more GPUs than these.")] = 1024,
    front: Annotated[
        bool, typer.Option("--front", help="Also tell layouts on more GPUs with more headroom or less recomputation.")
    ] = False,
    sort: Annotated[SortBy, typer.Option("--sort", help="By memory bought, number of GPUs, or name.")] = "memory",
    as_json: AsJson = False,
    unit: Unit = "GiB",
) -> None:
    """Find, for every GPU of the catalogue and every phase, the smallest number of GPUs and a layout that fits.

    Every layout is estimated: with its edits, `estimate` finds what is told here.
    """
    from planner.catalog import load_catalog
    from planner.cli.axes import phase_named
    from planner.cli.progress import bar
    from planner.cli.reading import open_scenario
    from planner.engine.fleet import find_fleet

    planned, _ = open_scenario(scenario)
    catalog = load_catalog()
    gpus = _chosen(catalog.hardware, gpu, vendor, segment, least)
    phases = None if not phase else [phase_named(planned, name) for name in phase]
    with bar("Numbers of GPUs") as tell:

        def proceed(done: int, of: int) -> bool:
            tell(done, of)
            return True

        rows = find_fleet(planned, catalog, gpus, phases, most=most, whole_front=front, proceed=proceed)
    if sort != "memory":
        rows = tuple(
            sorted(rows, key=lambda row: (row.gpus is None, row.gpus or 0) if sort == "gpus" else (row.gpu.title,))
        )
    if as_json:
        from planner.cli.fleet_json import fleet_json

        json.dump(fleet_json(rows, planned), sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
        return
    from planner.cli.fleet_tables import print_fleet, print_fronts

    print_fleet(rows, unit)
    if front:
        print_fronts(rows, unit)


def _chosen(
    hardware: "HardwareCatalog", ids: list[str] | None, vendor: str | None, segment: str | None, least: float
) -> "list[Gpu]":
    """The GPUs asked for. Raises `PlannerError` where there is none."""
    from planner.errors import PlannerError

    named = [hardware.resolve(name).gpu for name in ids] if ids else list(hardware.gpus.values())
    found = [
        gpu
        for gpu in named
        if gpu is not None
        and (vendor is None or gpu.vendor.casefold() == vendor.casefold())
        and (segment is None or gpu.segment.casefold() == segment.casefold())
        and gpu.memory.marketing_gb >= least
    ]
    if not found:
        raise PlannerError("No GPU of the catalogue is like that. `vram-planner gpus` lists them.")
    return found
