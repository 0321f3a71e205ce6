"""What a file named on the command line holds: a plan, or a model for which defaults fill the rest."""

from pathlib import Path
from typing import Any

from planner.errors import ScenarioError
from planner.scenario import Scenario, load_scenario
from planner.scenario.files import parse_json, read_small_file
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
    return plan_for_model({"config": tree}) if _describes_a_model(tree) else load_scenario(path)


def _describes_a_model(tree: Any) -> bool:
    return isinstance(tree, dict) and "format" not in tree and any(key in tree for key in _MODEL_KEYS)
