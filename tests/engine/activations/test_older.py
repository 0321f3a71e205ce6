"""What is counted by a newer class than the stated version has."""

import pytest

from planner.engine.activations.lower import Loads, lower
from planner.engine.activations.older import EXPERT_BY_EXPERT, LOOP_OF_4, MASKS_OF_4, SCAN_OF_4
from planner.engine.activations.step import record_step
from planner.model import read_config

SIZES = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2, "vocab_size": 320}
HEADS = SIZES | {"num_attention_heads": 4, "num_key_value_heads": 2}
MODELS = {
    EXPERT_BY_EXPERT: HEADS | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2},
    SCAN_OF_4: SIZES | {"model_type": "mamba2", "num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2},
    LOOP_OF_4: SIZES | {"model_type": "mamba", "state_size": 16, "time_step_rank": 8},
}
LLAMA_4 = HEADS | {"model_type": "llama4_text", "num_local_experts": 8, "num_experts_per_tok": 1, "head_dim": 16}


def notes(config: dict[str, object], version: str) -> tuple[str, ...]:
    spec = read_config(dict(config), "causal-lm", "x")
    loads = Loads(batch=2, sequence=64)
    return lower(
        spec, loads, precision="bf16", attention="sdpa", mask="none", version=version, training=True
    ).approximations


@pytest.mark.parametrize("note", MODELS)
def test_a_class_that_transformers_4_wrote_otherwise_is_said_to_be_approximated(note: str) -> None:
    assert notes(MODELS[note], "transformers 4.57.6") == (note,)
    assert notes(MODELS[note], "transformers 5.24") == ()


def test_experts_that_all_compute_every_token_are_alike_in_both() -> None:
    assert notes(LLAMA_4 | {"intermediate_size_mlp": 192}, "transformers 4.57.6") == ()


def test_an_evaluation_under_4_57_is_given_the_mask_that_it_builds() -> None:
    # A run of transformers 4.57.6's Llama class without a cache: one boolean of batch x sequence x sequence more.
    spec = read_config(HEADS | {"model_type": "llama"}, "causal-lm", "x")
    loads = Loads(batch=2, sequence=64)
    masked = [
        lower(spec, loads, precision="bf16", attention="sdpa", mask="none", version=version, training=False).recipe
        for version in ("transformers 4.57.6", "transformers 5.24")
    ]
    assert [bool(recipe.body.masked) for recipe in masked] == [True, False]  # type: ignore[attr-defined]


@pytest.mark.parametrize("model_type", ["stablelm", "nemotron"])
def test_a_class_of_4_57_with_a_mask_of_its_own_builds_none_in_sdpa(model_type: str) -> None:
    # Runs of these classes of transformers 4.57.6 without a mask passed: no boolean of batch x sequence x sequence.
    spec = read_config(HEADS | {"model_type": model_type}, "causal-lm", "x")
    lowered = lower(
        spec,
        Loads(batch=2, sequence=64),
        precision="bf16",
        attention="sdpa",
        mask="none",
        version="transformers 4.57.6",
        training=False,
    )
    assert not any("boolean mask" in record.label for record in record_step(lowered.recipe).records)


def test_classes_of_4_that_mask_otherwise_are_said_to_be_approximated() -> None:
    gemma = HEADS | {"model_type": "gemma3_text", "head_dim": 16}
    assert notes(gemma, "transformers 4.57.6") == (MASKS_OF_4,)
    assert notes(gemma, "transformers 5.24") == ()
