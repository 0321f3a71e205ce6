"""Falcon against traces of the real class.

Sources: for the published model torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, as in
`resources/evidence/optrace-others.json`; for the small ones the same class run on a CPU in fp32 with eager attention.
"""

from collections.abc import Callable
from typing import Any

import pytest

FALCON_7B = {
    "activation": "gelu", "alibi": False, "attention_dropout": 0.0, "bias": False, "ffn_hidden_size": 18176,
    "hidden_dropout": 0.0, "hidden_size": 4544, "max_position_embeddings": 2048, "model_type": "falcon",
    "multi_query": True, "new_decoder_architecture": False, "num_attention_heads": 71, "num_hidden_layers": 32,
    "num_kv_heads": 71, "parallel_attn": True, "tie_word_embeddings": True, "vocab_size": 65024,
}  # fmt: skip

FALCON = {
    "model_type": "falcon", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 320,
    "max_position_embeddings": 128, "num_hidden_layers": 2,
}  # fmt: skip
FALCON40 = {
    "model_type": "falcon", "hidden_size": 64, "num_attention_heads": 8, "num_kv_heads": 2,
    "new_decoder_architecture": True, "vocab_size": 320, "max_position_embeddings": 128, "num_hidden_layers": 2,
}  # fmt: skip
FALCONB = {
    "model_type": "falcon", "hidden_size": 64, "num_attention_heads": 4, "bias": True, "multi_query": False,
    "parallel_attn": False, "vocab_size": 320, "max_position_embeddings": 128, "num_hidden_layers": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (FALCON_7B, {}, (41530357248, 87995414544, 88794429456, 90640178952, 69217240064)),
        (
            FALCON_7B,
            {"precision": "amp-bf16", "micro_batch_size": 4, "sequence_length": 1024},
            (83060714240, 158832520456, 160505031976, 160963194120, 138434479872),
        ),
        (
            FALCON_7B,
            {"attention_implementation": "eager"},
            (41530357248, 68324128784, 69123143696, 69777710856, 69217240064),
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
        (FALCON, "fp32", 1586232, 1421352, 1748008),
        (FALCON40, "fp32", 1911864, 1746984, 2073640),
        (FALCONB, "fp32", 1719320, 1554440, 1881096),
    ],
)
def test_a_small_model_keeps_and_peaks_as_its_class_does(
    keeps_and_peaks: Callable[..., None], config: dict[str, Any], precision: str, forward: int, kept: int, backward: int
) -> None:
    keeps_and_peaks(config, precision, forward, kept, backward)


def test_gradients_are_as_many_as_parameters(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all(FALCON_7B)
