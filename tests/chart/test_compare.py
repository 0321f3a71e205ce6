"""Plans side by side: what moved, to the byte, and which fields differ."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import load_catalog
from planner.chart.compare import Compared, compare_chart, moved
from planner.engine.estimate import estimate
from planner.engine.plan import Plan
from planner.report.differences import differences
from planner.scenario import Scenario

CATALOG = load_catalog()
STEP = ("phases", "training")
GIB = 1024**3


def planned(**step: Any) -> tuple[Scenario, Plan]:
    chosen = {"precision": "bf16", "sequence_length": 512, **step}
    scenario = Scenario.of({"model": {"preset": "meta-llama/Llama-3.1-8B"}, "phases": {"training": chosen}})
    return scenario, estimate(scenario, CATALOG)


def chart(*compared: Compared):
    gpu = CATALOG.hardware.resolve("h100-sxm5-80gb")
    return compare_chart(compared, "training", gpus=[gpu], judge=gpu.id)


def test_what_an_optimizer_saves_is_told_against_the_first_plan():
    """SGD without momentum keeps nothing where AdamW keeps two numbers of 2 bytes for each of 8 030 261 248 weights."""
    _, adam = planned(optimizer="adamw")
    _, sgd = planned(optimizer="sgd")
    assert moved(adam.phases["training"], sgd.phases["training"])["optimizer_states"] == pytest.approx(
        -4 * 8030261248, rel=1e-6
    )
    found = chart(Compared("Adam", adam), Compared("SGD", sgd))
    assert found.title == "Training: 2 plans compared"
    assert found.subtitle.startswith("“SGD” against “Adam”: optimizer states −29.9 GiB")
    assert [bar.name for bar in found.bars] == ["Adam", "SGD"]
    assert [bar.key for bar in found.bars] == ["0", "1"]
    assert found.bars[0].caption == ""
    assert found.bars[1].caption.startswith("−")


def test_equal_plans_are_said_to_be_equal():
    _, plan = planned()
    found = chart(Compared("one", plan), Compared("two", plan))
    assert found.subtitle == "“two” needs the same as “one”"
    assert found.bars[1].caption == "±0 GiB"


def test_plans_without_the_phase_are_left_out():
    scenario, plan = planned()
    none = estimate(scenario.with_value(("phases",), {"evaluation": {}}), CATALOG)
    assert [bar.name for bar in chart(Compared("none", none), Compared("one", plan)).bars] == ["one"]
    assert chart(Compared("none", none)) is None


@settings(max_examples=25, deadline=None)
@given(
    micro=st.integers(1, 8),
    optimizer=st.sampled_from(["adamw", "sgd", "adamw_8bit", "lion"]),
    kept=st.sampled_from(["none", "full"]),
    stage=st.integers(0, 3),
)
def test_what_moved_sums_to_the_difference_of_the_totals(micro: int, optimizer: str, kept: str, stage: int):
    _, one = planned()
    layout = {"data": 4, "zero_stage": stage}
    _, two = planned(micro_batch_size=micro, optimizer=optimizer, activation_checkpointing=kept, parallelism=layout)
    before, after = one.phases["training"], two.phases["training"]
    assert sum(moved(before, after).values()) == after.peak.process_bytes - before.peak.process_bytes


def test_changed_fields_are_listed_with_all_their_values():
    one, _ = planned()
    two, _ = planned(optimizer="adamw_8bit", micro_batch_size=4)
    found = {item.label: item.values for item in differences([one, two, one], "training")}
    assert found == {
        "Optimizer": ("AdamW", "AdamW, 8 bit (bitsandbytes)", "AdamW"),
        "Micro-batch per GPU": ("1 sequences", "4 sequences", "1 sequences"),
    }


def test_other_phases_and_hardware_do_not_matter_but_the_model_does():
    one, _ = planned()
    two = one.with_value(("hardware", "gpus"), ("t4",)).with_value(("phases", "evaluation"), {})
    assert differences([one, two], "training") == ()
    (other,) = differences([one, one.with_value(("model", "preset"), "Qwen/Qwen3-0.6B")], "training")
    assert other.values == ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-0.6B")
