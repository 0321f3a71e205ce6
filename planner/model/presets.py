"""The models that come with the planner: an index of facts, and configurations that are read when one is chosen."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from planner.errors import ModelError, ResourceError
from planner.resources import resource


@dataclass(frozen=True)
class Preset:
    """One model of the picker. The facts come from the index; `config` is read on demand."""

    id: str
    title: str
    family: str
    kind: str
    """What it is, for people: `decoder`, `mixture of experts`, `encoder`, `vision`, …"""
    task: str
    parameters: int
    active_parameters: int
    kv_bytes_per_token: int
    context: int | None
    file: str

    @cached_property
    def _record(self) -> Mapping[str, Any]:
        return _records(self.file)[self.id]

    @property
    def config(self) -> Mapping[str, Any]:
        """The published configuration, without keys that do not bear on its structure."""
        config: Mapping[str, Any] = self._record["config"]
        return config

    @property
    def source(self) -> str:
        """Where the configuration was found."""
        return str(self._record["source"])


def _damaged(path: Path) -> ResourceError:
    return ResourceError(f"The model file {path} is missing or damaged; please install the planner again.")


@cache
def _records(file: str) -> Mapping[str, Mapping[str, Any]]:
    path = resource("models", file)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {record["id"]: record for record in content["models"]}
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ResourceError(
            f"The model file {path} is missing or damaged; please install the planner again."
        ) from problem


@cache
def load_presets() -> Mapping[str, Preset]:
    """Every preset by its id, in the order of the picker (family, then size)."""
    path = resource("models", "index.json")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["models"]
        return {entry["id"]: Preset(**entry) for entry in entries}
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ResourceError(
            f"The model index {path} is missing or damaged; please install the planner again."
        ) from problem


def find_preset(identifier: str, presets: Mapping[str, Preset] | None = None) -> Preset:
    """The preset of that id, or a `ModelError` that names the nearest ids."""
    known = load_presets() if presets is None else presets
    preset = known.get(identifier)
    if preset is None:
        near = get_close_matches(identifier, known, n=3, cutoff=0.4)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise ModelError(f"The model preset “{identifier}” is not known.{hint} `vram-planner models` lists all.")
    return preset


def families(presets: Mapping[str, Preset] | None = None) -> Mapping[str, tuple[Preset, ...]]:
    """Presets by family, in the order of the picker."""
    known = load_presets() if presets is None else presets
    grouped: dict[str, list[Preset]] = {}
    for preset in known.values():
        grouped.setdefault(preset.family, []).append(preset)
    return {family: tuple(members) for family, members in grouped.items()}


def search_presets(text: str, presets: Mapping[str, Preset] | None = None) -> tuple[Preset, ...]:
    """Presets in which every word of `text` occurs: in id, title, family or kind."""
    words = text.lower().split()
    known = load_presets() if presets is None else presets

    def matches(preset: Preset) -> bool:
        place = f"{preset.id} {preset.title} {preset.family} {preset.kind}".lower()
        return all(word in place for word in words)

    return tuple(preset for preset in known.values() if matches(preset))
