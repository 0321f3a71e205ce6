"""BLOOM against traces of the real class.

Sources: for the published model torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, as in
`resources/evidence/optrace-others.json`; for the small ones the same class run on a CPU in fp32 with eager attention.
"""

from collections.abc import Callable
from typing import Any

import pytest

BLOOM_560M = {
    "attention_dropout": 0.0, "hidden_dropout": 0.0, "hidden_size": 1024, "model_type": "bloom", "n_head": 16,
    "n_layer": 24, "tie_word_embeddings": True, "vocab_size": 250880,
}  # fmt: skip

BLOOM = {
    "model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2, "vocab_size": 320,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (
            BLOOM_560M,
            {"attention_implementation": "eager"},
            (3355320320, 16698236944, 19781050384, 20808638472, 5592178688),
        ),
        (
            BLOOM_560M,
            {
                "precision": "amp-bf16",
                "attention_implementation": "eager",
                "micro_batch_size": 4,
                "sequence_length": 1024,
            },
            (6710640640, 25270009864, 31452889128, 33490812936, 11184357376),
        ),
        (
            BLOOM_560M,
            {"attention_implementation": "eager", "micro_batch_size": 4, "activation_checkpointing": "full"},
            (3355418624, 12063252488, 24394571816, 28504858632, 5592276992),
        ),
    ],
)
def test_a_published_model_holds_what_was_traced(
    holds_what_was_traced: Callable[..., None], config: dict[str, Any], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    holds_what_was_traced(config, traced, **fields)


@pytest.mark.parametrize(
    ("config", "precision", "forward", "kept", "backward"),
    [
        (BLOOM, "fp32", 1776656, 1580040, 2184968),
    ],
)
def test_a_small_model_keeps_and_peaks_as_its_class_does(
    keeps_and_peaks: Callable[..., None], config: dict[str, Any], precision: str, forward: int, kept: int, backward: int
) -> None:
    keeps_and_peaks(config, precision, forward, kept, backward)


def test_gradients_are_as_many_as_parameters(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all(BLOOM_560M)
