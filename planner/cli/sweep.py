"""`vram-planner sweep`: many configurations of one phase at once."""

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.arguments import AsJson, ScenarioFile, Unit

if TYPE_CHECKING:
    from planner.engine.sweep import Axis, Block

FIGURES = ("process_bytes", "low_bytes", "high_bytes", "verdict")


def command(
    scenario: ScenarioFile,
    axis: Annotated[
        list[str],
        typer.Option(
            "--axis",
            metavar="FIELD=VALUES",
            help="micro_batch_size=1:64, zero_stage=0,3, gpu=l40s,h100-sxm5-80gb. Repeat it for more axes.",
        ),
    ],
    phase: Annotated[str | None, typer.Option("--phase", metavar="PHASE", help="Sweep this phase.")] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="ID", help="Judge by this GPU instead of the plan's own.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every configuration as CSV.")] = False,
    as_json: AsJson = False,
    unit: Unit = "GiB",
) -> None:
    """Judge every combination of values of some fields of one phase."""
    from planner.catalog import load_catalog
    from planner.cli.axes import axis_from, phase_named
    from planner.cli.progress import bar
    from planner.cli.reading import open_scenario
    from planner.engine.sweep import GPU, count, sweep
    from planner.engine.sweep import Axis as EngineAxis

    planned, _ = open_scenario(scenario)
    chosen = phase_named(planned, phase)
    axes = [axis_from(text, planned, chosen) for text in axis]
    if gpu is not None:
        axes = [*(one for one in axes if one.path != GPU), EngineAxis(GPU, (gpu,))]
    total = count(axes)
    with bar("Configurations") as tell:

        def told() -> Iterator["Block"]:
            done = 0
            for block in sweep(planned, chosen, load_catalog(), axes):
                yield block
                done += len(block)
                tell(done, total)

        if as_csv:
            _write_csv(told(), axes)
        elif as_json:
            _write_json(told(), axes, chosen)
        else:
            from planner.cli.sweep_tables import print_sweep

            print_sweep(told(), axes, chosen, unit)


def rows(blocks: Iterable["Block"], axes: Iterable["Axis"]) -> Iterator[list[Any]]:
    """Every configuration: the values of its axes, then its figures; None where a rule refuses it."""
    from planner.engine.sweep import VERDICTS

    paths = [axis.path for axis in axes]
    for block in blocks:
        sizes = {path: values.tolist() for path, values in block.points.items()}
        figures = (block.process_bytes.tolist(), block.low_bytes.tolist(), block.high_bytes.tolist())
        for index, code in enumerate(block.verdicts.tolist()):
            verdict = VERDICTS[code]
            values = [sizes[path][index] if path in sizes else block.choices[path] for path in paths]
            known = [None] * len(figures) if verdict == "refused" else [figure[index] for figure in figures]
            yield [*values, *known, verdict]


def _names(axes: Iterable["Axis"]) -> list[str]:
    from planner.cli.axes import axis_name

    return [*(axis_name(axis.path) for axis in axes), *FIGURES]


def _write_csv(blocks: Iterable["Block"], axes: list["Axis"]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_names(axes))
    writer.writerows(rows(blocks, axes))


def _write_json(blocks: Iterable["Block"], axes: list["Axis"], phase: str) -> None:
    """One configuration a line, written as they come."""
    names = _names(axes)
    head = {"format": "vram-planner/sweep", "version": 1, "phase": phase}
    sys.stdout.write(json.dumps(head)[:-1] + ', "configurations": [')
    for number, row in enumerate(rows(blocks, axes)):
        sys.stdout.write(",\n" if number else "\n")
        sys.stdout.write(json.dumps(dict(zip(names, row, strict=True))))
    sys.stdout.write("\n]}\n")
