"""OPT against traces of the real class.

Sources: for the published model torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, as in
`resources/evidence/optrace-others.json`; for the small ones the same class run on a CPU in fp32 with eager attention.
"""

from collections.abc import Callable
from typing import Any

import pytest

OPT_1B = {
    "_remove_final_layer_norm": False, "activation_function": "relu", "attention_dropout": 0.0,
    "do_layer_norm_before": True, "dropout": 0.1, "enable_bias": True, "ffn_dim": 8192, "hidden_size": 2048,
    "layer_norm_elementwise_affine": True, "layerdrop": 0.0, "max_position_embeddings": 8192, "model_type": "opt",
    "num_attention_heads": 32, "num_hidden_layers": 24, "tie_word_embeddings": True, "vocab_size": 50272,
    "word_embed_proj_dim": 2048,
}  # fmt: skip

OPT = {
    "model_type": "opt", "hidden_size": 64, "ffn_dim": 192, "num_attention_heads": 4, "dropout": 0.0,
    "word_embed_proj_dim": 64, "vocab_size": 320, "max_position_embeddings": 128, "num_hidden_layers": 2,
}  # fmt: skip
OPT350 = {
    "model_type": "opt", "hidden_size": 64, "ffn_dim": 192, "num_attention_heads": 4, "dropout": 0.0,
    "word_embed_proj_dim": 32, "do_layer_norm_before": False, "vocab_size": 320, "max_position_embeddings": 128,
    "num_hidden_layers": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (OPT_1B, {}, (7970078720, 11023057488, 11640799824, 11846697544, 13283442688)),
        (
            OPT_1B,
            {"precision": "amp-bf16", "micro_batch_size": 4, "sequence_length": 1024},
            (15940157440, 26295337544, 27565294184, 27942617672, 26566885376),
        ),
        (
            OPT_1B,
            {"attention_implementation": "eager"},
            (7970078720, 30344118288, 30961860624, 31167758344, 13283442688),
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
        (OPT, "fp32", 1384472, 1219592, 1546248),
        (OPT350, "fp32", 1383448, 1218568, 1545224),
    ],
)
def test_a_small_model_keeps_and_peaks_as_its_class_does(
    keeps_and_peaks: Callable[..., None], config: dict[str, Any], precision: str, forward: int, kept: int, backward: int
) -> None:
    keeps_and_peaks(config, precision, forward, kept, backward)


def test_gradients_are_as_many_as_parameters(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all(OPT_1B)
