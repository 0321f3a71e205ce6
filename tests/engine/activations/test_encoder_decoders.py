"""T5, Whisper and BART against traces of the real classes.

Source: torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, as in `resources/evidence/optrace-others.json`.
"""

from collections.abc import Callable
from typing import Any

import pytest

T5 = {
    "model_type": "t5", "d_model": 768, "d_ff": 3072, "d_kv": 64, "num_heads": 12, "num_layers": 12,
    "num_decoder_layers": 12, "vocab_size": 32128, "feed_forward_proj": "relu", "dropout_rate": 0.1,
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "tie_word_embeddings": True,
}  # fmt: skip
FLAN_T5 = {**T5, "d_ff": 2048, "feed_forward_proj": "gated-gelu"}
UMT5 = {**FLAN_T5, "model_type": "umt5"}
WHISPER = {
    "model_type": "whisper", "d_model": 768, "encoder_layers": 12, "decoder_layers": 12,
    "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
    "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 51865,
    "activation_function": "gelu", "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
}  # fmt: skip
BART = {
    "model_type": "bart", "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
    "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "vocab_size": 50265,
    "max_position_embeddings": 1024, "activation_function": "gelu", "dropout": 0.1, "attention_dropout": 0.1,
    "activation_dropout": 0.1,
}  # fmt: skip
ENCODER_POSITIONS = 1500 * 768


@pytest.mark.parametrize(
    ("precision", "traced"),
    [
        ("fp32", (2674883584, 7212314184, 7347056200, 7475506760, 4458112000)),
        ("amp-bf16", (2674883584, 6438792776, 6523465288, 6570389068, 4458112000)),
    ],
)
def test_t5_holds_what_was_traced(
    holds_what_was_traced: Callable[..., None], precision: str, traced: tuple[int, ...]
) -> None:
    lengths = {"micro_batch_size": 8, "sequence_length": 512, "decoder_sequence_length": 128}
    holds_what_was_traced(T5, traced, task="seq2seq-lm", precision=precision, **lengths)


def test_a_gated_t5_keeps_the_parts_of_its_gelu(holds_what_was_traced: Callable[..., None]) -> None:
    """`gated-gelu` is the tanh form written in Python; traced of the class at its full depth, as above."""
    lengths = {"micro_batch_size": 4, "sequence_length": 128}
    traced = (2674850816, 4035804744, 4103175752, 4167401032, 4458079232)
    holds_what_was_traced(FLAN_T5, traced, task="seq2seq-lm", precision="fp32", **lengths)


@pytest.mark.parametrize(
    ("fields", "traced"),
    [
        ({"precision": "fp32"}, (2899311616, 14542529864, 15286066504, 16029603144, 4823974912)),
        ({"precision": "amp-bf16"}, (2899311616, 11971717224, 12391712872, 12715253868, 4823974912)),
        (
            {"precision": "amp-bf16", "activation_checkpointing": "full"},
            (2899311616, 4859102472, 5638595848, 5602639116, 4823974912),
        ),
    ],
)
def test_whisper_holds_what_was_traced(
    holds_what_was_traced: Callable[..., None], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    lengths = {"micro_batch_size": 8, "sequence_length": 448}
    holds_what_was_traced(WHISPER, traced, task="speech-seq2seq", **lengths, **fields)


def test_bart_holds_what_was_traced(holds_what_was_traced: Callable[..., None]) -> None:
    """Traced of the class at its full depth, as above."""
    fields = {"micro_batch_size": 4, "sequence_length": 128, "decoder_sequence_length": 64}
    traced = (1673252196, 2091103084, 2142574444, 2577709420, 2788615524)
    holds_what_was_traced(BART, traced, task="seq2seq-lm", precision="fp32", attention_implementation="eager", **fields)


@pytest.mark.parametrize(
    ("config", "task", "untrained"),
    [
        (T5, "seq2seq-lm", 0),
        (FLAN_T5, "seq2seq-lm", 0),
        (UMT5, "seq2seq-lm", 0),
        (WHISPER, "speech-seq2seq", ENCODER_POSITIONS),
        (BART, "seq2seq-lm", 0),
        ({**BART, "model_type": "mbart"}, "seq2seq-lm", 0),
    ],
)
def test_gradients_are_as_many_as_parameters_that_are_trained(
    has_gradients_for_all: Callable[..., None], config: dict[str, Any], task: str, untrained: int
) -> None:
    has_gradients_for_all(config, task, untrained, sequence_length=128)
