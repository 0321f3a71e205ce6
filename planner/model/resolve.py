"""A scenario's model becomes a `ModelSpec`, remembered by its content."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from planner.errors import ModelError
from planner.model.dimensions import from_dimensions, from_parameter_count
from planner.model.presets import Preset, find_preset
from planner.model.readers import read_config
from planner.model.readers.tasks import known_task
from planner.model.spec import ModelSpec
from planner.scenario.model_source import ConfigModel, DimensionsModel, PresetModel, SizeModel

Source = PresetModel | ConfigModel | DimensionsModel | SizeModel


def resolve_model(source: Source, presets: Mapping[str, Preset] | None = None) -> ModelSpec:
    """The structure of the model that a scenario names or describes.

    Raises `ModelError` for an unknown preset and for a description that cannot be read.
    """
    if isinstance(source, PresetModel):
        preset = find_preset(source.preset, presets)
        return _read(_preset_content(preset), preset.task, preset.id)
    if isinstance(source, ConfigModel):
        return _read(_content(source.config), source.task, "")
    if isinstance(source, DimensionsModel):
        return _from_dimensions(_content(source.dimensions.model_dump()))
    return _from_size(source.parameters, source.active_parameters, source.task, source.vocab_size, source.max_positions)


@lru_cache(maxsize=256)
def _preset_content(preset: Preset) -> str:
    return _content(preset.config)


def _content(value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as problem:
        raise ModelError(f"The model description is not plain JSON: {problem}.") from problem


@lru_cache(maxsize=128)
def _read(content: str, task: str | None, name: str) -> ModelSpec:
    return read_config(json.loads(content), task, name)


@lru_cache(maxsize=128)
def _from_dimensions(content: str) -> ModelSpec:
    return from_dimensions(json.loads(content))


@lru_cache(maxsize=128)
def _from_size(count: int, active: int | None, task: str, vocab: int | None, positions: int | None) -> ModelSpec:
    return from_parameter_count(count, active, known_task(task), vocab, positions)
