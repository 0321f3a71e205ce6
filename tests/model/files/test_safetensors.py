"""safetensors: exact bytes from the header, and a clear error for everything that is not sound."""

import contextlib
import json
import os
import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import ModelError, PlannerError
from planner.model.files import read_safetensors

TINY = {"a.weight": ("BF16", (3, 5)), "a.bias": ("F32", (3,)), "b": ("F8_E4M3", (7, 2)), "none": ("F32", (0, 4))}


def test_bytes_and_elements_are_those_of_the_file(tmp_path: Path, writing: SimpleNamespace) -> None:
    summary = read_safetensors(writing.write_safetensors(tmp_path / "m.safetensors", TINY))
    assert summary.size_bytes == 3 * 5 * 2 + 3 * 4 + 7 * 2
    assert summary.elements == 15 + 3 + 14
    assert summary.by_dtype() == {"BF16": (15, 30), "F8_E4M3": (14, 14), "F32": (3, 12)}


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "big.safetensors"
    rows = 2**31
    header = json.dumps({"w": {"dtype": "F32", "shape": [rows], "data_offsets": [0, 4 * rows]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 4 * rows)
    tracemalloc.start()
    assert read_safetensors(path).size_bytes == 8 * 2**30
    assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
    tracemalloc.stop()


def _with_header(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


ENTRY = '{"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
HOSTILE = {
    "empty": b"",
    "length beyond the file": struct.pack("<Q", 10_000) + b"{}",
    "length of 2^63": struct.pack("<Q", 2**63) + b"{}",
    "no JSON": _with_header(b"not json"),
    "no object": _with_header(b"[1]"),
    "invalid UTF-8": _with_header(b'{"\xff": 1}'),
    "deep nesting": _with_header(b'{"a":' * 100_000),
    "doubled key": _with_header(f'{{"a": {ENTRY}, "a": {ENTRY}}}'.encode(), bytes(4)),
    "negative dimension": _with_header(b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}', bytes(4)),
    "dimension of 2^63": _with_header(
        b'{"a": {"dtype": "F32", "shape": [9223372036854775808], "data_offsets": [0, 4]}}', bytes(4)
    ),
    "shapes that multiply beyond reason": _with_header(
        b'{"a": {"dtype": "F32", "shape": [1000000000000, 1000000000000], "data_offsets": [0, 4]}}', bytes(4)
    ),
    "unknown type": _with_header(b'{"a": {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]}}', bytes(4)),
    "bytes that the shape contradicts": _with_header(
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', bytes(4)
    ),
    "a gap": _with_header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}', bytes(8)),
    "cut off": _with_header(b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}', bytes(7)),
    "NaN": _with_header(b'{"a": NaN}'),
    "true as a size": _with_header(b'{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}', bytes(4)),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_unsound_file_is_refused_with_a_clear_message(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"bad\.safetensors"):
        read_safetensors(path)


def test_a_header_of_a_hundred_megabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 100 * 2**20) + b"{")
        file.truncate(8 + 100 * 2**20)
    with pytest.raises(ModelError, match="100 MiB"):
        read_safetensors(path)


def test_devices_loops_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    loop = tmp_path / "loop.safetensors"
    loop.symlink_to(loop)
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    for path in (loop, pipe, tmp_path, tmp_path / "absent"):
        with pytest.raises(ModelError):
            read_safetensors(path)


@given(st.binary(max_size=40), st.integers(0, 300), st.integers(0, 20))
def test_whatever_is_changed_only_the_product_s_own_error_comes_out(
    tmp_path_factory: pytest.TempPathFactory, writing: SimpleNamespace, noise: bytes, place: int, cut: int
) -> None:
    content = writing.safetensors_bytes(TINY)
    at = place % len(content)
    changed = content[:at] + noise + content[at + cut :]
    path = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    path.write_bytes(changed)
    with contextlib.suppress(PlannerError):
        read_safetensors(path)
