"""What a layout needs at least is never more than its estimate, whatever software divides the states."""

import pytest

from planner.catalog import load_catalog
from planner.engine.case import Case
from planner.engine.fleet.bounds import States
from planner.engine.fleet.layouts import Layout, edits_of, layouts_of
from planner.errors import ScenarioError
from planner.scenario import Scenario

SMALL = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 16,
    "num_key_value_heads": 8, "intermediate_size": 5632, "vocab_size": 32000, "max_position_embeddings": 8192,
}  # fmt: skip
PARAMETERS = 508_594_176
"""8 layers of 2 (2048 x 2048) + 2 (2048 x 1024) + 3 (2048 x 5632) and two norms, one more norm, 2 tables of 32 000."""


def case_of(step: dict[str, object]) -> Case:
    scenario = Scenario.of(
        {
            "model": {"config": SMALL},
            "phases": {"training": {"sequence_length": 128, "gradient_accumulation_steps": 16, **step}},
            "hardware": {"gpus": ["h100-sxm5-80gb"], "nodes": 8},
        }
    )
    return Case.of(scenario, "training", load_catalog())


@pytest.mark.parametrize(
    ("profile", "precision", "backend"),
    [
        ("hf-transformers", "amp-bf16", None),
        ("hf-transformers", "amp-bf16", "fsdp2"),
        ("hf-transformers", "bf16", "deepspeed"),
        ("hf-transformers", "fp32", None),
        ("megatron-core", "bf16-fp32-master", None),
        ("torchtitan", "bf16-fp32-master", "fsdp2"),
    ],
)
def test_no_layout_that_is_left_out_would_have_held_less(profile: str, precision: str, backend: str | None) -> None:
    layout = {"data": 4, "zero_stage": 3 if backend else 0, "sharding_backend": backend}
    case = case_of({"activation_profile": profile, "precision": precision, "parallelism": layout})
    states = States(case)
    for gpus in (2, 8):
        for found in layouts_of(case, gpus):
            try:
                changed = case.changed(edits_of(case, found))
            except ScenarioError:
                continue
            if not changed.errors:
                assert states.least(found) <= changed.plan.peak.allocated_bytes, found.text


def test_mixed_precision_under_adamw_holds_18_bytes_of_each_parameter_of_which_ranks_divide_12() -> None:
    """Megatron Core: 2 of the weight, 4 of the gradient, 4 of the master weight and 8 of AdamW, ZeRO-1 divides 12."""
    case = case_of({"activation_profile": "megatron-core", "precision": "bf16-fp32-master"})
    states = States(case)
    assert states.least(Layout(zero_stage=0)) == pytest.approx(18 * PARAMETERS, rel=1e-6)
    assert states.least(Layout(data=4, zero_stage=1)) == pytest.approx(9 * PARAMETERS, rel=1e-6)
    assert states.least(Layout(tensor=4, data=4, zero_stage=1)) == pytest.approx(9 * PARAMETERS / 4, rel=1e-6)
