"""What a file named on the command line holds: a plan, or a model for which defaults fill the rest."""

from pathlib import Path
from typing import Any

from planner.errors import ScenarioError
from planner.model.files import open_model
from planner.report import REPORT_SUFFIXES
from planner.scenario import Scenario, load_scenario
from planner.scenario.files import parse_json, read_small_file
from planner.scenario.starting import plan_for_model

MAX_CONFIG_BYTES = 64 * 1024 * 1024
_MODEL_KEYS = ("model_type", "architectures", "_class_name")
_WEIGHT_FILES = (".gguf", ".safetensors")


def open_scenario(path: Path) -> tuple[Scenario, tuple[str, ...]]:
    """The scenario in a file, and what a person should know about it. Raises `PlannerError`.

    A report gives the scenario that is embedded in it. A model (its config.json, a GGUF or safetensors file, or a
    folder with them) is planned in all six phases.
    """
    if path.suffix.lower() in REPORT_SUFFIXES:
        from planner.report.opening import load_report

        return load_report(path), ()
    if path.is_dir() or path.suffix in _WEIGHT_FILES or _holds_a_config(path):
        model = open_model(path)
        spec = model.spec
        plan = plan_for_model(model.source, model.name, max_positions=spec.max_positions, model_type=spec.model_type)
        return plan, model.notes
    return load_scenario(path), ()


def _holds_a_config(path: Path) -> bool:
    """Whether a file is JSON that describes a model; raises `ScenarioError` where it is no JSON at all."""
    content = read_small_file(path, MAX_CONFIG_BYTES)
    try:
        tree: Any = parse_json(content)
    except ScenarioError as error:
        raise ScenarioError(f"{path.name} cannot be opened. {error.message}") from None
    return isinstance(tree, dict) and "format" not in tree and any(key in tree for key in _MODEL_KEYS)
