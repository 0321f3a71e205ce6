import pytest

from planner.evidence.result import Result
from planner.evidence.summary import agrees, percentile, summarize


def number(path: str, error: float | None) -> Result:
    return Result(path, 100, None if error is None else round(100 * (1 + error)), error)


def verdict(gpu: str, expected: str, estimated: str | None) -> Result:
    return Result(f"phases.training.verdicts.{gpu}.verdict", expected, estimated, None)


def test_numbers_are_summed_up_by_absolute_error_and_signed_bias():
    (row,) = summarize([number("peak", error) for error in (-0.10, 0.02, 0.04, 0.30)])
    assert row.count == 4
    assert row.missing == 0
    assert row.median == pytest.approx(0.07)  # of 0.02, 0.04, 0.10, 0.30
    assert row.p90 == pytest.approx(0.24)  # 0.10 + 0.7 × 0.20
    assert row.largest == pytest.approx(0.30)
    assert row.bias == pytest.approx(0.065)


def test_figures_that_the_plan_does_not_hold_are_counted_apart():
    (row,) = summarize([number("peak", 0.5), number("peak", None)])
    assert (row.count, row.missing, row.median) == (1, 1, 0.5)


def test_a_path_without_any_figure_has_no_errors():
    (row,) = summarize([number("peak", None)])
    assert (row.count, row.missing, row.median, row.bias) == (0, 1, None, None)


def test_tight_agrees_with_either_and_unknown_with_none():
    assert agrees("oom", "tight")
    assert agrees("fits", "tight")
    assert agrees("fits", "fits")
    assert not agrees("fits", "oom")
    assert not agrees("fits", "unknown")


def test_verdicts_are_summed_up_per_gpu_and_over_all_gpus():
    results = [
        verdict("a.b", "oom", "oom"),
        verdict("a.b", "fits", "oom"),
        verdict("c", "fits", "tight"),
        verdict("c", "oom", "fits"),
    ]
    rows = {row.path: row for row in summarize(results)}
    assert rows["phases.training.verdicts.a.b.verdict"].agreement == 0.5
    together = rows["phases.training.verdicts.*.verdict"]
    assert (together.count, together.agreement, together.tight) == (4, 0.5, 0.25)


def test_the_percentile_interpolates_between_ranks():
    assert percentile([4, 1, 3, 2], 0.5) == 2.5
    assert percentile([7], 0.9) == 7
