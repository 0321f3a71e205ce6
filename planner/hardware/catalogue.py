"""The hardware catalogue: everything in `resources/hardware/`, read once, and how an entry of a scenario is found."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import isfinite
from types import MappingProxyType
from typing import Protocol

from planner.errors import CatalogueError
from planner.hardware.capacity import (
    Capacities,
    System,
    custom_capacities,
    gpu_capacities,
    mig_capacities,
    option_capacities,
    with_usable,
)
from planner.hardware.gpus import Gpu, load_gpus
from planner.hardware.nodes import Node, load_nodes
from planner.hardware.overheads import Overheads, load_overheads
from planner.hardware.search import near_ids, picker_order, search, search_nodes


class GpuEntry(Protocol):
    """An entry of a scenario's GPUs that is more than an id: a custom card, or a number of cards."""

    @property
    def id(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def memory_gib(self) -> float | None: ...
    @property
    def count(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ChosenGpu:
    """A GPU that somebody picked: of the catalogue, a part of one, or a custom card."""

    id: str
    name: str
    label: str
    """Short, for a chart."""
    gpu: Gpu | None
    """The catalogue's record; None for a custom card the catalogue does not hold."""
    capacities: Capacities
    count: int | None = None
    """How many of it there are, where the entry says so."""
    variant: str = ""
    """The MIG profile, or the memory size of a machine with unified memory."""


@dataclass(frozen=True, slots=True)
class HardwareCatalog:
    """GPUs (in the order of a picker), nodes and overheads."""

    gpus: Mapping[str, Gpu]
    nodes: Mapping[str, Node]
    overheads: Overheads
    _found: dict[tuple[str, System], ChosenGpu] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What ids were found to mean, as siblings are searched for each."""

    @property
    def vendors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(gpu.vendor for gpu in self.gpus.values()))

    def search(self, text: str = "", vendor: str | None = None, min_memory_gb: float | None = None) -> tuple[Gpu, ...]:
        """GPUs for a picker: by words of their names, vendor and label size."""
        return search(self.gpus.values(), text, vendor, min_memory_gb)

    def search_nodes(self, text: str = "") -> tuple[Node, ...]:
        """Servers for a picker: by words of their names, those of the short list first."""
        return search_nodes(self.nodes.values(), text)

    def resolve(self, entry: str | GpuEntry, *, system: System = "linux", total_bytes: int | None = None) -> ChosenGpu:
        """The GPU that an entry of a scenario means.

        An entry is an id, `id/3g.40gb` for a MIG slice, `id/64gb` for a machine with unified memory of that size,
        or a card with an id or a name, a size or a number. `total_bytes` replaces the usable size.
        Raises `CatalogueError`, with the ids that may have been meant, for what the catalogue does not hold.
        """
        chosen = self._from_id(entry, system) if isinstance(entry, str) else self._from_entry(entry, system)
        if total_bytes is None:
            return chosen
        return replace(chosen, capacities=with_usable(chosen.capacities, total_bytes))

    def _from_id(self, entry_id: str, system: System) -> ChosenGpu:
        key = entry_id, system
        if key not in self._found:
            self._found[key] = self._look_up(entry_id, system)
        return self._found[key]

    def _look_up(self, entry_id: str, system: System) -> ChosenGpu:
        base, _, variant = entry_id.partition("/")
        gpu = self.gpus.get(base)
        if gpu is None:
            raise CatalogueError(f"The catalogue has no GPU '{base}'.{self._meant(base)}")
        everything = self.gpus.values()
        if not variant:
            return ChosenGpu(gpu.id, gpu.full_title, gpu.label, gpu, gpu_capacities(gpu, everything, system))
        for profile in gpu.memory.mig:
            if profile.name == variant:
                capacities = mig_capacities(gpu, profile, gpu_capacities(gpu, everything))
                name = f"{gpu.full_title}, MIG {variant}"
                return ChosenGpu(entry_id, name, f"{gpu.label} {variant}", gpu, capacities, variant=variant)
        for option in gpu.memory.options:
            if option.name == variant:
                capacities = option_capacities(gpu, option, everything)
                label = f"{gpu.label} {option.memory_gb} GB"
                return ChosenGpu(entry_id, f"{gpu.vendor} {label}", label, gpu, capacities, variant=variant)
        choices = f"It has {', '.join(gpu.variants)}." if gpu.variants else "It cannot be divided."
        raise CatalogueError(f"{gpu.full_title} has no part '{variant}'. {choices}")

    def _from_entry(self, entry: GpuEntry, system: System) -> ChosenGpu:
        if entry.count is not None and entry.count < 1:
            raise CatalogueError(f"The number of cards is {entry.count}; it must be at least 1.")
        if entry.memory_gib is None:
            if entry.id is None:
                raise CatalogueError("A custom card needs its memory in GiB, or the id of a GPU of the catalogue.")
            chosen = self._from_id(entry.id, system)
            return replace(chosen, name=entry.name or chosen.name, count=entry.count)
        if not isfinite(entry.memory_gib) or entry.memory_gib <= 0:
            raise CatalogueError(f"The memory of a custom card is {entry.memory_gib} GiB; it must be more than 0.")
        if not (card_id := entry.id or entry.name):
            raise CatalogueError("A custom card needs a name or an id.")
        gpu = self.gpus.get(entry.id or "")
        name = entry.name or (gpu.full_title if gpu else card_id)
        label = entry.name or (gpu.label if gpu else card_id)
        return ChosenGpu(card_id, name, label, gpu, custom_capacities(entry.memory_gib), entry.count)

    def _meant(self, text: str) -> str:
        near = near_ids(tuple(self.gpus.values()), text)
        if not near:
            return " `vram-planner gpus` lists what it has."
        return f" Did you mean {' or '.join(repr(item) for item in near)}?"


@cache
def load_hardware() -> HardwareCatalog:
    """The catalogue that ships with the program; read once."""
    table = load_gpus()
    gpus = {gpu.id: gpu for gpu in picker_order(table.gpus.values(), table.as_of)}
    return HardwareCatalog(MappingProxyType(gpus), load_nodes(gpus), load_overheads())
