"""One field over its values, with the largest that fits each GPU."""

import pytest

from planner.catalog import load_catalog
from planner.engine.case import Case
from planner.engine.explore import explore, values_of
from planner.scenario.starting import starting_scenario

GPUS = ("l40s", "h100-sxm5-80gb")
BATCH = ("phases", "training", "micro_batch_size")


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def run(catalog, path, **changes):
    scenario = starting_scenario()
    return explore(scenario, path, values_of(scenario, path, None), catalog, GPUS, **changes)


def test_every_point_is_the_estimate_of_its_value(catalog):
    scenario = starting_scenario()
    for point in run(catalog, BATCH).points[:4]:
        case = Case.of(scenario.with_value(BATCH, point.value), "training", catalog)
        peak = case.plan.peak
        assert (point.process_bytes, point.low_bytes, point.high_bytes) == (
            peak.process_bytes,
            peak.low_bytes,
            peak.high_bytes,
        )
        assert point.verdict == case.verdict.verdict


def test_the_largest_that_fits_is_a_point_though_it_is_no_round_value(catalog):
    found = run(catalog, ("phases", "serving", "concurrent_sequences"))
    largest = {one.gpu: one.largest for one in found.limits}
    assert set(largest.values()) <= {point.value for point in found.points}
    fitting = [point.value for point in found.points if point.verdict == "fits"]
    assert max(fitting) == largest["l40s"]


def test_choices_have_points_without_limits(catalog):
    found = run(catalog, ("phases", "training", "parallelism", "zero_stage"))
    assert [point.value for point in found.points] == [0, 1, 2, 3]
    assert found.limits == ()
    sizes = [point.process_bytes for point in found.points]
    assert sizes == sorted(sizes, reverse=True)


def test_values_that_a_rule_refuses_are_told_apart(catalog):
    scenario = starting_scenario().with_value(("phases", "serving", "parallelism", "tensor"), 1)
    path = ("phases", "serving", "parallelism", "tensor")
    found = explore(scenario, path, (1, 2, 3), catalog, GPUS)
    assert found.refused == (3,)
    assert [point.value for point in found.points] == [1, 2]


def test_a_sweep_that_is_called_off_ends_early(catalog):
    found = run(catalog, BATCH, cancelled=lambda: True)
    assert (found.points, found.limits) == ((), ())


def test_the_plans_own_value_is_among_them():
    scenario = starting_scenario().with_value(BATCH, 5)
    assert values_of(scenario, BATCH, None)[:7] == (1, 2, 3, 4, 5, 6, 8)
    lengths = values_of(scenario, ("phases", "training", "sequence_length"), None)
    assert lengths[0] == 128
    assert lengths[-1] == 131072
