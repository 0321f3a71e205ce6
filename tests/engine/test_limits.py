"""The largest sizes that fit: exact, for every phase, with windows and layouts in between."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planner.catalog import load_catalog
from planner.engine.case import Case
from planner.engine.limits import largest_fitting, limit, limits
from planner.engine.plan import PhaseName
from planner.engine.sweep import REFUSED, VERDICTS, Axis, sweep
from planner.engine.switches import AXES
from planner.errors import PlannerError
from planner.scenario import Scenario

CATALOG = load_catalog()
LLAMA = {"preset": "meta-llama/Llama-3.1-8B"}
TINY = {
    "layers": 2, "hidden_size": 128, "attention_heads": 4, "kv_heads": 2, "head_dim": 32, "ffn_hidden_size": 256,
    "vocab_size": 512,
}  # fmt: skip


def scenario(model: dict[str, Any], phase: str, fields: dict[str, Any], gpu: Any = "h100-sxm5-80gb") -> Scenario:
    return Scenario.of({"model": model, "phases": {phase: fields}, "hardware": {"gpus": [gpu]}})


def small_card(gib: float) -> dict[str, Any]:
    return {"name": "small card", "memory_gib": gib}


def verdict(asked: Scenario, phase: PhaseName, field: str, value: int) -> str:
    return Case.of(asked.with_value(("phases", phase, field), value), phase, CATALOG).verdict.verdict


PLANNED: list[tuple[PhaseName, dict[str, Any], str]] = [
    ("design", {"precision": "bf16"}, "h100-sxm5-80gb"),
    ("training", {"precision": "bf16", "optimizer": "sgd", "activation_checkpointing": "full"}, "h100-sxm5-80gb"),
    ("fine_tuning", {"method": "qlora", "activation_checkpointing": "full"}, "l40s"),
    ("evaluation", {"precision": "bf16", "batch_size": 2}, "a100-sxm4-40gb"),
    ("serving", {"engine": "vllm", "concurrent_sequences": 4}, "l40s"),
    ("serving", {"engine": "llama.cpp", "weights": "q4_k_m", "kv_cache_dtype": "fp16"}, "rtx-3090"),
]


@pytest.mark.parametrize(("phase", "fields", "gpu"), PLANNED, ids=lambda value: str(value)[:24])
def test_the_largest_size_fits_and_the_next_does_not(phase: PhaseName, fields: dict[str, Any], gpu: str) -> None:
    asked = scenario(LLAMA, phase, fields, gpu)
    for found in limits(asked, phase, CATALOG):
        assert found.largest is not None
        assert verdict(asked, phase, found.field, found.largest) == "fits"
        if found.bound == "memory":
            assert found.next_value == found.largest + 1
            assert verdict(asked, phase, found.field, found.next_value) != "fits"


def test_every_phase_has_sizes_to_look_for() -> None:
    assert set(AXES) == {"design", "preprocessing", "training", "fine_tuning", "evaluation", "serving"}


def test_a_phase_that_never_fits_has_no_largest_size() -> None:
    asked = scenario(LLAMA, "training", {"precision": "fp32"}, "l40s")
    found = limit(asked, "training", "micro_batch_size", CATALOG)
    assert (found.largest, found.bound, found.next_value) == (None, "memory", 1)


def test_a_table_of_positions_ends_the_search_by_its_rule() -> None:
    asked = scenario({"preset": "openai-community/gpt2"}, "training", {"precision": "bf16"})
    found = limit(asked, "training", "sequence_length", CATALOG)
    assert (found.largest, found.bound) == (1024, "rule")
    assert found.refused is not None
    assert found.refused.code == "beyond_positions"


def test_vllm_refuses_contexts_above_the_models_positions() -> None:
    asked = scenario(LLAMA, "serving", {"engine": "vllm"}, "h200-sxm-141gb")
    found = limit(asked, "serving", "context_length", CATALOG)
    assert (found.largest, found.bound) == (131072, "rule")


def test_preprocessing_on_the_cpu_is_limited_by_its_range_alone() -> None:
    asked = scenario(LLAMA, "preprocessing", {"samples": 1000})
    found = limit(asked, "preprocessing", "batch_size", CATALOG)
    assert (found.largest, found.bound) == (1_000_000, "range")


def test_sequences_that_ranks_share_grow_by_what_divides_among_them() -> None:
    layout = {"tensor": 4, "sequence_parallel": True, "context": 2}
    asked = scenario(LLAMA, "training", {"precision": "bf16", "optimizer": "sgd", "parallelism": layout})
    found = limit(asked, "training", "sequence_length", CATALOG)
    assert found.largest is not None
    assert found.largest % (4 * 2 * 2) == 0
    assert found.next_value == found.largest + 16
    assert verdict(asked, "training", "sequence_length", found.next_value) != "fits"


def test_a_stated_prompt_is_the_shortest_context_that_is_tried() -> None:
    asked = scenario(LLAMA, "serving", {"prompt_tokens": 4000}, "l40s")
    found = limit(asked, "serving", "context_length", CATALOG)
    assert found.largest is not None
    assert found.largest >= 4000


def test_contexts_may_be_too_short_for_an_engine_that_fills_its_passes_with_prompts() -> None:
    # TensorRT-LLM: ceil(8192 / context) prompts end in one pass, each with a row of logits.
    serving = {"engine": "tensorrt-llm", "concurrent_sequences": 16, "kv_cache_dtype": "fp8"}
    asked = scenario({"preset": "google/gemma-7b"}, "serving", serving, "l40s")
    asked = asked.with_value(("hardware", "gpu_total_bytes"), 25_583_067_721)
    found = limit(asked, "serving", "context_length", CATALOG)
    assert verdict(asked, "serving", "context_length", 1) != "fits"
    assert found.largest is not None
    assert verdict(asked, "serving", "context_length", found.largest) == "fits"
    assert verdict(asked, "serving", "context_length", found.largest + 1) != "fits"


def test_another_gpu_of_the_catalogue_may_be_asked_about() -> None:
    asked = scenario(LLAMA, "training", {"precision": "bf16", "optimizer": "sgd"}, "l40s")
    small = limit(asked, "training", "sequence_length", CATALOG)
    large = limit(asked, "training", "sequence_length", CATALOG, "h200-sxm-141gb")
    assert large.gpu == "h200-sxm-141gb"
    assert (large.largest or 0) > (small.largest or 0)


def test_an_absent_phase_is_refused() -> None:
    with pytest.raises(PlannerError, match="no serving phase"):
        limits(scenario(LLAMA, "training", {}), "serving", CATALOG)


def test_doubling_and_halving_find_every_boundary() -> None:
    for step in (1, 3):
        for boundary in range(2, 90):
            values = range(step, 30 * step + 1, step)
            expected = max((value for value in values if value <= boundary), default=None)
            assert largest_fitting(lambda value, most=boundary: value <= most, step, 30 * step, step) == expected


CASES = json.loads((Path(__file__).parents[1] / "data" / "traced-small-models.json").read_text("utf-8"))["cases"]
MODELS = list({json.dumps([case["config"], case["task"]], sort_keys=True): case for case in CASES}.values())
SCHEMES: tuple[dict[str, Any], ...] = (
    {},
    {"data": 2, "zero_stage": 3, "sharding_backend": "fsdp2"},
    {"data": 2, "zero_stage": 3, "sharding_backend": "fsdp1"},
    {"context": 2, "tensor": 2, "sequence_parallel": True},
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    st.sampled_from(MODELS),
    st.fixed_dictionaries(
        {
            "precision": st.sampled_from(["bf16", "amp-bf16", "fp32"]),
            "activation_checkpointing": st.sampled_from(["none", "full", "selective"]),
            "attention_implementation": st.sampled_from(["eager", "sdpa", "flash_attention_2"]),
            "loss_implementation": st.sampled_from(["full_logits", "chunked", "fused_linear", "cut_cross_entropy"]),
            "tiled_mlp": st.booleans(),
            "activation_profile": st.sampled_from(["hf-transformers", "megatron-core", "torchtitan", "litgpt"]),
            "parallelism": st.sampled_from(SCHEMES),
            "method": st.sampled_from(["full", "lora", "qlora", "prompt"]),
        }
    ),
    st.sampled_from([("micro_batch_size", "sequence_length", 33, 90), ("sequence_length", "micro_batch_size", 2, 300)]),
    st.floats(0, 1),
)
def test_brute_force_over_every_family_finds_the_same_size(
    model: dict[str, Any], step: dict[str, Any], axis: tuple[str, str, int, int], share: float
) -> None:
    # Tiles of a feed-forward become shorter where another one begins, and what FSDP leaves idle depends on the moment
    # that is fullest: there the need falls although the size grows.
    field, other, fixed, most = axis
    source = {"config": model["config"], "task": model["task"]}
    asked = scenario(source, "fine_tuning", {**step, other: fixed})
    assume(not Case.of(asked, "fine_tuning", CATALOG).errors)
    swept = [Axis(("phases", "fine_tuning", field), tuple(range(1, most)))]
    (block,) = sweep(asked, "fine_tuning", CATALOG, swept)
    allowed = np.flatnonzero(block.verdicts != REFUSED)
    assume(len(allowed))
    room = int(block.high_bytes[allowed[int(share * (len(allowed) - 1))]])
    asked = asked.with_value(("hardware", "gpu_total_bytes"), room)
    (block,) = sweep(asked, "fine_tuning", CATALOG, swept)
    answer = limit(asked, "fine_tuning", field, CATALOG)
    found = answer.largest or 0
    # A ring deals two pieces to each of its ranks, which a rule only asks for: other lengths are not looked for.
    pieces = 8 if field == "sequence_length" and "context" in step["parallelism"] else 1
    fitting = [value for value in range(pieces, most, pieces) if VERDICTS[block.verdicts[value - 1]] == "fits"]
    longest = max(fitting, default=0)
    assert found == longest or (found >= most > longest > most - 20)


BOUNDED = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@BOUNDED
@given(
    st.sampled_from(["micro_batch_size", "sequence_length"]),
    st.sampled_from(["none", "full"]),
    st.sampled_from(["eager", "sdpa"]),
    st.sampled_from(["full_logits", "fused_linear", "chunked"]),
    st.sampled_from([None, 20, 33]),
    st.integers(1, 60),
)
def test_brute_force_over_a_small_model_finds_the_same_size(
    field: str, checkpointing: str, attention: str, loss: str, window: int | None, room: int
) -> None:
    config = {
        "model_type": "mistral", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 512, "max_position_embeddings": 4096,
        "sliding_window": window, "architectures": ["MistralForCausalLM"],
    }  # fmt: skip
    step = {
        "activation_checkpointing": checkpointing, "attention_implementation": attention, "loss_implementation": loss,
        "micro_batch_size": 1 if field == "sequence_length" else 3, "sequence_length": 24,
    }  # fmt: skip
    model = {"config": config, "task": "causal-lm"}
    base = Case.of(scenario(model, "training", {**step, field: 1}), "training", CATALOG).plan.peak.high_bytes
    asked = scenario(model, "training", step, small_card((base + room * 100_000) / 2**30))
    found = limit(asked, "training", field, CATALOG)
    fitting = [value for value in range(1, 200) if verdict(asked, "training", field, value) == "fits"]
    longest = max(fitting, default=0)
    assert found.largest == (longest or None) if longest < 199 else (found.largest or 0) >= longest
