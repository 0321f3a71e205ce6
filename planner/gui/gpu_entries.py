"""Entries of the GPU list as the scenario writes them: an id, a card of one's own, and how many."""

from pydantic import ValidationError

from planner.scenario.hardware import CustomGpu
from planner.scenario.refusals import issues_of, refusal

GpuEntry = str | CustomGpu


def count_of(entry: GpuEntry) -> int | None:
    """How many of it there are, or None where the node decides."""
    return None if isinstance(entry, str) or not entry.states("count") else entry.count


def with_count(entry: GpuEntry, count: int | None) -> GpuEntry:
    """The same card, `count` times; a plain id stays a plain id where nothing else is said."""
    if isinstance(entry, str):
        return entry if count is None else CustomGpu(id=entry, count=count)
    if count is None and entry.id is not None and entry.price_per_gpu_hour is None:
        return entry.id
    return entry.replaced("count", count)


def own_card(name: str, memory_gib: float, count: int | None = None) -> GpuEntry:
    """A card that is not in the catalogue. Raises `ScenarioError` for one that cannot be."""
    stated = {"name": name, "memory_gib": memory_gib, "count": count}
    try:
        return CustomGpu.model_validate({key: value for key, value in stated.items() if value is not None})
    except ValidationError as error:
        raise refusal(issues_of(error, CustomGpu)) from None
