"""Advice: every suggestion is legal, and what it promises is what a fresh estimate finds."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.catalog import load_catalog
from planner.engine.advisor import LEVELS, Advice, Suggestion, advise, changes_for
from planner.engine.advisor.change import records
from planner.engine.case import Case
from planner.engine.estimate import estimate
from planner.engine.plan import PhaseName
from planner.errors import PlannerError
from planner.model import resolve_model
from planner.scenario import Scenario, declaration_at, edited, validate

CATALOG = load_catalog()
LLAMA = {"preset": "meta-llama/Llama-3.1-8B"}
BOUNDED = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def scenario(phase: str, fields: dict[str, Any], model: dict[str, Any] = LLAMA, **hardware: Any) -> Scenario:
    return Scenario.of({"model": model, "phases": {phase: fields}, "hardware": {"gpus_per_node": 1, **hardware}})


def applied(asked: Scenario, suggestion: Suggestion) -> Scenario:
    for path, value in suggestion.edits:
        asked = asked.with_value(path, value)
    return asked


def assert_kept(asked: Scenario, advice: Advice) -> None:
    """Each suggestion, applied to the scenario as a person would, is legal and needs what it says."""
    before = {
        (issue.code, issue.path)
        for issue in validate(asked, resolve_model(asked.model, CATALOG.presets), CATALOG.hardware)
    }
    smallest = advice.purchase.smallest if advice.purchase else None
    for suggestion in (*advice.suggestions, *advice.nearly, *([smallest] if smallest else [])):
        changed = Scenario.of(applied(asked, suggestion).to_document())
        issues = validate(changed, resolve_model(changed.model, CATALOG.presets), CATALOG.hardware)
        assert {(issue.code, issue.path) for issue in issues} <= before, suggestion.title
        plan = estimate(changed, CATALOG).phases[advice.phase]
        assert plan.peak.process_bytes == suggestion.after.process_bytes
        verdict = plan.verdicts[advice.gpu]
        assert (verdict.verdict, verdict.headroom_bytes) == (
            suggestion.after.verdict.verdict, suggestion.after.verdict.headroom_bytes
        )  # fmt: skip
        by_hand = asked
        for path, value in suggestion.edits:
            by_hand = edited(by_hand, path, value)
        assert estimate(by_hand, CATALOG).phases[advice.phase].peak == plan.peak
    assert all(suggestion.after.verdict.verdict == "fits" for suggestion in advice.suggestions)
    ranks = [LEVELS.index(suggestion.level) for suggestion in advice.suggestions]
    assert ranks == sorted(ranks)


def titles(advice: Advice) -> list[str]:
    return [suggestion.title for suggestion in advice.suggestions]


def test_a_step_that_writes_the_attention_matrix_is_first_told_not_to() -> None:
    step = {"precision": "bf16", "optimizer": "sgd", "attention_implementation": "eager", "sequence_length": 5120}
    asked = scenario("training", step, gpus=["h100-sxm5-80gb"])
    advice = advise(asked, "training", CATALOG)
    assert advice.before.verdict.verdict == "oom"
    assert titles(advice)[0] == "SDPA attention"
    assert advice.suggestions[0].level == "unchanged"
    assert_kept(asked, advice)


def test_replicas_of_the_states_are_divided_before_anything_is_computed_twice() -> None:
    step = {"precision": "bf16", "parallelism": {"data": 8}, "sequence_length": 2048}
    asked = scenario("training", step, gpus=["l40s"], gpus_per_node=8)
    advice = advise(asked, "training", CATALOG)
    assert advice.suggestions[0].level == "unchanged"
    assert {"layout"} <= {change.group for change in advice.suggestions[0].changes}
    assert advice.suggestions[0].after.gpus == 8
    assert_kept(asked, advice)


def test_smaller_micro_batches_keep_the_batch_of_an_update() -> None:
    step = {"method": "lora", "micro_batch_size": 8, "gradient_accumulation_steps": 2, "sequence_length": 2048}
    asked = scenario("fine_tuning", step, gpus=["l40s"])
    advice = advise(asked, "fine_tuning", CATALOG)
    found = [applied(asked, suggestion).phases.fine_tuning for suggestion in advice.suggestions]
    assert found
    for tuning in found:
        assert tuning is not None
        layout = tuning.parallelism
        assert tuning.micro_batch_size * tuning.gradient_accumulation_steps * layout.data == 16
    assert any(tuning is not None and tuning.micro_batch_size < 8 for tuning in found)
    assert_kept(asked, advice)


def test_fewer_requests_and_shorter_contexts_are_the_last_resort_of_serving() -> None:
    asked = scenario("serving", {"concurrent_sequences": 64, "context_length": 8192}, gpus=["l40s"])
    advice = advise(asked, "serving", CATALOG)
    assert [suggestion.level for suggestion in advice.suggestions][-2:] == ["capability", "capability"]
    assert "KV cache in fp8 + Weights in 4 bits (AWQ)" in titles(advice)
    assert_kept(asked, advice)


def test_llama_cpp_leaves_layers_to_the_cpu_and_weights_as_fine_as_fit() -> None:
    serving = {"engine": "llama.cpp", "weights": "q8_0", "kv_cache_dtype": "fp16", "context_length": 32768}
    asked = scenario("serving", serving, gpus=["rtx-3060-12gb"])
    advice = advise(asked, "serving", CATALOG)
    assert any("layers on the GPU" in title for title in titles(advice))
    weights = [title for title in titles(advice) if title.startswith("Weights in")]
    assert weights == ["Weights in Q6_K"]
    assert_kept(asked, advice)


def test_where_nothing_fits_the_smallest_need_and_the_gpu_for_it_are_named() -> None:
    asked = scenario("training", {"precision": "bf16"}, {"preset": "meta-llama/Llama-3.1-70B"}, gpus=["rtx-4090"])
    advice = advise(asked, "training", CATALOG)
    assert advice.suggestions == ()
    assert advice.nearly
    assert advice.purchase is not None
    assert advice.purchase.smallest is not None
    assert advice.purchase.smallest.after.high_bytes < advice.before.high_bytes
    for gpu, edits in (
        (advice.purchase.as_it_is, ()),
        (advice.purchase.with_smallest, advice.purchase.smallest.edits),
    ):
        if gpu is not None:
            bought = Case.of(asked, "training", CATALOG, gpu).changed(edits)
            assert bought.verdict.verdict == "fits"
    assert_kept(asked, advice)


def test_nothing_is_tried_where_a_phase_fits() -> None:
    advice = advise(scenario("evaluation", {}, gpus=["h100-sxm5-80gb"]), "evaluation", CATALOG)
    assert (advice.suggestions, advice.tried, advice.before.verdict.verdict) == ((), 0, "fits")


def test_bf16_is_not_advised_on_turing_nor_fp8_on_ampere() -> None:
    step = {"precision": "fp32", "optimizer": "adamw", "micro_batch_size": 4, "sequence_length": 1024}
    small = {"preset": "openai-community/gpt2-large"}
    asked = scenario("training", step, small, gpus=["t4"])
    advice = advise(asked, "training", CATALOG)
    assert not any("bf16" in str(value) for item in advice.suggestions for _, value in item.edits)
    served = scenario("serving", {"concurrent_sequences": 16}, gpus=["rtx-3090"])
    advice = advise(served, "serving", CATALOG)
    assert not any(
        path[-1] == "weights" and value == "fp8" for item in advice.suggestions for path, value in item.edits
    )


def test_offloading_is_not_advised_where_the_server_has_no_ram_for_it() -> None:
    step = {"precision": "bf16", "activation_checkpointing": "full"}
    offers = []
    for ram in (2 * 2**40, 24 * 2**30):
        asked = scenario("training", step, gpus=["l40s"], host_ram_bytes=ram)
        found = advise(asked, "training", CATALOG).suggestions
        offers.append(any(change.group == "offload-optimizer" for item in found for change in item.changes))
    assert offers == [True, False]


def test_progress_is_told_and_the_search_is_bounded() -> None:
    heard: list[tuple[int, int]] = []
    asked = scenario("evaluation", {"batch_size": 64, "sequence_length": 4096, "precision": "fp32"}, gpus=["l40s"])
    advice = advise(asked, "evaluation", CATALOG, tell=lambda done, most: heard.append((done, most)))
    assert advice.tried > 5
    assert [done for done, _ in heard] == list(range(1, advice.tried + 1))
    assert all(done <= most + 10 for done, most in heard)


def test_experts_are_spread_over_the_gpus_of_a_layout() -> None:
    step = {"precision": "bf16", "parallelism": {"data": 8}, "activation_checkpointing": "full"}
    mixture = {"preset": "Qwen/Qwen3-30B-A3B"}
    case = Case.of(scenario("training", step, mixture, gpus=["h200-sxm-141gb"], gpus_per_node=8), "training", CATALOG)
    degrees = [change.edits[0][1] for change in changes_for(case) if change.group == "experts"]
    assert degrees == [2, 4, 8]
    legal = [degree for degree in degrees if not case.changed([(case.path("parallelism", "expert"), degree)]).errors]
    assert legal == [2, 4, 8]


def test_a_plan_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(PlannerError, match="contradicts"):
        advise(scenario("training", {"parallelism": {"tensor": 3}}, gpus=["l40s"]), "training", CATALOG)


def test_every_recorded_change_names_fields_that_exist_and_where_it_comes_from() -> None:
    assert len({record.id for record in records()}) == len(records())
    for record in records():
        assert record.source
        assert record.costs.endswith(".")
        for phase in record.phases:
            for path in (*record.edits, *record.when):
                found = declaration_at(("phases", phase, *path.split(".")))
                assert found is not None, (record.id, path)
                chosen = [record.edits[path]] if path in record.edits else list(record.when[path])
                if found.choices:
                    known = {value for value, _ in found.choices} | {None}
                    assert set(chosen) <= known, (record.id, path)


def test_changes_are_offered_least_disturbing_first() -> None:
    case = Case.of(scenario("training", {}, gpus=["l40s"], gpus_per_node=8), "training", CATALOG)
    levels = [LEVELS.index(change.level) for change in changes_for(case)]
    assert all(first <= second for first, second in pairwise(levels))


@st.composite
def small_models(draw: st.DrawFn) -> dict[str, Any]:
    kv_heads = draw(st.sampled_from([1, 2, 3, 4]))
    heads = kv_heads * draw(st.sampled_from([1, 2, 3]))
    return {
        "layers": draw(st.integers(4, 40)), "hidden_size": heads * 128, "attention_heads": heads,
        "kv_heads": kv_heads, "head_dim": 128, "ffn_hidden_size": 64 * draw(st.integers(8, 90)),
        "vocab_size": 128 * draw(st.integers(10, 1000)),
    }  # fmt: skip


PHASES = st.sampled_from(
    [
        ("training", {"precision": "amp-bf16", "micro_batch_size": 6, "parallelism": {"data": 2}}),
        ("training", {"precision": "fp32", "activation_profile": "megatron-core", "gradient_accumulation_steps": 8}),
        ("training", {"precision": "fp16-fp32-master", "optimizer": "adamw_8bit", "attention_implementation": "eager"}),
        ("fine_tuning", {"method": "full", "optimizer_implementation": "for-loop", "gradient_clipping": True}),
        ("fine_tuning", {"method": "dora", "lora": {"dropout": 0.1}, "micro_batch_size": 4}),
        ("evaluation", {"batch_size": 64, "precision": "fp32"}),
        ("serving", {"concurrent_sequences": 200, "context_length": 4096}),
        ("serving", {"engine": "transformers", "concurrent_sequences": 40, "context_length": 2048}),
    ]
)


@BOUNDED
@given(small_models(), PHASES, st.sampled_from(["t4", "rtx-3090", "l40s", "v100-sxm2-16gb", "mi250x"]), st.booleans())
def test_no_suggestion_is_illegal_and_every_promise_is_kept(
    model: dict[str, Any], planned: tuple[PhaseName, dict[str, Any]], gpu: str, alone: bool
) -> None:
    phase, fields = planned
    per_node = 2 if "parallelism" in fields else 1 if alone else 8
    asked = scenario(phase, fields, {"dimensions": model}, gpus=[gpu], gpus_per_node=per_node)
    if not Case.of(asked, phase, CATALOG).errors:
        assert_kept(asked, advise(asked, phase, CATALOG))


def test_experts_that_are_dealt_to_tensor_parallel_ranks_are_not_divided_again() -> None:
    mixture = {"preset": "Qwen/Qwen3-30B-A3B"}
    asked = scenario("serving", {"context_length": 4096}, mixture, gpus=["rtx-4090"], gpus_per_node=8)
    advice = advise(asked, "serving", CATALOG)
    whole = 2 * 30_532_122_624  # the published parameters in 16 bits
    for suggestion in advice.suggestions:
        changed = applied(asked, suggestion)
        serving = changed.phases.serving
        assert serving is not None
        if serving.weights in ("bf16", "fp16"):
            held = estimate(changed, CATALOG).phases["serving"].components["weights"]
            assert held * serving.parallelism.ranks >= whole
    assert_kept(asked, advice)


def test_smaller_micro_batches_disturb_the_results_of_batch_norms() -> None:
    levels = {}
    for preset in ("microsoft/resnet-50", "google/vit-base-patch16-224"):
        asked = scenario("training", {"micro_batch_size": 2048}, {"preset": preset}, gpus=["t4"])
        found = [item for item in changes_for(Case.of(asked, "training", CATALOG)) if item.group == "micro-batch"]
        levels[preset] = {item.level for item in found}
        assert len(found) >= 4
    assert levels == {"microsoft/resnet-50": {"numerics"}, "google/vit-base-patch16-224": {"speed"}}


def test_of_changes_that_disturb_alike_the_faster_one_goes_first() -> None:
    """Halves of a micro-batch take no longer, layers that run again do, and a busy link to the host takes longest."""
    step = {
        "precision": "bf16",
        "micro_batch_size": 8,
        "sequence_length": 4096,
        "activation_checkpointing": "selective",
    }
    asked = scenario("training", step, gpus=["h200-sxm-141gb"], gpus_per_node=1)
    advice = advise(asked, "training", CATALOG)
    alike = [item for item in advice.suggestions if item.level == "speed" and len(item.changes) == 1]
    paces = [item.after.speed.order for item in alike if item.after.speed is not None]
    assert len(paces) == len(alike) >= 2
    assert all(first[0] <= second[0] * 1.005 for first, second in pairwise(paces))
    assert_kept(asked, advice)
