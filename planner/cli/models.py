"""`vram-planner models`: the presets that ship."""

import json
import sys
from typing import Annotated

import typer

from planner.cli.arguments import AsJson


def command(
    search: Annotated[str, typer.Argument(help="Show only models whose id, title or family holds these words.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the model presets."""
    from planner.catalog import load_catalog
    from planner.cli.listing import matches

    presets = load_catalog().presets.values()
    chosen = [preset for preset in presets if matches(search, preset.id, preset.title, preset.family)]
    if as_json:
        shown = ("id", "title", "family", "task", "source")
        rows = [{name: getattr(preset, name) for name in shown} for preset in chosen]
        json.dump(rows, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from rich.markup import escape

    from planner.cli.listing import print_listing

    print_listing(
        ("Id", "Title", "Family", "Task"),
        [(escape(preset.id), escape(preset.title), escape(preset.family), preset.task) for preset in chosen],
        nothing="No model preset matches.",
    )
