"""Rotary tables of the serving engines: how many positions, how many tables, how wide."""

from dataclasses import replace

import pytest

from planner.engine.kv_cache import total_bytes
from planner.engine.servers import serving_workload
from planner.engine.servers.rotary import rotary_terms
from planner.engine.servers.torch_engine import engine_weights
from planner.model import read_config
from planner.model.readers.rotary_tables import rotary_tables
from planner.model.spec import PLAIN_ROTARY, RotaryTable
from planner.scenario.serving import Serving
from planner.units import GIB, MIB

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 32768,
}  # fmt: skip


def tables(engine="vllm", **config):
    spec = read_config({**LLAMA, **config})
    return [int(term.bytes) for term in rotary_terms(spec, "bf16", engine)]


def test_a_plain_table_has_a_row_per_position():
    assert tables() == [32768 * 128 * 2]


@pytest.mark.parametrize("kind", ["linear", "dynamic", "ntk"])
def test_stretched_positions_lengthen_the_table(kind):
    # vllm linear_scaling_rope.py, dynamic_ntk_scaling_rope.py: max_position_embeddings x scaling_factor rows
    assert tables(rope_scaling={"rope_type": kind, "factor": 8.0}) == [8 * 32768 * 128 * 2]


def test_llama3_and_dynamic_with_alpha_stretch_nothing():
    llama3 = {"rope_type": "llama3", "factor": 32.0, "original_max_position_embeddings": 8192}
    assert tables(rope_scaling=llama3) == tables()
    assert tables(rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 4.0}) == tables()


def test_yarn_stretches_the_original_positions():
    # yarn_scaling_rope.py: ceil(original x factor), whatever the file says of its positions
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert tables(rope_scaling=yarn) == [131072 * 128 * 2]


def test_longrope_keeps_a_short_and_a_long_table():
    # phi3_long_rope_scaled_rope.py joins both; Phi-3 states the original length outside rope_scaling
    longrope = {"type": "su", "short_factor": [1.0], "long_factor": [2.0]}
    found = tables(rope_scaling=longrope, original_max_position_embeddings=4096)
    assert found == [(4096 + 32768) * 128 * 2]


def test_sections_of_images_take_four_times_the_positions_in_vllm_alone():
    mrope = {"type": "mrope", "mrope_section": [16, 24, 24]}
    assert tables(rope_scaling=mrope) == [4 * 32768 * 128 * 2]
    assert tables("sglang", rope_scaling=mrope) == [32768 * 128 * 4]


def test_sglang_and_tensorrt_llm_keep_tables_in_fp32():
    linear = {"rope_type": "linear", "factor": 8.0}
    assert tables("sglang", rope_scaling=linear) == [8 * 32768 * 128 * 4]
    assert tables("tensorrt-llm", rope_scaling=linear) == [32768 * 128 * 4]


def test_gemma_3_27b_has_a_stretched_table_and_one_of_its_windows():
    # vllm-project/vllm#15676 logs 13.17 GiB on each of four GPUs; 12.82 were counted without the stretching
    from planner.model import resolve_model
    from planner.scenario.model_source import PresetModel

    spec = resolve_model(PresetModel(preset="google/gemma-3-27b-it"))
    load = replace(serving_workload(Serving(), spec), tensor_parallel=4)
    assert [int(term.bytes) // MIB for term in rotary_terms(spec, "bf16", "vllm")] == [256, 32]
    assert total_bytes(engine_weights(load)) == pytest.approx(13.1665 * GIB, rel=0.01)


def test_a_latent_attention_turns_its_rotated_part():
    # DeepSeek-V3: 4096 x 40 positions of 64
    from planner.model import resolve_model
    from planner.scenario.model_source import PresetModel

    spec = resolve_model(PresetModel(preset="deepseek-ai/DeepSeek-V3"))
    assert [int(term.bytes) for term in rotary_terms(spec, "bf16", "vllm")] == [163840 * 64 * 2]


def test_tables_are_read_by_kind_of_layer():
    nested = {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25},
        "sliding_attention": {"rope_type": "default"},
    }
    assert rotary_tables({"text_config": {"rope_parameters": nested}}) == (
        RotaryTable("full", "proportional"), RotaryTable("windowed"),
    )  # fmt: skip
    assert rotary_tables({}) == PLAIN_ROTARY
    assert rotary_tables({"model_type": "olmo3"}) == PLAIN_ROTARY
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192}
    assert rotary_tables({"model_type": "olmo3", "rope_scaling": yarn}) == (
        RotaryTable("full", "yarn", 8.0, 8192), RotaryTable("windowed"),
    )  # fmt: skip


@pytest.mark.parametrize("damaged", ["yes", 3, {"factor": "8"}, {"rope_type": None, "factor": -1}])
def test_a_damaged_scaling_counts_as_none(damaged):
    assert all(table.factor == 1.0 for table in rotary_tables({"rope_scaling": damaged}))
