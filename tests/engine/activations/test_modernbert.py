"""ModernBERT against traces of its class: torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, six layers."""

from collections.abc import Callable

import pytest

MODERNBERT = {
    "model_type": "modernbert", "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 6,
    "num_attention_heads": 12, "vocab_size": 50368, "global_attn_every_n_layers": 3, "local_attention": 128,
    "max_position_embeddings": 8192, "embedding_dropout": 0.0, "attention_dropout": 0.0, "mlp_dropout": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("precision", "traced"),
    [
        ("bf16", (416520832, 1156324088, 1775246072, 1981553400, 694179200)),
        ("fp32", (833008384, 1899180904, 2311795560, 2724410216, 1388325120)),
    ],
)
def test_local_and_global_layers_hold_what_was_traced(
    holds_what_was_traced: Callable[..., None], precision: str, traced: tuple[int, ...]
) -> None:
    lengths = {"micro_batch_size": 4, "sequence_length": 512}
    holds_what_was_traced(MODERNBERT, traced, task="masked-lm", precision=precision, **lengths)


def test_gradients_are_as_many_as_parameters(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all(MODERNBERT, "masked-lm", sequence_length=256)
