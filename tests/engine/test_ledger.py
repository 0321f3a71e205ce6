"""A ledger is settled at the fullest instant of each moment, and its arrays agree with its numbers."""

import numpy as np

from planner.engine.ledger import Ledger
from planner.engine.term import term

MOMENTS = {"load": ("load",), "run": ("first", "second")}


def ledger(batch: object) -> Ledger:
    return Ledger(
        MOMENTS,
        (
            term("weights", "weights", ("load", "first", "second"), "a source", parameters=100, bytes=2),
            term("activations", "wide", ("first",), "a source", batch=batch, width=30),
            term("temporaries", "tall", ("second",), "a source", batch=batch, height=10),
            term("kv_cache", "cache", ("second",), "a source", tokens=50),
            term("overhead", "context", ("load", "first", "second"), "a source", bytes=1000),
        ),
    )


def test_terms_of_different_instants_are_never_added_up() -> None:
    moments, _ = ledger(2).settle()
    # first: 200 + 60; second: 200 + 20 + 50
    assert moments["run"].instant == "second"
    assert moments["run"].allocated_bytes == 270


def test_the_winner_of_a_moment_changes_with_the_workload() -> None:
    moments, _ = ledger(3).settle()
    # first: 200 + 90; second: 200 + 30 + 50
    assert moments["run"].instant == "first"
    assert moments["run"].components["kv_cache"] == 0


def test_overhead_is_told_among_the_terms_but_is_not_allocated() -> None:
    moments, tell = ledger(2).settle()
    assert moments["load"].allocated_bytes == 200
    assert {item.name: item.alive for item in tell()}["context"] == ("load", "run")


def test_a_term_alive_only_at_a_losing_instant_is_left_out() -> None:
    _, tell = ledger(2).settle()
    assert "wide" not in {item.name for item in tell()}


def test_arrays_give_the_numbers_of_each_point() -> None:
    batches = np.arange(1, 6)
    expected = [ledger(int(batch)).peak_bytes() for batch in batches]
    assert ledger(batches).peak_bytes().tolist() == expected
