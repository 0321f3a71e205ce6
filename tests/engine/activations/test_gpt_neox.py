"""GPT-NeoX against traces of the real class.

Sources: for the published model torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, as in
`resources/evidence/optrace-others.json`; for the small ones the same class run on a CPU in fp32 with eager attention.
"""

from collections.abc import Callable
from typing import Any

import pytest

PYTHIA = {
    "attention_bias": True, "attention_dropout": 0.0, "hidden_act": "gelu", "hidden_dropout": 0.0,
    "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 8192, "model_type": "gpt_neox",
    "num_attention_heads": 16, "num_hidden_layers": 24, "tie_word_embeddings": False, "use_parallel_residual": True,
    "vocab_size": 50304,
}  # fmt: skip

GPT_NEOX = {
    "model_type": "gpt_neox", "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4,
    "vocab_size": 320, "max_position_embeddings": 128, "num_hidden_layers": 2,
}  # fmt: skip
GPT_NEOX_SEQ = {
    "model_type": "gpt_neox", "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4,
    "use_parallel_residual": False, "vocab_size": 320, "max_position_embeddings": 128, "num_hidden_layers": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (PYTHIA, {}, (8487919744, 12544893648, 13163029200, 13369057992, 14146510976)),
        (
            PYTHIA,
            {"precision": "amp-bf16", "micro_batch_size": 4, "sequence_length": 1024},
            (16975839360, 28130919112, 29401662184, 29779247816, 28293021824),
        ),
        (
            PYTHIA,
            {"attention_implementation": "eager"},
            (8487919744, 22004097168, 22622232720, 22828261512, 14146510976),
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
        (GPT_NEOX, "fp32", 1516568, 1351688, 1678344),
        (GPT_NEOX_SEQ, "fp32", 1582104, 1417224, 1743880),
    ],
)
def test_a_small_model_keeps_and_peaks_as_its_class_does(
    keeps_and_peaks: Callable[..., None], config: dict[str, Any], precision: str, forward: int, kept: int, backward: int
) -> None:
    keeps_and_peaks(config, precision, forward, kept, backward)


def test_gradients_are_as_many_as_parameters(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all(PYTHIA)
