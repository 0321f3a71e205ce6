"""Arithmetic of models, against hand counts and published formulas."""

import pytest

from planner.catalog import load_catalog
from planner.engine.speed.arithmetic import (
    attention_flops,
    decoded_attention_flops,
    encoder_layers,
    head_weights,
    main_layers,
    meetings,
    pairs,
)
from planner.engine.speed.weights_read import read_bytes, visited, with_visited_experts
from planner.model import counts, resolve_model
from planner.model.spec import MixtureOfExperts, ModelSpec
from planner.scenario.model_source import PresetModel

CATALOG = load_catalog()


def spec(preset: str) -> ModelSpec:
    return resolve_model(PresetModel(preset=preset), CATALOG.presets)


def test_a_token_of_llama_3_1_8b_meets_its_linear_layers() -> None:
    """Per layer: q and o 2 x 4096 x 4096, k and v 2 x 4096 x 1024, three of 4096 x 14336; the head 4096 x 128256."""
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    layers = main_layers(spec("meta-llama/Llama-3.1-8B"))
    assert layers is not None
    assert (layers.weights, layers.last_products) == (32 * layer, 32 * 4096 * 14336)
    assert layers.every_second == 32 * (4096 * 1024 + 4096 * 4096 + 4096 * 14336)  # k, o and up
    assert head_weights(spec("meta-llama/Llama-3.1-8B")) == 4096 * 128256


def test_a_token_of_deepseek_v3_meets_its_active_weights() -> None:
    """37 billion are active, as published, the token table among them."""
    deepseek = spec("deepseek-ai/DeepSeek-V3")
    layers = main_layers(deepseek)
    assert layers is not None
    met = layers.weights + head_weights(deepseek)
    table = counts.embedding_parameters(deepseek)
    assert met + table == pytest.approx(counts.active_parameters(deepseek), rel=1e-3)
    assert met + table == pytest.approx(37.5e9, rel=0.02)


def test_attention_over_all_pairs_is_that_of_the_palm_paper() -> None:
    """Appendix B: 12 L H Q T per token forward and backward, a third of it forward."""
    llama, tokens = spec("meta-llama/Llama-3.1-8B"), 4096
    assert attention_flops(llama, tokens, skips=False) == 4 * 32 * 32 * 128 * tokens * tokens
    assert attention_flops(llama, tokens, skips=True) == pytest.approx(2 * 32 * 32 * 128 * tokens * tokens, rel=1e-3)


def test_windows_and_masks_leave_pairs_out() -> None:
    assert pairs(4, None, causal=True, skips=True) == 4 + 3 + 2 + 1
    assert pairs(4, 2, causal=True, skips=True) == 1 + 2 + 2 + 2
    assert pairs(4, None, causal=False, skips=True) == 16
    assert pairs(4, 2, causal=True, skips=False) == 16


def test_one_more_token_attends_to_all_before_it() -> None:
    assert decoded_attention_flops(spec("meta-llama/Llama-3.1-8B"), 1000) == 4 * 32 * 32 * 128 * 1000
    latent = 2 * 128 * (2 * 512 + 64)  # heads, twice the KV rank, rotated part
    assert decoded_attention_flops(spec("deepseek-ai/DeepSeek-V3"), 1000) == 61 * latent * 1000


def test_layers_known_by_their_parts_alone_are_not_counted() -> None:
    assert main_layers(spec("microsoft/resnet-50")) is None
    assert main_layers(spec("black-forest-labs/FLUX.1-dev")) is None


def test_whisper_has_an_encoder_and_llava_none_that_is_attended_to() -> None:
    encoder = encoder_layers(spec("openai/whisper-large-v3"))
    assert encoder is not None
    assert encoder.weights == 32 * (4 * 1280 * 1280 + 2 * 1280 * 5120)
    assert encoder_layers(spec("llava-hf/llava-1.5-7b-hf")) is None


def test_tensor_parallel_ranks_meet_twice_a_layer_and_once_where_both_halves_run_at_once() -> None:
    assert meetings(spec("meta-llama/Llama-3.1-8B")) == 64
    assert meetings(spec("tiiuae/falcon-7b")) == 32


def test_a_batch_visits_more_experts_the_larger_it_is() -> None:
    assert visited(8, 2, 1) == 2
    assert visited(8, 2, 2) == pytest.approx(3.5)
    mixtral = spec("mistralai/Mixtral-8x7B-v0.1")
    experts = []
    for tokens in (1, 2, 4, 64):
        mixture = with_visited_experts(mixtral, tokens).stack.groups[0].feed_forward
        assert isinstance(mixture, MixtureOfExperts)
        experts.append(mixture.experts)
    assert experts == [2, 4, 5, 8]


def test_token_tables_are_not_read_unless_they_are_the_head() -> None:
    llama = spec("meta-llama/Llama-3.1-8B")
    assert read_bytes(llama, "bf16") == 2 * (counts.parameters(llama) - 128256 * 4096)
    tied = spec("meta-llama/Llama-3.2-1B-Instruct")
    assert read_bytes(tied, "bf16") == 2 * counts.parameters(tied)
