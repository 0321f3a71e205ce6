"""`vram-planner --self-test`: is this installation whole? Works without a screen and writes only temporary files."""

import json
import tempfile
from pathlib import Path

from planner.errors import PlannerError, ResourceError

REFERENCE_CORPUS = "optrace-llama.json"
TOLERANCE = 0.01
"""The largest relative error of the reference plan against its trace."""


def run() -> None:
    """Load every resource, compute a plan whose bytes are known, and draw it. Raises `PlannerError` when one fails."""
    from planner.resources import resources_dir

    print(f"resources: {_load_resources()} files in {resources_dir()}")
    print(f"models: {_read_presets()} presets")
    print(f"reference plan: within {_compute_reference():.2%} of its trace")
    print(f"pictures: {', '.join(_draw())}")


def _load_resources() -> int:
    """Read every data file, and the catalogue through its own checks."""
    from planner.hardware import load_hardware
    from planner.resources import resources_dir

    load_hardware()
    files = [path for path in sorted(resources_dir().rglob("*")) if path.is_file()]
    for path in files:
        try:
            content = path.read_bytes()
            if path.suffix == ".json":
                json.loads(content)
        except (OSError, ValueError) as error:
            raise ResourceError(f"{path} is damaged ({error}). Please install VRAM Planner again.") from error
        if not content:
            raise ResourceError(f"{path} is empty. Please install VRAM Planner again.")
    return len(files)


def _read_presets() -> int:
    """Read every preset into a structure, and hold its parameters against the picker's."""
    from planner.model import load_presets
    from planner.model.counts import parameters
    from planner.model.readers import read_config

    presets = load_presets()
    for preset in presets.values():
        counted = parameters(read_config(dict(preset.config), preset.task, preset.id))
        if counted != preset.parameters:
            raise PlannerError(f"the preset {preset.id} has {counted} parameters where {preset.parameters} are listed.")
    return len(presets)


def _compute_reference() -> float:
    """The largest error over the figures of the first traced case that ships."""
    from planner.catalog import load_catalog
    from planner.evidence.corpus import load_corpus
    from planner.evidence.score import score_corpus
    from planner.resources import resource

    corpus = load_corpus(resource("evidence", REFERENCE_CORPUS))
    score = score_corpus(corpus.model_copy(update={"cases": corpus.cases[:1]}), load_catalog())
    (case,) = score.cases
    if case.failure is not None:
        raise PlannerError(f"the reference plan failed: {case.failure}")
    errors = [abs(result.error) if result.error is not None else 1.0 for result in case.results]
    if max(errors) > TOLERANCE:
        raise PlannerError(f"the reference plan is {max(errors):.1%} off its trace.")
    return max(errors)


def _draw() -> list[str]:
    """A six-phase plan in every picture format, into a folder that is removed again."""
    from planner.chart.paint.export import export_chart
    from planner.cli.planning import chart_of, plan_scenario
    from planner.scenario.starting import starting_scenario

    chart = chart_of(plan_scenario(starting_scenario()), "GiB")
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("png", "svg", "pdf"):
            picture = Path(folder) / f"chart.{ending}"
            export_chart(chart, picture)
            if not picture.stat().st_size:
                raise PlannerError(f"the {ending.upper()} picture came out empty.")
    return ["PNG", "SVG", "PDF"]
