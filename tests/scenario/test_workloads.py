"""Presets of workloads are plans without contradictions that do what their titles say."""

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.model import resolve_model
from planner.scenario import validate
from planner.scenario.starting import starting_scenario
from planner.scenario.workloads import with_workload, workloads

CATALOG = load_catalog()


@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.id)
def test_a_preset_fits_the_gpu_that_it_names(workload):
    scenario = workload.scenario
    spec = resolve_model(scenario.model, CATALOG.presets)
    assert [issue for issue in validate(scenario, spec, CATALOG.hardware) if issue.severity == "error"] == []
    plan = estimate(scenario, CATALOG)
    judge = scenario.hardware.judged_by
    verdicts = {name: phase.verdicts[judge].verdict for name, phase in plan.phases.items()}
    assert set(verdicts.values()) == {"fits"}, verdicts
    assert workload.title == scenario.name
    assert workload.text.endswith(".")


def test_ids_and_titles_are_told_apart():
    assert len({workload.id for workload in workloads()}) == len({each.title for each in workloads()}) >= 6


@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.id)
def test_a_preset_can_be_tried_with_another_model(workload):
    own = starting_scenario().with_value(("model",), {"preset": "Qwen/Qwen3-0.6B"})
    changed = with_workload(own, workload)
    assert changed.model == own.model
    assert changed.name == own.name
    assert changed.phases == workload.scenario.phases
    assert changed.hardware == workload.scenario.hardware
    assert estimate(changed, CATALOG).phases
