"""What a model is: its structure, its exact counts, and the readers that find them in files."""

from planner.model.presets import Preset, load_presets
from planner.model.readers import read_config
from planner.model.resolve import resolve_model
from planner.model.spec import ModelSpec
from planner.model.weights import Weight, weights

__all__ = ["ModelSpec", "Preset", "Weight", "load_presets", "read_config", "resolve_model", "weights"]
