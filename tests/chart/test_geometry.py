"""Spreading labels, cutting lines and hatching."""

from itertools import pairwise
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.chart.geometry import Rect, hatching, spread, uncovered


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread((10, 40, 90), 15, 0, 100) == (10, 40, 90)


def test_labels_too_near_move_apart_around_their_mean() -> None:
    assert spread((50, 50), 10, 0, 100) == (45, 55)
    assert spread((10, 48, 50, 52), 10, 0, 100) == (10, 40, 50, 60)


def test_labels_at_the_edge_stay_inside() -> None:
    assert spread((98, 99), 10, 0, 100) == (90, 100)


def test_more_labels_than_fit_are_spaced_evenly() -> None:
    assert spread((1, 2, 3), 80, 0, 100) == (0, 50, 100)


@given(st.lists(st.floats(min_value=0, max_value=300), max_size=12).map(sorted))
def test_spread_keeps_order_distance_and_bounds(wanted: list[float]) -> None:
    placed = spread(wanted, 20, 0, 300)
    assert all(later - earlier >= 20 - 1e-6 for earlier, later in pairwise(placed))
    assert all(-1e-6 <= position <= 300 + 1e-6 for position in placed)


def test_a_line_is_interrupted_where_it_is_covered() -> None:
    assert uncovered(0, 100, [(40, 60), (50, 70), (-5, 10)]) == ((10, 40), (70, 100))
    assert uncovered(0, 100, [(-1, 101)]) == ()
    assert uncovered(0, 100, []) == ((0, 100),)


def test_hatching_of_45_degrees_rises_to_the_right_and_ends_at_the_edges() -> None:
    area = Rect(10, 20, 40, 30)
    lines = hatching(area, 7, 45)
    assert len(lines) == pytest.approx((40 + 30) / 2**0.5 / 7, abs=1)
    for line in lines:
        assert isclose(line.x2 - line.x1, line.y1 - line.y2)
        ends = [(line.x1, line.y1), (line.x2, line.y2)]
        assert all(min(abs(x - 10), abs(x - 50), abs(y - 20), abs(y - 50)) < 1e-6 for x, y in ends)


@given(
    st.floats(min_value=-500, max_value=500),
    st.floats(min_value=0, max_value=300),
    st.floats(min_value=0, max_value=300),
    st.sampled_from([0, 45, 90, 135]),
)
def test_hatching_never_leaves_its_area(x: float, width: float, height: float, degrees: float) -> None:
    area = Rect(x, 5, width, height)
    for line in hatching(area, 6, degrees):
        for at_x, at_y in ((line.x1, line.y1), (line.x2, line.y2)):
            assert area.contains(Rect(at_x, at_y, 0, 0), 1e-6)
