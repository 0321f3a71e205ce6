"""Text that is really tokenized by the datasets and tokenizers libraries."""

import pytest

from planner.engine.host import amounts
from planner.engine.phases.preprocessing import plan_preprocessing
from planner.engine.plan import by_name
from planner.scenario.preprocessing import Preprocessing

TOKENS = 500
STEPS = (
    "texts being tokenized",
    "tokenizer's encodings",
    "tokens in Python lists",
    "tokens of the step before",
    "Arrow writers",
)


def planned(measured: dict[str, int], step: int):
    return plan_preprocessing(
        Preprocessing(
            samples=measured["rows"],
            bytes_per_raw_sample=measured["raw_bytes"] // measured["rows"],
            tokens_per_sample=TOKENS,
            map_batch_samples=step,
            workers=0,
        )
    )


@pytest.mark.parametrize(("rows", "step"), [(4000, 4000), (12_000, 4000)])
def test_tokenizing_takes_the_ram_and_the_disk_that_are_planned(probe, rows, step):
    """One step; and several, where the tokens of the step before are still there."""
    measured = probe("text", rows, step)
    plan = planned(measured, step)
    disk, ram = by_name(plan.storage_terms), by_name(plan.host_terms)
    assert disk["raw data"] == measured["raw_bytes"]
    assert disk["converted copy of the raw data"] == pytest.approx(measured["converted_bytes"], rel=0.01)
    assert disk["tokenized data"] == pytest.approx(measured["tokenized_bytes"], rel=0.01)
    assert sum(ram.get(name, 0) for name in STEPS) == pytest.approx(measured["map_bytes"], rel=0.1)


def test_values_and_tokens_take_what_is_planned_as_objects(probe):
    for name, size in probe("objects").items():
        assert amounts()[name].value == pytest.approx(size, rel=0.1), name
