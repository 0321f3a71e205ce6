"""Everything the engine is told about the world: GPUs, nodes, overheads and model presets."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from planner.hardware import HardwareCatalog, load_hardware
from planner.model.presets import Preset, load_presets


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """Facts from `resources/`, read once and never changed."""

    hardware: HardwareCatalog
    presets: Mapping[str, Preset]


@cache
def load_catalog() -> Catalog:
    """The catalogue that ships with the planner."""
    return Catalog(load_hardware(), load_presets())
