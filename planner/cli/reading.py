"""What a file named on the command line holds: a plan, or a model for which defaults fill the rest."""

from pathlib import Path
from typing import Any

from planner.errors import ScenarioError
from planner.model import resolve_model
from planner.scenario import Scenario, load_scenario
from planner.scenario.files import parse_json, read_small_file
from planner.scenario.model_source import ConfigModel
from planner.scenario.starting import plan_for_model

MAX_CONFIG_BYTES = 64 * 1024 * 1024
_MODEL_KEYS = ("model_type", "architectures", "_class_name")


def open_scenario(path: Path) -> Scenario:
    """The scenario in a file; a model's config.json is planned in all six phases. Raises `PlannerError`."""
    content = read_small_file(path, MAX_CONFIG_BYTES)
    try:
        tree = parse_json(content)
    except ScenarioError as error:
        raise ScenarioError(f"{path.name} cannot be opened. {error.message}") from None
    if _describes_a_model(tree):
        model = ConfigModel(config=tree)
        return plan_for_model(model, _model_name(tree, path), max_positions=resolve_model(model).max_positions)
    return load_scenario(path)


def _describes_a_model(tree: Any) -> bool:
    return isinstance(tree, dict) and "format" not in tree and any(key in tree for key in _MODEL_KEYS)


def _model_name(config: dict[str, Any], path: Path) -> str:
    """What the model calls itself, else its file, else the folder of a file that is merely called config.json."""
    stated = config.get("_name_or_path")
    if isinstance(stated, str) and stated.strip():
        return stated
    return path.resolve().parent.name if path.stem == "config" else path.stem
