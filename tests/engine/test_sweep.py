"""A sweep equals single estimates to the byte, for every kind of phase, and refuses what the rules refuse."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.catalog import load_catalog
from planner.engine.case import Case
from planner.engine.plan import PhaseName
from planner.engine.sweep import FITS, GPU, REFUSED, VERDICTS, Axis, Block, count, sweep
from planner.errors import PlannerError
from planner.scenario import Scenario

CATALOG = load_catalog()
LLAMA = {"preset": "meta-llama/Llama-3.1-8B"}
SMALL = {
    "config": {
        "model_type": "mistral", "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 4, "intermediate_size": 256, "vocab_size": 512, "max_position_embeddings": 4096,
        "sliding_window": 33, "architectures": ["MistralForCausalLM"],
    },
    "task": "causal-lm",
}  # fmt: skip
GPUS = ("h100-sxm5-80gb", "t4", "rtx-4090")
BOUNDED = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def scenario(model: dict[str, Any], phase: str, fields: dict[str, Any], **hardware: Any) -> Scenario:
    return Scenario.of(
        {"model": model, "phases": {phase: fields}, "hardware": hardware or {"gpus": ["h100-sxm5-80gb"]}}
    )


def single(asked: Scenario, phase: PhaseName, block: Block, index: int) -> Case:
    """The same configuration, estimated alone."""
    choices = dict(block.choices)
    case = Case.of(asked, phase, CATALOG, choices.pop(GPU, None))
    return case.changed([*choices.items(), *((path, int(values[index])) for path, values in block.points.items())])


def assert_equal(asked: Scenario, phase: PhaseName, blocks: list[Block], every: int = 1) -> None:
    for block in blocks:
        for index in range(0, len(block), every):
            case = single(asked, phase, block, index)
            if block.verdicts[index] == REFUSED:
                assert case.errors
                continue
            assert not case.errors
            peak = case.plan.peak
            swept = (block.process_bytes[index], block.low_bytes[index], block.high_bytes[index])
            assert swept == (peak.process_bytes, peak.low_bytes, peak.high_bytes), (block.choices, index)
            assert VERDICTS[block.verdicts[index]] == case.verdict.verdict


def axes(phase: str, **fields: tuple[Any, ...]) -> list[Axis]:
    return [Axis(("phases", phase, *name.split("__")), values) for name, values in fields.items()]


STEPS: list[dict[str, Any]] = [
    {"precision": "bf16"},
    {"precision": "amp-bf16", "attention_implementation": "eager", "loss_implementation": "chunked"},
    {"optimizer": "paged_adamw_32bit", "activation_checkpointing": "full"},
    {"parallelism": {"data": 4, "zero_stage": 3, "sharding_backend": "fsdp2"}, "activation_checkpointing": "full"},
    {"parallelism": {"data": 4, "zero_stage": 3, "sharding_backend": "fsdp1"}, "precision": "amp-bf16"},
    {"parallelism": {"data": 4, "zero_stage": 3, "sharding_backend": "fsdp2"}, "activation_profile": "torchtitan"},
    {"parallelism": {"pipeline": 2, "tensor": 2}, "gradient_accumulation_steps": 4, "expandable_segments": True},
    {"parallelism": {"pipeline": 2, "reported_stage": "last"}, "gradient_accumulation_steps": 4},
    {"parallelism": {"context": 2, "tensor": 2, "sequence_parallel": True}, "activation_profile": "megatron-core"},
    {"tiled_mlp": True, "loss_implementation": "fused_linear"},
]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_steps_of_every_scheme_equal_single_estimates(step: dict[str, Any]) -> None:
    asked = scenario(SMALL, "training", step, gpus=["h100-sxm5-80gb"], headroom_percent=3.0)
    swept = [
        *axes("training", micro_batch_size=(1, 2, 5), sequence_length=(8, 32, 33, 36, 64, 256)),
        Axis(GPU, GPUS),
    ]
    assert_equal(asked, "training", list(sweep(asked, "training", CATALOG, swept)))


@pytest.mark.parametrize(
    ("phase", "fields", "swept"),
    [
        ("design", {}, {"micro_batch_size": (1, 3), "sequence_length": (16, 40)}),
        ("design", {"smoke_test": "forward", "trial_layers": 2}, {"micro_batch_size": (1, 3)}),
        ("design", {"smoke_test": "construct"}, {"micro_batch_size": (1, 3)}),
        ("design", {"parallelism": {"pipeline": 2, "context": 2}}, {"sequence_length": (32, 64, 68)}),
        ("preprocessing", {"samples": 100}, {"batch_size": (1, 8)}),
        ("fine_tuning", {"method": "qlora"}, {"micro_batch_size": (1, 2), "sequence_length": (20, 50)}),
        ("fine_tuning", {"method": "prefix"}, {"sequence_length": (12, 13, 14, 50)}),
        ("fine_tuning", {"method": "full", "objective": "dpo"}, {"micro_batch_size": (1, 2)}),
        ("fine_tuning", {"method": "lora", "objective": "grpo"}, {"micro_batch_size": (1, 2)}),
        (
            "evaluation",
            {"computes_loss": True},
            {"batch_size": (1, 4), "sequence_length": (16, 40), "logits": ("all",)},
        ),
        ("serving", {"engine": "vllm"}, {"concurrent_sequences": (1, 64), "context_length": (128, 4096, 9000)}),
        ("serving", {"engine": "transformers"}, {"concurrent_sequences": (1, 3)}),
    ],
    ids=str,
)
def test_every_phase_can_be_swept(phase: PhaseName, fields: dict[str, Any], swept: dict[str, Any]) -> None:
    asked = scenario(SMALL, phase, fields)
    blocks = list(sweep(asked, phase, CATALOG, [*axes(phase, **swept), Axis(GPU, GPUS)]))
    assert sum(map(len, blocks)) == count([*axes(phase, **swept), Axis(GPU, GPUS)])
    assert_equal(asked, phase, blocks)


@BOUNDED
@given(
    st.sampled_from(["none", "full", "selective"]),
    st.sampled_from([0, 1, 2, 3]),
    st.sampled_from(["bf16", "amp-bf16", "bf16-fp32-master", "fp8"]),
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 100_000)), min_size=2, max_size=4),
)
def test_random_points_of_llama_equal_single_estimates(
    checkpointing: str, stage: int, precision: str, points: list[tuple[int, int]]
) -> None:
    step = {
        "activation_checkpointing": checkpointing, "precision": precision,
        "parallelism": {"data": 8, "zero_stage": stage},
    }  # fmt: skip
    asked = scenario(LLAMA, "training", step)
    batches, lengths = (tuple(sorted(set(values))) for values in zip(*points, strict=True))
    swept = [*axes("training", micro_batch_size=batches, sequence_length=lengths), Axis(GPU, GPUS)]
    assert_equal(asked, "training", list(sweep(asked, "training", CATALOG, swept)), every=3)


SERVED: list[dict[str, Any]] = [
    {"engine": "vllm"},
    {"engine": "vllm", "engine_version": "0.6.3 V0", "parallelism": {"data": 3}},
    {"engine": "vllm", "engine_version": "0.19.0 V1", "kv_cache_dtype": "fp8", "prompt_tokens": 100},
    {"engine": "sglang", "parallelism": {"tensor": 2}},
    {"engine": "tensorrt-llm", "max_num_seqs": 8},
    {"engine": "llama.cpp", "weights": "q4_k_m", "kv_cache_dtype": "q8_0", "gpu_layers": 5},
]


@pytest.mark.parametrize(
    "preset",
    ["meta-llama/Llama-3.1-8B", "google/gemma-3-4b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/t5-v1_1-xxl"],
)
@pytest.mark.parametrize("serving", SERVED, ids=str)
def test_every_engine_serves_many_points_as_it_serves_one(serving: dict[str, Any], preset: str) -> None:
    asked = scenario({"preset": preset}, "serving", serving, gpus=["l40s"], headroom_percent=3.0)
    swept = axes("serving", concurrent_sequences=(1, 7, 200), context_length=(128, 5000, 130000))
    blocks = list(sweep(asked, "serving", CATALOG, [*swept, Axis(GPU, ("l40s", "h200-sxm-141gb"))]))
    assert_equal(asked, "serving", blocks)


def test_choices_are_looped_over_in_order_and_sizes_run_fastest() -> None:
    asked = scenario(LLAMA, "training", {})
    swept = axes(
        "training", parallelism__zero_stage=(0, 3), micro_batch_size=(1, 2), precision=("bf16",), sequence_length=(8, 9)
    )
    blocks = list(sweep(asked, "training", CATALOG, swept))
    stage, precision = swept[0].path, swept[2].path
    assert [dict(block.choices) for block in blocks] == [
        {stage: 0, precision: "bf16"}, {stage: 3, precision: "bf16"}
    ]  # fmt: skip
    assert blocks[0].points[swept[1].path].tolist() == [1, 1, 2, 2]
    assert blocks[0].points[swept[3].path].tolist() == [8, 9, 8, 9]


def test_chunks_hold_the_same_configurations_as_one_block() -> None:
    asked = scenario(LLAMA, "training", {"parallelism": {"tensor": 2, "sequence_parallel": True}})
    swept = axes("training", micro_batch_size=tuple(range(1, 8)), sequence_length=tuple(range(100, 109)))
    (whole,) = sweep(asked, "training", CATALOG, swept)
    pieces = list(sweep(asked, "training", CATALOG, swept, chunk=10))
    assert [len(piece) for piece in pieces] == [10, 10, 10, 10, 10, 10, 3]
    for name in ("process_bytes", "low_bytes", "high_bytes", "verdicts"):
        assert np.array_equal(np.concatenate([getattr(piece, name) for piece in pieces]), getattr(whole, name))


def test_a_million_configurations_stay_below_500_mb() -> None:
    asked = scenario(LLAMA, "training", {"parallelism": {"data": 8}})
    swept = [
        *axes(
            "training",
            activation_checkpointing=("none", "full"),
            parallelism__zero_stage=(0, 3),
            micro_batch_size=tuple(range(1, 251)),
            sequence_length=tuple(range(8, 8008, 8)),
        ),
        Axis(GPU, ("h100-sxm5-80gb",)),
    ]
    assert count(swept) == 1_000_000
    tracemalloc.start()
    fitting = sum(int((block.verdicts == FITS).sum()) for block in sweep(asked, "training", CATALOG, swept))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < fitting < 1_000_000
    assert peak < 500 * 10**6


def test_layouts_that_do_not_divide_the_heads_are_refused_and_say_why() -> None:
    asked = scenario(LLAMA, "training", {})
    blocks = list(sweep(asked, "training", CATALOG, axes("training", parallelism__tensor=(2, 3))))
    assert [block.refusal.code if block.refusal else None for block in blocks] == [None, "tensor_heads"]
    assert blocks[1].verdicts.tolist() == [REFUSED]


def test_a_format_that_one_gpu_lacks_is_refused_there_alone() -> None:
    asked = scenario(LLAMA, "training", {"precision": "fp8"})
    swept = [*axes("training", micro_batch_size=(1, 2)), Axis(GPU, ("h100-sxm5-80gb", "a100-sxm4-80gb"))]
    hopper, ampere = sweep(asked, "training", CATALOG, swept)
    assert hopper.refusal is None
    assert ampere.refusal is not None
    assert ampere.refusal.code == "no_fp8"


def test_lengths_that_ranks_cannot_share_are_refused_one_by_one() -> None:
    asked = scenario(LLAMA, "training", {"parallelism": {"tensor": 4, "sequence_parallel": True}})
    (block,) = sweep(asked, "training", CATALOG, axes("training", sequence_length=(6, 8, 10, 12)))
    assert (block.verdicts == REFUSED).tolist() == [True, False, True, False]


def test_rules_of_sizes_find_every_refusal_of_a_size() -> None:
    # Nothing but these rules may refuse one size and not another, or a sweep would compute what an estimate refuses.
    asked = scenario({"preset": "openai-community/gpt2"}, "training", {"parallelism": {"context": 2}})
    swept = axes("training", sequence_length=(512, 1023, 1024, 1025, 4096))
    blocks = list(sweep(asked, "training", CATALOG, swept))
    assert_equal(asked, "training", blocks)
    assert (blocks[0].verdicts == REFUSED).tolist() == [False, False, False, True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        Axis(("phases", "training", "colour"), (1,)),
        Axis(("phases", "training", "micro_batch_size"), (0,)),
        Axis(("phases", "training", "precision"), ("int3",)),
        Axis(("phases", "training", "micro_batch_size"), ()),
        Axis(GPU, ("h1000",)),
    ],
    ids=str,
)
def test_axes_that_lead_nowhere_or_hold_wrong_values_are_refused(wrong: Axis) -> None:
    with pytest.raises(PlannerError):
        list(sweep(scenario(LLAMA, "training", {}), "training", CATALOG, [wrong]))
