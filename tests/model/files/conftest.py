"""Small files of weights, written as the formats say."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "F8_E4M3": 1}


def safetensors_bytes(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """A safetensors file whose tensors are all zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = BYTES[dtype]
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> Path:
    path.write_bytes(safetensors_bytes(tensors))
    return path


def gguf_text(value: str) -> bytes:
    content = value.encode()
    return struct.pack("<Q", len(content)) + content


def gguf_value(value: Any) -> bytes:
    """Type and content of a metadata value: bool, whole number, float, text, or a list of texts or numbers."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_text(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_text, value))
    return struct.pack("<IIQ", 9, 4, len(value)) + struct.pack(f"<{len(value)}I", *value)


def gguf_bytes(metadata: Mapping[str, Any], tensors: Mapping[str, tuple[int, tuple[int, ...], int]]) -> bytes:
    """A GGUF file; each tensor is (type number, shape as torch has it, bytes), all zeros, aligned to 32."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += gguf_text(key) + gguf_value(value)
    offset = 0
    for name, (kind, shape, size) in tensors.items():
        head += gguf_text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset)
        offset += -(-size // 32) * 32
    return head + bytes(-len(head) % 32) + bytes(offset)


@pytest.fixture(scope="session")
def writing() -> SimpleNamespace:
    """The writers of this folder: `safetensors_bytes`, `write_safetensors` and `gguf_bytes`."""
    return SimpleNamespace(
        safetensors_bytes=safetensors_bytes, write_safetensors=write_safetensors, gguf_bytes=gguf_bytes
    )
