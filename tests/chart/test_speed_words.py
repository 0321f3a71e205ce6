"""Rough speeds in words."""

import pytest

from planner.catalog import load_catalog
from planner.chart.speed_words import by_pass, formula_text, seconds_text, speed_line
from planner.engine.plan import PhaseName
from planner.engine.speed import Speed, rough_speed
from planner.scenario import Scenario

CATALOG = load_catalog()


def speed(phase: PhaseName, gpu: str = "h100-sxm5-80gb", **hardware: object) -> Speed:
    document = {
        "model": {"preset": "meta-llama/Llama-3.1-8B"}, "phases": {phase: {}}, "hardware": {"gpus": [gpu], **hardware},
    }  # fmt: skip
    found = rough_speed(Scenario.of(document), phase, CATALOG)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0000012, "1.2 µs"), (0.0623, "62.3 ms"), (5.61, "5.61 s"), (5400, "5,400 s"), (7201, "2.0 h"),
        (54 * 86400, "54.0 days"),
    ],
)  # fmt: skip
def test_durations_are_told_in_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_a_line_names_the_bound_the_rates_and_what_they_cost() -> None:
    line = speed_line(speed("serving", price_per_gpu_hour=2.0, currency="EUR"))
    assert line.startswith("Serving: 4.8 ms per token of every request, bound by memory bandwidth; time to first token")
    assert line.endswith("EUR")
    assert "per million output tokens" in line
    assert "EUR" not in speed_line(speed("serving"))


def test_nothing_is_told_of_a_part_of_a_gpu() -> None:
    assert speed_line(speed("training", "a100-sxm4-80gb/3g.40gb")) == "Training: not known"


def test_a_formula_is_the_product_behind_the_time() -> None:
    found = speed("evaluation")
    name, work = next((name, work) for name, work in by_pass(found) if work.name == "reading weights")
    assert (name, formula_text(work)) == ("forward", "bytes of weights 1.501e+10 / 3.35e+12 per s")
