"""GGUF: exact bytes per tensor type, the model it holds, and a clear error for everything that is not sound."""

import contextlib
import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import ModelError, PlannerError
from planner.model.counts import parameters
from planner.model.files import open_model, read_gguf

F32, F16, Q8_0, Q4_K = 0, 1, 8, 12
HIDDEN, LAYERS, FFN, VOCAB, KV = 256, 2, 512, 1000, 64
METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "llama.block_count": LAYERS,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": FFN,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 1,
    "llama.context_length": 2048,
    "tokenizer.ggml.tokens": [f"t{index}" for index in range(VOCAB)],
}


def _q4_k(*shape: int) -> tuple[int, tuple[int, ...], int]:
    elements = 1
    for size in shape:
        elements *= size
    return Q4_K, shape, elements // 256 * 144


def tiny_tensors() -> dict[str, tuple[int, tuple[int, ...], int]]:
    tensors = {"token_embd.weight": (Q8_0, (VOCAB, HIDDEN), VOCAB * HIDDEN // 32 * 34)}
    for layer in range(LAYERS):
        name = f"blk.{layer}."
        tensors |= {
            name + "attn_norm.weight": (F32, (HIDDEN,), 4 * HIDDEN),
            name + "ffn_norm.weight": (F32, (HIDDEN,), 4 * HIDDEN),
            name + "attn_q.weight": _q4_k(HIDDEN, HIDDEN),
            name + "attn_k.weight": _q4_k(KV, HIDDEN),
            name + "attn_v.weight": _q4_k(KV, HIDDEN),
            name + "attn_output.weight": _q4_k(HIDDEN, HIDDEN),
            name + "ffn_gate.weight": _q4_k(FFN, HIDDEN),
            name + "ffn_up.weight": _q4_k(FFN, HIDDEN),
            name + "ffn_down.weight": _q4_k(HIDDEN, FFN),
        }
    return tensors | {"output_norm.weight": (F32, (HIDDEN,), 4 * HIDDEN)}


def test_a_llama_is_read_with_exact_bytes_and_parameters(tmp_path: Path, writing: SimpleNamespace) -> None:
    path = tmp_path / "tiny.gguf"
    tensors = tiny_tensors()
    path.write_bytes(writing.gguf_bytes(METADATA, tensors))
    opened = open_model(path)
    assert opened.tensors is not None
    assert opened.tensors.size_bytes == sum(size for _, _, size in tensors.values())
    assert opened.tensors.elements == parameters(opened.spec)
    assert opened.notes == ()
    assert opened.spec.head is not None
    assert opened.spec.head.tied
    assert opened.spec.quantization is not None
    assert opened.spec.quantization.stored_bytes == opened.tensors.size_bytes
    assert opened.spec.max_positions == 2048


def test_a_long_vocabulary_is_stepped_over(tmp_path: Path, writing: SimpleNamespace) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(writing.gguf_bytes(METADATA | {"tokenizer.ggml.tokens": ["x"] * 100_000}, {}))
    assert read_gguf(path).metadata["tokenizer.ggml.tokens"].items == 100_000


def test_the_parts_of_a_split_file_are_added_up(tmp_path: Path, writing: SimpleNamespace) -> None:
    tensors = list(tiny_tensors().items())
    for number, part in ((1, tensors[:5]), (2, tensors[5:])):
        content = writing.gguf_bytes(METADATA | {"split.count": 2}, dict(part))
        (tmp_path / f"tiny-0000{number}-of-00002.gguf").write_bytes(content)
    opened = open_model(tmp_path / "tiny-00002-of-00002.gguf")
    assert opened.tensors is not None
    assert opened.tensors.elements == parameters(opened.spec)
    (tmp_path / "tiny-00001-of-00002.gguf").unlink()
    with pytest.raises(ModelError, match="00001-of-00002"):
        open_model(tmp_path / "tiny-00002-of-00002.gguf")


def test_tensors_that_contradict_the_metadata_are_shown(tmp_path: Path, writing: SimpleNamespace) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(writing.gguf_bytes(METADATA | {"llama.feed_forward_length": FFN + 256}, tiny_tensors()))
    assert "fewer than" in open_model(path).notes[0]


def test_a_sparse_file_of_many_gigabytes_opens_by_its_header(tmp_path: Path, writing: SimpleNamespace) -> None:
    path = tmp_path / "big.gguf"
    size = 4 * 2**31
    content = writing.gguf_bytes(METADATA, {"token_embd.weight": (F32, (2**23, HIDDEN), 0)})
    path.write_bytes(content)
    os.truncate(path, len(content) + size)
    assert read_gguf(path).tensors.size_bytes == 4 * 2**23 * HIDDEN


def gguf_text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def _header(keys: int, tensors: int, rest: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


HOSTILE = {
    "only the magic": b"GGUF",
    "unknown version": _header(0, 0, b"", version=99),
    "2^63 keys": _header(2**63, 0, b""),
    "2^63 tensors": _header(0, 2**63, b""),
    "text beyond the file": _header(1, 0, struct.pack("<Q", 2**62)),
    "array beyond the file": _header(1, 0, gguf_text("a") + struct.pack("<IIQ", 9, 4, 2**60)),
    "array of arrays without end": _header(1, 0, gguf_text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9),
    "unknown value type": _header(1, 0, gguf_text("a") + struct.pack("<I", 77)),
    "doubled key": _header(2, 0, (gguf_text("a") + struct.pack("<II", 4, 1)) * 2),
    "name not in UTF-8": _header(1, 0, struct.pack("<Q", 1) + b"\xff" + struct.pack("<II", 4, 1)),
    "unknown tensor type": _header(0, 1, gguf_text("t") + struct.pack("<IQIQ", 1, 4, 999, 0)),
    "a hundred dimensions": _header(0, 1, gguf_text("t") + struct.pack("<I", 100)),
    "dimensions of 2^63": _header(0, 1, gguf_text("t") + struct.pack("<IQQIQ", 2, 2**63, 2**63, 0, 0)),
    "tensors beyond the file": _header(0, 1, gguf_text("t") + struct.pack("<IQIQ", 1, 4096, 0, 0)),
    "rows of no whole block": _header(0, 1, gguf_text("t") + struct.pack("<IQIQ", 1, 100, Q4_K, 0)),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_unsound_file_is_refused_with_a_clear_message(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"bad\.gguf"):
        open_model(path)


@given(st.binary(max_size=40), st.integers(0, 40_000), st.integers(0, 20))
def test_whatever_is_changed_only_the_product_s_own_error_comes_out(
    tmp_path_factory: pytest.TempPathFactory, writing: SimpleNamespace, noise: bytes, place: int, cut: int
) -> None:
    content = writing.gguf_bytes({**METADATA, "tokenizer.ggml.tokens": ["x"]}, tiny_tensors())[:2500]
    at = place % len(content)
    path = tmp_path_factory.getbasetemp() / "fuzz.gguf"
    path.write_bytes(content[:at] + noise + content[at + cut :] + bytes(2_000_000))
    with contextlib.suppress(PlannerError):
        open_model(path)
