"""Weights as files."""

import pytest

from planner.engine.kv_cache import total_bytes
from planner.engine.storage import weight_file_terms
from planner.model import resolve_model
from planner.scenario.model_source import PresetModel


def size(preset: str, name: str, *, published: bool = True) -> int:
    spec = resolve_model(PresetModel(preset=preset))
    return int(total_bytes(weight_file_terms(spec, name, published=published)))


def test_the_published_files_of_deepseek_v3_hold_its_prediction_layer_too():
    # 688 586 727 753 bytes in the repository's tree, fp8 with scales for blocks of 128 x 128, here for rows
    assert size("deepseek-ai/DeepSeek-V3", "fp8") == pytest.approx(688_586_727_753, rel=0.001)
    assert size("deepseek-ai/DeepSeek-V3", "fp8", published=False) < 674e9


def test_published_files_are_what_the_hub_counts_in_them():
    # twice `safetensors.total`, for GLM-4.5 without 90 corrections of 160 experts each
    assert size("zai-org/GLM-4.5", "bf16") == 2 * (358_337_791_296 - 90 * 160)
    assert size("Qwen/Qwen3-Next-80B-A3B-Instruct", "bf16") == 2 * 81_324_862_720


def test_a_file_that_transformers_saves_or_llama_cpp_reads_has_no_prediction_layers():
    name = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    assert size(name, "bf16") > size(name, "bf16", published=False)
    assert size(name, "q4_k_m") == size(name, "q4_k_m", published=False)
