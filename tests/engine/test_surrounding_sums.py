"""Host RAM and storage by component are the amounts that phases and the programme tell."""

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PHASES, PhaseName, PhasePlan, programme
from planner.engine.surrounding_sums import (
    cached_terms,
    host_components,
    programme_components,
    storage_components,
    stored_terms,
)
from planner.scenario.starting import starting_scenario


@pytest.fixture(scope="module")
def phases() -> dict[PhaseName, PhasePlan]:
    scenario = starting_scenario()
    for path, value in (
        (("phases", "training", "checkpoints"), {"kept": 5}),
        (("phases", "evaluation", "sequence_length"), 1024),
        (("hardware", "node"), "aws-p5-48xlarge"),
    ):
        scenario = scenario.with_value(path, value)
    return dict(estimate(scenario, load_catalog()).phases)


def test_components_sum_to_the_amounts_of_every_phase(phases: dict[PhaseName, PhasePlan]) -> None:
    assert set(phases) == set(PHASES)
    for phase in phases.values():
        assert sum(host_components(phase).values()) == phase.host_ram_bytes
        assert sum(storage_components(phase).values()) == phase.storage_bytes
        assert sum(int(item.bytes) for item in cached_terms(phase)) == phase.page_cache_bytes


def test_components_of_all_phases_sum_to_the_programme(phases: dict[PhaseName, PhasePlan]) -> None:
    assert sum(programme_components(phases).values()) == programme(phases).storage_bytes


def test_the_base_model_of_three_phases_lies_on_disk_once(phases: dict[PhaseName, PhasePlan]) -> None:
    base = [int(item.bytes) for phase in phases.values() for item in stored_terms(phase) if item.name == "base model"]
    assert len(base) == 3
    weights = sum(storage_components(phase).get("weights", 0) for phase in phases.values())
    assert programme_components(phases)["weights"] == weights - 2 * base[0]
