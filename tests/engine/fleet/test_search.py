"""The smallest number of GPUs: against brute force, against known sums, and every promise against its own estimate."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import load_catalog
from planner.engine.case import Case
from planner.engine.estimate import estimate
from planner.engine.fleet import CalledOffError, Layout, scenario_with, search
from planner.engine.fleet.layouts import checkpointing_of, edits_of, sequences_of
from planner.engine.plan import PhaseName
from planner.model import resolve_model
from planner.scenario import Scenario, validate

LLAMA_8B = "meta-llama/Llama-3.1-8B"
SMALL = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 16,
    "num_key_value_heads": 8, "intermediate_size": 5632, "vocab_size": 32000, "max_position_embeddings": 8192,
}  # fmt: skip


def planned(phases: dict[str, Any], model: dict[str, Any] | None = None, **hardware: Any) -> Scenario:
    gpus = {"gpus": ["h100-sxm5-80gb"], **hardware}
    return Scenario.of({"model": model or {"preset": LLAMA_8B}, "phases": phases, "hardware": gpus})


def brute_force(scenario: Scenario, phase: PhaseName, gpu: str, most: int) -> int | None:
    """The smallest number of GPUs of any legal combination of degrees, checkpointing and micro-batch."""
    catalog = load_catalog()
    base = Case.of(scenario_with(Case.of(scenario, phase, catalog, gpu).scenario, gpu, (), most), phase, catalog, gpu)
    for gpus in (count for count in (1, 2, 4, 8) if count <= most):
        for tensor in (1, 2, 4, 8):
            for data in (1, 2, 4, 8):
                if tensor * data != gpus or sequences_of(base.fields) % data:
                    continue
                for stage in (0, 1, 2, 3) if data > 1 else (0,):
                    for kept in checkpointing_of(base.fields):
                        for micro in (1, base.fields.micro_batch_size):
                            if sequences_of(base.fields) // data % micro:
                                continue
                            layout = Layout(tensor=tensor, data=data, zero_stage=stage, checkpointing=kept)
                            case = base.changed(edits_of(base, layout, micro))
                            if not case.says_more_than(base) and case.verdict.verdict == "fits":
                                return gpus
    return None


@pytest.mark.parametrize("gpu", ["rtx-3060-12gb", "rtx-4090", "l40s", "h100-sxm5-80gb"])
@pytest.mark.parametrize(("sequence", "model"), [(1024, {"config": SMALL}), (4096, None)])
def test_brute_force_over_a_small_space_finds_the_same_number(
    gpu: str, sequence: int, model: dict[str, Any] | None
) -> None:
    step = {
        "precision": "amp-bf16",
        "micro_batch_size": 2,
        "gradient_accumulation_steps": 8,
        "sequence_length": sequence,
    }
    scenario = planned({"training": step}, model)
    (answer,) = search(scenario, "training", load_catalog(), [gpu], most=8).values()
    assert (answer.best.gpus if answer.best else None) == brute_force(scenario, "training", gpu, 8)


def test_the_states_of_a_model_set_the_least_number() -> None:
    """405 853 388 800 parameters, of which AdamW in mixed precision holds 16 bytes each: 75.6 H100s full of states."""
    step = {"precision": "amp-bf16", "gradient_accumulation_steps": 128, "activation_profile": "megatron-core"}
    scenario = planned({"training": step}, {"preset": "meta-llama/Llama-3.1-405B"}, gpus_per_node=8)
    (answer,) = search(scenario, "training", load_catalog(), ["h100-sxm5-80gb"]).values()
    assert answer.best is not None
    assert answer.best.gpus >= 80
    assert answer.best.gpus <= 256


def test_layouts_keep_the_sequences_of_an_update() -> None:
    step = {"precision": "amp-bf16", "micro_batch_size": 3, "gradient_accumulation_steps": 8, "sequence_length": 1024}
    scenario = planned({"training": step})
    (answer,) = search(scenario, "training", load_catalog(), ["rtx-4090"], whole_front=True, most=64).values()
    assert answer.front
    for found in answer.front:
        changed = scenario_with(scenario, "rtx-4090", found.edits, found.gpus)
        assert changed.phases.training is not None
        assert sequences_of(changed.phases.training) == 24


def test_every_answer_of_the_front_is_the_estimate_of_its_scenario_and_none_beats_another() -> None:
    catalog = load_catalog()
    scenario = planned({"training": {"precision": "amp-bf16", "gradient_accumulation_steps": 32}})
    (answer,) = search(scenario, "training", catalog, ["l40s"], whole_front=True, most=64).values()
    assert len(answer.front) > 2
    for found in answer.front:
        changed = scenario_with(scenario, "l40s", found.edits, found.gpus)
        phase = estimate(changed, catalog).phases["training"]
        assert phase.verdicts["l40s"].verdict == "fits"
        assert phase.peak.process_bytes == found.process_bytes
        spec = resolve_model(changed.model, catalog.presets)
        assert not [issue for issue in validate(changed, spec, catalog.hardware) if issue.severity == "error"]
    for one in answer.front:
        for other in answer.front:
            better = (
                other.gpus <= one.gpus
                and other.headroom_bytes >= one.headroom_bytes
                and other.layout.recomputation <= one.layout.recomputation
            )
            assert one is other or not better


def test_what_a_gpu_cannot_compute_is_the_reason() -> None:
    scenario = planned({"serving": {"weights": "bf16"}})
    answers = search(scenario, "serving", load_catalog(), ["t4", "h100-sxm5-80gb"])
    assert answers["t4"].best is None
    assert "bf16" in answers["t4"].why
    assert answers["h100-sxm5-80gb"].best is not None


def test_requests_are_divided_among_copies_where_one_does_not_hold_them_all() -> None:
    """A token of Llama 3.1 8B takes 128 KiB of cache, so 512 requests of 8 192 tokens take 512 GiB."""
    scenario = planned({"serving": {"concurrent_sequences": 512, "context_length": 8192}})
    (answer,) = search(scenario, "serving", load_catalog(), ["h100-sxm5-80gb"]).values()
    assert answer.best is not None
    assert answer.best.gpus >= 512 / 79


@settings(max_examples=12, deadline=None)
@given(
    sequence=st.sampled_from([256, 1024, 3000]),
    micro=st.integers(1, 4),
    accumulation=st.sampled_from([1, 4, 6, 16]),
    precision=st.sampled_from(["amp-bf16", "bf16", "fp32"]),
    gpu=st.sampled_from(["rtx-3060-12gb", "rtx-4090", "a100-sxm4-40gb", "mi300x"]),
)
def test_no_answer_is_illegal_and_every_promise_is_kept(
    sequence: int, micro: int, accumulation: int, precision: str, gpu: str
) -> None:
    step = {
        "precision": precision, "micro_batch_size": micro, "gradient_accumulation_steps": accumulation,
        "sequence_length": sequence,
    }  # fmt: skip
    catalog = load_catalog()
    scenario = planned({"training": step}, {"config": SMALL})
    (answer,) = search(scenario, "training", catalog, [gpu], most=32).values()
    assert (answer.best is None) == bool(answer.why)
    if answer.best is not None:
        changed = scenario_with(scenario, gpu, answer.best.edits, answer.best.gpus)
        phase = estimate(changed, catalog).phases["training"]
        assert phase.verdicts[gpu].verdict == "fits"
        assert phase.peak.process_bytes == answer.best.process_bytes


def test_a_search_can_be_called_off() -> None:
    scenario = planned({"training": {}})
    with pytest.raises(CalledOffError):
        search(scenario, "training", load_catalog(), ["l40s"], proceed=lambda done, _of: done < 2)


def test_each_gpu_gets_the_largest_micro_batch_that_it_holds() -> None:
    """A layout that fits a large GPU with the planned micro-batch is tried with smaller ones on smaller GPUs."""
    step = {"precision": "bf16", "micro_batch_size": 16, "gradient_accumulation_steps": 1, "sequence_length": 1024}
    scenario = planned({"training": step}, {"config": SMALL})
    together = search(scenario, "training", load_catalog(), ["rtx-3060-12gb", "h200-sxm-141gb"], most=1)
    (alone,) = search(scenario, "training", load_catalog(), ["rtx-3060-12gb"], most=1).values()
    assert together["rtx-3060-12gb"] == alone
    small, large = (dict(together[gpu].best.edits) for gpu in ("rtx-3060-12gb", "h200-sxm-141gb"))
    size = ("phases", "training", "micro_batch_size")
    assert large[size] == 16
    assert 1 <= small[size] < 16


def test_three_gpus_are_an_answer_where_two_are_too_few() -> None:
    """128 requests of 8 192 tokens take 128 GiB of cache: with weights too much for two A100s, but not for three."""
    scenario = planned({"serving": {"concurrent_sequences": 128, "context_length": 8192}})
    (answer,) = search(scenario, "serving", load_catalog(), ["a100-sxm4-80gb"]).values()
    assert answer.best is not None
    assert (answer.best.gpus, answer.best.layout.data) == (3, 3)


def test_models_whose_layers_do_not_divide_are_cut_into_uneven_stages() -> None:
    config = {**SMALL, "num_hidden_layers": 61}
    step = {"activation_profile": "megatron-core", "precision": "bf16-fp32-master", "gradient_accumulation_steps": 64}
    scenario = planned({"training": {**step, "sequence_length": 1024}}, {"config": config})
    (answer,) = search(scenario, "training", load_catalog(), ["rtx-3060-12gb"], whole_front=True, most=64).values()
    assert {found.layout.pipeline for found in answer.front} - {1, 61}


def test_what_a_card_of_the_plan_reported_is_not_taken_for_another() -> None:
    step = {"precision": "amp-bf16", "gradient_accumulation_steps": 8, "sequence_length": 1024}
    told = planned({"training": step}, {"config": SMALL}, gpu_total_bytes=80 << 30)
    untold = planned({"training": step}, {"config": SMALL})
    (one,) = search(told, "training", load_catalog(), ["rtx-3060-12gb"]).values()
    (other,) = search(untold, "training", load_catalog(), ["rtx-3060-12gb"]).values()
    assert one.best == other.best


def test_fields_that_lapse_with_a_layout_are_taken_back() -> None:
    """`gradient_as_bucket_view` is DDP's: sharded states do without it, and the layout is no worse for that."""
    layout = {"data": 4, "gradient_as_bucket_view": True}
    step = {"precision": "amp-bf16", "gradient_accumulation_steps": 8, "sequence_length": 2048, "parallelism": layout}
    scenario = planned({"training": step})
    found = search(scenario, "training", load_catalog(), ["a100-sxm4-40gb"], most=16, whole_front=True)
    divided = [one for one in found["a100-sxm4-40gb"].front if one.layout.zero_stage == 3]
    assert divided
    assert (("phases", "training", "parallelism", "gradient_as_bucket_view"), None) in divided[0].edits
