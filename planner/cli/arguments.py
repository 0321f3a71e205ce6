"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from planner.units import SizeUnit

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        help="A plan (*.vramplan), or a model: its config.json, a GGUF or safetensors file, or a folder with them. "
        "For a model, defaults fill every phase.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
Unit = Annotated[SizeUnit, typer.Option("--unit", help="Show sizes in GiB (2^30 bytes) or GB (10^9 bytes).")]
