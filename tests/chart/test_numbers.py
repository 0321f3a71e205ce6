"""Digits and ticks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.chart.numbers import axis_ticks, size_text
from planner.units import GB, GIB, MIB, SizeUnit


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0"),
        (1, "<0.001"),
        (2 * MIB, "0.002"),
        (35 * MIB, "0.034"),
        (102 * MIB, "0.1"),
        (round(14.74 * GIB), "14.7"),
        (round(999.96 * GIB), "1\u202f000"),
        (10 * 1024 * GIB, "10\u202f240"),
        (-5 * GIB, "−5.0"),
    ],
)
def test_a_size_has_as_many_digits_as_tell_something(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes, "GiB") == text


def test_the_two_units_are_not_the_same() -> None:
    assert size_text(80 * GB, "GB") == "80.0"
    assert size_text(80 * GB, "GiB") == "74.5"


def test_steps_of_two_and_a_half_show_their_half() -> None:
    assert [tick.label for tick in axis_ticks(12 * GIB, "GiB")] == ["0.0", "2.5", "5.0", "7.5", "10.0"]


@given(st.floats(min_value=10, max_value=1e22), st.sampled_from(["GiB", "GB"]))
def test_ticks_are_few_round_and_never_beyond_the_axis(largest: float, unit: SizeUnit) -> None:
    ticks = axis_ticks(largest, unit)
    assert 3 <= len(ticks) <= 7
    assert ticks[0].value_bytes == 0
    assert ticks[-1].value_bytes <= largest * 1.000001 + 1
    assert len({tick.label for tick in ticks}) == len(ticks)
