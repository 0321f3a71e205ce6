"""GPT-2 against traces of the real class.

Sources: for the published model torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, as in
`resources/evidence/optrace-others.json`; for the small ones the same class run on a CPU in fp32 with eager attention.
"""

from collections.abc import Callable
from typing import Any

import pytest

GPT2_SMALL = {
    "activation_function": "gelu_new", "attn_pdrop": 0.1, "embd_pdrop": 0.1, "model_type": "gpt2", "n_embd": 768,
    "n_head": 12, "n_layer": 12, "n_positions": 8192, "resid_pdrop": 0.1, "tie_word_embeddings": True,
    "vocab_size": 50257,
}  # fmt: skip

GPT2_TINY = {
    "model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 128, "vocab_size": 320,
    "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
}  # fmt: skip
BIGCODE_TINY = {**GPT2_TINY, "model_type": "gpt_bigcode"}


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (GPT2_SMALL, {}, (779701760, 2295607088, 2913165104, 3119001384, 1299481088)),
        (
            GPT2_SMALL,
            {"precision": "amp-bf16", "micro_batch_size": 4, "sequence_length": 1024},
            (1559403520, 5901509416, 7149407048, 7548298024, 2598962176),
        ),
        (
            GPT2_SMALL,
            {"attention_implementation": "eager"},
            (779701760, 5314326032, 5931884048, 6137720328, 1299481088),
        ),
        (
            GPT2_SMALL,
            {"micro_batch_size": 4, "activation_checkpointing": "full"},
            (779800064, 2609221128, 5079518760, 5902798344, 1299579392),
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
        (GPT2_TINY, "fp32", 2498072, 2333192, 2659848),
        (BIGCODE_TINY, "fp32", 1711640, 1546760, 1873416),
    ],
)
def test_a_small_model_keeps_and_peaks_as_its_class_does(
    keeps_and_peaks: Callable[..., None], config: dict[str, Any], precision: str, forward: int, kept: int, backward: int
) -> None:
    keeps_and_peaks(config, precision, forward, kept, backward)


def test_gradients_are_as_many_as_parameters(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all(GPT2_SMALL)
