"""Presets of workloads: what people often plan, as whole scenarios to start from or to try with another model."""

import json
from dataclasses import dataclass
from functools import cache

from planner.errors import ResourceError
from planner.resources import resource
from planner.scenario.scenario import FORMAT, Scenario


@dataclass(frozen=True, slots=True)
class Workload:
    """One preset; `text` says in a sentence what it is."""

    id: str
    title: str
    text: str
    scenario: Scenario


@cache
def workloads() -> tuple[Workload, ...]:
    """All of them, in the order of the file. Raises `ResourceError` for a broken installation."""
    head = {"format": FORMAT, "version": 1}
    try:
        listed = json.loads(resource("workloads", "workloads.json").read_text("utf-8"))["workloads"]
        return tuple(
            Workload(one["id"], one["title"], one["text"], Scenario.of({**head, **one["scenario"]})) for one in listed
        )
    except (OSError, ValueError, LookupError) as error:
        raise ResourceError(
            f"Presets of workloads are damaged ({error}). Please install VRAM Planner again."
        ) from error


def with_workload(scenario: Scenario, workload: Workload) -> Scenario:
    """The phases and the hardware of a preset for the model of this scenario, which keeps its name."""
    preset = workload.scenario.to_document()
    changed = scenario.with_value(("phases",), preset["phases"])
    return changed.with_value(("hardware",), preset["hardware"])
