"""Verdicts against hand-made bands, and the search for the smallest number of GPUs."""

from planner.engine.verdict import gpus_needed, judge
from planner.units import GIB


def test_a_band_below_the_capacity_fits_by_the_difference():
    verdict = judge(70 * GIB, 72 * GIB, 75 * GIB, 79 * GIB)
    assert (verdict.verdict, verdict.headroom_bytes) == ("fits", 7 * GIB)


def test_a_band_around_the_capacity_is_tight():
    assert judge(70 * GIB, 78 * GIB, 80 * GIB, 79 * GIB).verdict == "tight"


def test_a_band_above_the_capacity_is_out_of_memory_by_a_negative_headroom():
    verdict = judge(80 * GIB, 82 * GIB, 85 * GIB, 79 * GIB)
    assert (verdict.verdict, verdict.headroom_bytes) == ("oom", -3 * GIB)


def test_headroom_is_kept_free():
    assert judge(70 * GIB, 72 * GIB, 75 * GIB, 80 * GIB, headroom_percent=10).verdict == "tight"


def test_an_unknown_capacity_says_what_is_missing():
    verdict = judge(1, 2, 3, None)
    assert (verdict.verdict, verdict.missing) == ("unknown", ("usable memory of this GPU",))


def test_an_engine_that_refuses_to_start_is_out_of_memory():
    assert judge(1, 2, 3, 10, refused=True).verdict == "oom"


def test_zero_3_states_of_a_7_5b_model_need_two_80_gb_gpus():
    # ZeRO paper, figure 1: 16 bytes x 7.5 B = 120 GB, divided evenly.
    assert gpus_needed(lambda gpus: 120 * 10**9 // gpus, 79 * GIB) == 2


def test_the_search_looks_between_powers_of_two():
    assert gpus_needed(lambda gpus: 100 // gpus, 17) == 6


def test_counts_without_a_legal_layout_are_passed_over():
    assert gpus_needed(lambda gpus: 100 // gpus if gpus in (1, 2, 4, 8) else None, 17) == 8


def test_a_need_that_does_not_shrink_has_no_answer():
    assert gpus_needed(lambda _gpus: 100, 50) is None
    assert gpus_needed(lambda _gpus: 100, None) is None
