"""MPT against the real class: transformers 5.24.0 with torch 2.13.0 on a CPU in fp32."""

from collections.abc import Callable

MPT = {
    "model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 128, "vocab_size": 320,
}  # fmt: skip


def test_a_small_model_keeps_and_peaks_as_its_class_does(keeps_and_peaks: Callable[..., None]) -> None:
    keeps_and_peaks(MPT, "fp32", 1719320, 1554440, 1881096)


def test_gradients_are_as_many_as_parameters(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all({**MPT, "max_seq_len": 2048})
