"""`vram-planner models`: the presets that ship."""

import json
import sys
from typing import Annotated

import typer

from planner.cli.arguments import AsJson

SHOWN = ("id", "title", "family", "kind", "task", "parameters", "context", "source")


def command(
    search: Annotated[str, typer.Argument(help="Show only models whose names hold these words.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the model presets."""
    from planner.model.presets import search_presets

    found = search_presets(search)
    if as_json:
        rows = [{name: getattr(preset, name) for name in SHOWN} for preset in found]
        json.dump(rows, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
        return
    from planner.cli.listing import print_listing
    from planner.units import format_count

    print_listing(
        ("Id", "Title", "Kind", "Parameters", "Task"),
        [(item.id, item.title, item.kind, format_count(item.parameters), item.task) for item in found],
        numbers=(3,),
        nothing="No model preset matches.",
    )
