"""What a GPU costs for an hour: no price is built in."""

from planner.gui.gpu_entries import count_of, with_count
from planner.scenario import Scenario
from planner.scenario.hardware import CustomGpu, Hardware

MODEL = {"preset": "meta-llama/Llama-3.1-8B"}


def hardware(**fields: object) -> Hardware:
    return Scenario.of({"model": MODEL, "phases": {}, "hardware": fields}).hardware


def test_no_price_is_built_in() -> None:
    assert hardware().price is None


def test_the_price_of_an_entry_goes_before_that_of_the_judge() -> None:
    entries = ["l40s", {"id": "a10", "price_per_gpu_hour": 0.9}]
    assert hardware(gpus=entries, price_per_gpu_hour=2.5).price == 2.5
    assert hardware(gpus=entries, price_per_gpu_hour=2.5, judge="a10").price == 0.9
    assert hardware(gpus=entries).price is None


def test_a_free_gpu_has_a_price_of_nothing() -> None:
    assert hardware(gpus=[{"id": "a10", "price_per_gpu_hour": 0}], price_per_gpu_hour=2.5).price == 0


def test_a_price_does_not_say_how_many_there_are() -> None:
    priced = CustomGpu(id="a10", price_per_gpu_hour=0.9)
    assert count_of(priced) is None
    assert hardware(gpus=[priced.model_dump(exclude_unset=True)], gpus_per_node=4, nodes=2).available_gpus == 8
    assert with_count(with_count(priced, 3), None) == priced


def test_prices_are_kept_when_a_scenario_is_written() -> None:
    stated = {"gpus": [{"id": "a10", "price_per_gpu_hour": 0.9}], "price_per_gpu_hour": 2.5, "currency": "EUR"}
    asked = Scenario.of({"model": MODEL, "phases": {"training": {"run_tokens": 10**12}}, "hardware": stated})
    written = asked.to_document()
    assert written["hardware"] == stated
    assert written["phases"]["training"]["run_tokens"] == 10**12
    assert Scenario.of(written) == asked
