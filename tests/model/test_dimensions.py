"""Models without a file."""

import pytest

from planner.errors import ModelError
from planner.model.counts import active_parameters, parameters
from planner.model.dimensions import from_dimensions, from_parameter_count
from planner.model.resolve import resolve_model
from planner.scenario.model_source import ConfigModel, DimensionsModel, SizeModel

LLAMA = {
    "layers": 32,
    "hidden_size": 4096,
    "attention_heads": 32,
    "kv_heads": 8,
    "ffn_hidden_size": 14336,
    "vocab_size": 128256,
}


def test_the_dimensions_of_llama_3_1_8b_give_its_parameters() -> None:
    assert parameters(from_dimensions(LLAMA)) == 8_030_261_248


def test_the_dimensions_of_gpt_2_give_its_parameters() -> None:
    gpt2 = {
        "layers": 12,
        "hidden_size": 768,
        "attention_heads": 12,
        "vocab_size": 50257,
        "gated_mlp": False,
        "activation": "gelu",
        "norm": "layernorm",
        "bias": True,
        "position_embedding": "learned",
        "max_positions": 1024,
        "tied_embeddings": True,
    }
    assert parameters(from_dimensions(gpt2)) == 124_439_808


def test_the_dimensions_of_mixtral_give_its_parameters() -> None:
    spec = from_dimensions(LLAMA | {"vocab_size": 32000, "experts": 8, "experts_per_token": 2})
    assert (parameters(spec), active_parameters(spec)) == (46_702_792_704, 12_879_925_248)


@pytest.mark.parametrize("count", [10**6, 125 * 10**6, 7 * 10**9, 70 * 10**9, 10**12, 10**15])
def test_a_size_alone_becomes_a_model_of_that_size(count: int) -> None:
    spec = from_parameter_count(count)
    assert parameters(spec) == pytest.approx(count, rel=2e-3)
    assert spec.approximate


def test_active_parameters_make_a_mixture_of_experts() -> None:
    spec = from_parameter_count(30 * 10**9, active=3 * 10**9)
    assert parameters(spec) == pytest.approx(30e9, rel=0.02)
    assert active_parameters(spec) == pytest.approx(3e9, rel=0.02)


def test_a_size_too_small_for_a_model_is_refused() -> None:
    with pytest.raises(ModelError, match="too small"):
        from_parameter_count(1000)


def test_a_model_is_resolved_once() -> None:
    source = SizeModel(parameters=7 * 10**9)
    assert resolve_model(source) is resolve_model(SizeModel(parameters=7 * 10**9))
    described = {"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 100}
    assert resolve_model(DimensionsModel.model_validate({"dimensions": described})).layers == 2
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4}
    assert resolve_model(ConfigModel(config=config)).model_type == "gpt2"
