"""What must hold of every plan, whatever its figures are."""

import json

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PHASES, Plan
from planner.engine.term import COMPONENTS
from planner.scenario import Scenario
from planner.scenario.starting import starting_scenario

TRACED = ("design", "training", "fine_tuning", "evaluation")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return estimate(starting_scenario(), load_catalog())


def test_all_six_phases_are_planned_in_the_order_of_life(plan: Plan) -> None:
    assert tuple(plan.phases) == PHASES


def test_components_at_the_peak_sum_to_the_bytes_of_the_process(plan: Plan) -> None:
    for phase in plan.phases.values():
        assert sum(phase.components.values()) == phase.peak.process_bytes
        assert set(phase.components) == set(COMPONENTS)


def test_components_of_a_moment_sum_to_what_is_allocated_and_the_peak_is_the_largest_moment(plan: Plan) -> None:
    for phase in plan.phases.values():
        for moment in phase.moments.values():
            assert sum(moment.components.values()) == moment.allocated_bytes
        assert phase.peak.allocated_bytes == max(moment.allocated_bytes for moment in phase.moments.values())


def test_terms_sum_to_their_moments(plan: Plan) -> None:
    for phase in plan.phases.values():
        for name, moment in phase.moments.items():
            told = sum(item.bytes for item in phase.terms if name in item.alive and item.component != "overhead")
            assert told == moment.allocated_bytes


def test_terms_sum_to_their_moments_when_ranks_share_the_gradients() -> None:
    for stage in (0, 1, 2, 3):
        document = {
            "model": {"preset": "meta-llama/Llama-3.1-8B"},
            "phases": {"training": {"sequence_length": 700, "parallelism": {"data": 7, "zero_stage": stage}}},
        }
        phase = estimate(Scenario.of(document), load_catalog()).phases["training"]
        for name, moment in phase.moments.items():
            assert sum(item.bytes for item in phase.terms if name in item.alive and item.component != "overhead") == (
                moment.allocated_bytes
            )


def test_every_term_names_its_source_and_its_factors(plan: Plan) -> None:
    for phase in plan.phases.values():
        for item in (*phase.terms, *phase.host_terms):
            assert item.source
            assert item.factors


def test_the_band_contains_the_estimate(plan: Plan) -> None:
    for phase in plan.phases.values():
        assert phase.peak.low_bytes <= phase.peak.process_bytes <= phase.peak.high_bytes


def test_equal_scenarios_give_equal_plans(plan: Plan) -> None:
    again = estimate(starting_scenario(), load_catalog())
    assert json.dumps(again.to_json()) == json.dumps(plan.to_json())


def test_each_zero_stage_needs_no_more_for_states_than_the_one_before() -> None:
    needs = []
    for stage in (0, 1, 2, 3):
        document = {
            "model": {"preset": "meta-llama/Llama-3.1-8B"},
            "phases": {"training": {"sequence_length": 512, "parallelism": {"data": 8, "zero_stage": stage}}},
        }
        phase = estimate(Scenario.of(document), load_catalog()).phases["training"]
        needs.append(phase.moments["start_of_step"].allocated_bytes)
    assert needs == sorted(needs, reverse=True)


def test_a_plan_without_gpus_says_so() -> None:
    phase = estimate(starting_scenario(), load_catalog()).phases["training"]
    assert set(phase.verdicts) == {"h100-sxm5-80gb", "l40s", "rtx-4090"}


def test_memory_kept_free_is_kept_free_of_every_phase() -> None:
    # Preparing data needs none of it, and is judged by the same capacity all the same.
    document = {
        "model": {"preset": "meta-llama/Llama-3.1-8B"},
        "phases": {"preprocessing": {}, "training": {}},
        "hardware": {"gpus": ["h200-sxm-141gb"], "headroom_percent": 20},
    }
    phases = estimate(Scenario.of(document), load_catalog()).phases
    preparing, training = (phases[name].verdicts["h200-sxm-141gb"] for name in ("preprocessing", "training"))
    assert preparing.capacity_bytes == preparing.headroom_bytes == training.capacity_bytes
    assert preparing.verdict == "fits"
