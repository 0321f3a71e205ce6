"""The scenario of the public file format: its fields, its choices and its stated defaults."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.scenario import Scenario, scenario_to_json
from planner.scenario.choices import KV_DTYPES, METHODS, OPTIMIZERS, PRECISIONS, WEIGHTS
from planner.scenario.phases import Design, Evaluation, FineTuning, Preprocessing, Training
from planner.scenario.serving import Serving

SAMPLES = json.loads((Path(__file__).parents[1] / "data" / "scenarios.json").read_text("utf-8"))["scenarios"]

EXAMPLE: dict[str, Any] = {
    "format": "vram-planner/scenario",
    "version": 1,
    "name": "Llama 3.1 8B on one node",
    "model": {"preset": "meta-llama/Llama-3.1-8B"},
    "phases": {
        "design": {
            "micro_batch_size": 1,
            "sequence_length": 128,
            "precision": "bf16",
            "smoke_test": "forward_backward",
        },
        "preprocessing": {
            "samples": 1000000,
            "bytes_per_raw_sample": 6000,
            "tokens_per_sample": 1500,
            "workers": 8,
            "prefetch_factor": 2,
            "shuffle_buffer_samples": 10000,
        },
        "training": {
            "precision": "amp-bf16",
            "optimizer": "adamw",
            "optimizer_implementation": "foreach",
            "micro_batch_size": 1,
            "sequence_length": 4096,
            "gradient_accumulation_steps": 16,
            "activation_checkpointing": "full",
            "attention_implementation": "sdpa",
            "loss_implementation": "full_logits",
            "activation_profile": "hf-transformers",
            "parallelism": {
                "data": 8,
                "zero_stage": 3,
                "tensor": 1,
                "pipeline": 1,
                "context": 1,
                "expert": 1,
                "sequence_parallel": False,
                "pipeline_interleave": 1,
            },
            "offload": {"optimizer": "none", "parameters": "none"},
        },
        "fine_tuning": {
            "method": "qlora",
            "lora": {"rank": 16, "target_modules": "all-linear", "dropout": 0.05, "adapter_dtype": "fp32"},
            "base_quantization": "nf4-double",
        },
        "evaluation": {"precision": "bf16", "batch_size": 8, "sequence_length": 4096, "logits": "all"},
        "serving": {
            "engine": "vllm",
            "weights": "bf16",
            "kv_cache_dtype": "bf16",
            "concurrent_sequences": 32,
            "context_length": 8192,
            "max_num_batched_tokens": 8192,
            "max_num_seqs": 256,
            "gpu_memory_utilization": 0.9,
            "cuda_graphs": True,
            "parallelism": {"tensor": 1, "pipeline": 1, "data": 1, "expert": 1},
        },
    },
    "hardware": {"gpus": ["h100-sxm5-80gb", "l40s"], "judge": "l40s", "gpus_per_node": 8, "nodes": 1},
}


def test_the_example_of_the_format_is_read_and_written_back() -> None:
    assert json.loads(scenario_to_json(Scenario.of(EXAMPLE))) == EXAMPLE


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample["id"] for sample in SAMPLES])
def test_scenarios_of_measured_cases_are_read_and_written_back(sample: dict[str, Any]) -> None:
    assert json.loads(scenario_to_json(Scenario.of(sample["scenario"]))) == sample["scenario"]


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ("framework_version", "transformers 5.24"),
        ("attention_mask", "none"),
        ("use_cache", False),
        ("keeps_outputs", False),
        ("zero_grad_set_to_none", True),
        ("checkpointing_reentrant", False),
        ("loss_upcast", True),
        ("gradient_clipping", False),
        ("optimizer", "adamw"),
        ("optimizer_implementation", "foreach"),
        ("precision", "bf16"),
        ("attention_implementation", "sdpa"),
        ("activation_checkpointing", "none"),
        ("loss_implementation", "full_logits"),
        ("activation_profile", "hf-transformers"),
        ("experts_implementation", "grouped_mm"),
    ],
)
def test_a_field_that_is_not_stated_has_the_default_of_the_format(field: str, default: object) -> None:
    assert getattr(Training(), field) == default
    assert getattr(FineTuning(), field) == default


def test_nothing_is_parallel_or_offloaded_by_default() -> None:
    layout, offload = Training().parallelism, Training().offload
    assert (layout.data, layout.tensor, layout.pipeline, layout.context, layout.expert) == (1, 1, 1, 1, 1)
    assert (layout.zero_stage, layout.sequence_parallel, layout.pipeline_interleave) == (0, False, 1)
    assert layout.reshard_after_forward
    assert layout.use_orig_params
    assert {offload.optimizer, offload.parameters, offload.activations, offload.gradients} == {"none"}


def test_adapters_are_rank_16_on_all_linear_layers_in_fp32_without_dropout() -> None:
    lora = FineTuning().lora
    assert (lora.rank, lora.target_modules, lora.dropout, lora.adapter_dtype) == (16, "all-linear", 0.0, "fp32")


def test_hardware_is_one_node_of_eight_h100_judged_by_the_first_gpu() -> None:
    hardware = Scenario.of({"model": {"preset": "x"}}).hardware
    assert (hardware.gpus, hardware.gpus_per_node, hardware.nodes) == (("h100-sxm5-80gb",), 8, 1)
    assert hardware.judged_by == "h100-sxm5-80gb"


def test_every_phase_can_be_planned_by_defaults_alone() -> None:
    for phase in (Design, Preprocessing, Training, FineTuning, Evaluation, Serving):
        assert phase().model_fields_set == set()


def test_a_phase_that_is_not_stated_is_not_planned() -> None:
    phases = Scenario.of({"model": {"preset": "x"}, "phases": {"serving": {}}}).phases
    assert phases.training is None
    assert phases.serving == Serving()


def test_the_closed_lists_hold_what_the_format_names() -> None:
    assert {"fp32", "tf32", "amp-fp16", "amp-bf16", "bf16", "fp16", "bf16-fp32-master", "fp16-fp32-master", "fp8"} == {
        *PRECISIONS
    }
    assert {"full", "lora", "qlora", "dora", "prefix", "prompt", "last_layers"} == {*METHODS}
    assert {"adamw", "sgd", "adam", "sgd_momentum", "adamw_8bit", "adamw_4bit", "adamw_fp8", "adafactor"} <= {
        *OPTIMIZERS
    }
    assert "paged_adamw_32bit" in OPTIMIZERS
    assert {"fp32", "bf16", "fp16", "fp8", "int8", "nf4", "awq-int4", "gptq-int4", "mxfp4", "nvfp4", "q4_k_m"} <= {
        *WEIGHTS
    }
    assert {"fp32", "bf16", "fp16", "fp8", "int8", "q8_0", "q4_0"} <= {*KV_DTYPES}


def test_every_file_type_of_llama_cpp_is_a_format_of_weights() -> None:
    """`llama_ftype` in llama.cpp's include/llama.h."""
    assert {
        *("f32", "f16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q2_k_s", "q3_k_s", "q3_k_m", "q3_k_l"),
        *("q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m"),
        *("iq3_xxs", "iq3_xs", "iq3_s", "iq3_m", "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "bf16", "mxfp4"),
    } <= {*WEIGHTS}


def test_the_sharding_software_follows_from_the_zero_stage_unless_it_is_stated() -> None:
    layouts = [{"zero_stage": 0}, {"zero_stage": 3}, {"zero_stage": 3, "sharding_backend": "fsdp2"}]
    assert [Training.model_validate({"parallelism": layout}).parallelism.backend for layout in layouts] == [
        *("ddp", "deepspeed", "fsdp2"),
    ]


def test_a_list_of_one_word_for_layers_means_that_word() -> None:
    tuning = FineTuning.model_validate({"lora": {"target_modules": ["all-linear"]}})
    assert tuning.lora.target_modules == "all-linear"


def test_only_qlora_leaves_the_format_of_frozen_weights_open() -> None:
    assert FineTuning.model_validate({"method": "qlora"}).frozen_format == "nf4-double"
    assert FineTuning.model_validate({"method": "qlora", "base_quantization": "fp4"}).frozen_format == "fp4"
    assert FineTuning.model_validate({"method": "lora"}).frozen_format is None


def test_infinity_in_a_configuration_is_kept() -> None:
    """Mamba configurations hold `time_step_limit: [0, Infinity]`, as Python's json writes it."""
    text = (
        '{"format": "vram-planner/scenario", "version": 1, "model": {"config": {"time_step_limit": [0.0, Infinity]}}}'
    )
    from planner.scenario import scenario_from_json

    assert "Infinity" in scenario_to_json(scenario_from_json(text))
