"""Layers for multi-token prediction: in the file, in no count but their own."""

from typing import Any

import pytest

from planner.model import load_presets, read_config
from planner.model.counts import parameters, prediction_parameters
from planner.model.files.opened import cross_check
from planner.model.files.tensors import TensorEntry, TensorSummary
from planner.model.prediction import copied_heads, drafting_modules


def preset(identifier: str) -> Any:
    found = load_presets()[identifier]
    return read_config(found.config, found.task, found.id)


@pytest.mark.parametrize(
    ("identifier", "held", "buffers"),
    [
        # `safetensors.total` of the Hub's answer on each repository, as two public lists of models copy it (and a third
        # for Qwen/Qwen3.6-35B-A3B, of the same sizes as Qwen3.5), and the corrections of the routers among it: 160 for
        # each of GLM-4.5's 89 + 1 layers with experts.
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 81_324_862_720, 0),
        ("Qwen/Qwen3.5-35B-A3B", 35_951_822_704, 0),
        ("zai-org/GLM-4.5", 358_337_791_296, 90 * 160),
    ],
)
def test_model_and_prediction_layers_are_what_the_repository_holds(identifier: str, held: int, buffers: int) -> None:
    spec = preset(identifier)
    assert parameters(spec) + prediction_parameters(spec) + buffers == held


def test_deepseek_v3_has_14_billion_beside_its_671_of_which_11_and_a_half_are_new() -> None:
    """README_WEIGHTS.md of the model: 671B and 14B, 11.5B without the copies of token table and head."""
    spec = preset("deepseek-ai/DeepSeek-V3")
    assert parameters(spec) == 671_026_404_352
    assert prediction_parameters(spec) == 13_463_426_048
    assert prediction_parameters(spec) - 2 * 129_280 * 7168 == pytest.approx(11.5e9, rel=0.01)


def test_a_file_that_states_no_such_layers_has_none() -> None:
    assert prediction_parameters(preset("moonshotai/Kimi-K2-Instruct")) == 0
    assert prediction_parameters(preset("meta-llama/Llama-3.1-8B")) == 0


SMALL = {
    "model_type": "glm4_moe",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "intermediate_size": 16,
    "moe_intermediate_size": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "vocab_size": 32,
    "num_nextn_predict_layers": 1,
}


def _held(elements: int, **beside: int) -> TensorSummary:
    named = {"w": elements, **{name.replace("__", "."): size for name, size in beside.items()}}
    return TensorSummary(tuple(TensorEntry(name, (size,), "BF16", 2 * size) for name, size in named.items()))


def test_a_file_with_its_prediction_layers_agrees_with_its_configuration() -> None:
    spec = read_config(SMALL)
    whole = parameters(spec) + prediction_parameters(spec)
    biases = {"model__layers__1__mlp__gate__e_score_correction_bias": 4}
    note = f"{prediction_parameters(spec):,} of the file's elements are layers for multi-token prediction."
    assert cross_check(spec, _held(whole)) == [note]
    assert cross_check(spec, _held(whole, **biases)) == [note]
    assert cross_check(spec, _held(parameters(spec))) == []
    assert cross_check(spec, _held(parameters(spec), **biases)) == []


def test_a_file_that_disagrees_is_told_by_how_much() -> None:
    spec = read_config(SMALL)
    (note,) = cross_check(spec, _held(parameters(spec) + 7, rope_freqs__weight=64))
    assert "7 more than" in note


def test_frequencies_in_a_file_are_no_disagreement() -> None:
    llama = {
        "model_type": "llama",
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "vocab_size": 32,
    }
    spec = read_config(llama)
    names = {"model__rotary_emb__inv_freq": 2, "model__layers__0__self_attn__rotary_emb__inv_freq": 2}
    assert cross_check(spec, _held(parameters(spec), **names)) == []


def test_engines_draft_without_the_copies_of_table_and_head() -> None:
    """README_WEIGHTS.md of DeepSeek-V3: 11.5B of the 14B are the module's own, the rest copies."""
    spec = preset("deepseek-ai/DeepSeek-V3")
    own = parameters(drafting_modules(spec))
    assert own == prediction_parameters(spec) - 2 * 129_280 * 7168
    assert copied_heads(spec) == 1
    qwen = preset("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert parameters(drafting_modules(qwen)) == prediction_parameters(qwen)
    assert copied_heads(qwen) == 0


def test_what_a_file_does_not_tell_is_one_layer_like_the_last_a_projection_and_three_norms() -> None:
    llama = preset("meta-llama/Llama-3.1-8B")
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
    assert parameters(drafting_modules(llama)) == layer + 2 * 4096 * 4096 + 3 * 4096


def test_a_module_of_mimo_is_a_layer_a_projection_and_three_norms() -> None:
    """vLLM's mimo_mtp.py, with Qwen2DecoderLayer: bias for queries, keys and values alone."""
    mimo = {
        "model_type": "mimo",
        "architectures": ["MiMoForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 151680,
        "tie_word_embeddings": False,
        "num_nextn_predict_layers": 1,
    }
    spec = read_config(mimo)
    layer = 2 * 4096 * 4096 + 4096 + 2 * (4096 * 1024 + 1024) + 3 * 4096 * 11008 + 2 * 4096
    assert spec.approximate is None
    assert parameters(spec) == 36 * layer + 2 * 151680 * 4096 + 4096
    assert prediction_parameters(spec) == layer + 2 * 4096 * 4096 + 3 * 4096
    assert parameters(drafting_modules(spec)) == prediction_parameters(spec)
    assert copied_heads(spec) == 0


def test_modules_that_a_configuration_states_and_its_file_lacks_are_not_counted() -> None:
    """MiniMax-M2.5: num_mtp_modules 3; the Hub's total less the model is one fp8 scale for 128 x 128 weights."""
    spec = preset("MiniMaxAI/MiniMax-M2.5")
    assert prediction_parameters(spec) == 0
    scales = 228_703_644_928 - parameters(spec)
    assert scales == pytest.approx(parameters(spec) / 128**2, rel=0.01)
