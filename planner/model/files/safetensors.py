"""The header of a safetensors file: eight bytes of length, then JSON. The tensors themselves are never read.

Format: https://github.com/huggingface/safetensors (README, "Format").
"""

from pathlib import Path
from typing import Any

from planner.errors import ModelError
from planner.model.files.bounded import file_size, parse_object, read_start
from planner.model.files.tensors import TensorEntry, TensorSummary

MAX_HEADER_BYTES = 32 * 1024**2
"""The format allows 100 MB; no published file comes near this limit."""
_LENGTH_BYTES = 8
_MAX_ELEMENTS = 2**62
BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "U16": 16,
    "I16": 16,
    "F16": 16,
    "BF16": 16,
    "U32": 32,
    "I32": 32,
    "F32": 32,
    "U64": 64,
    "I64": 64,
    "F64": 64,
    "C64": 64,
}


def read_safetensors(path: Path) -> TensorSummary:
    """The tensors that a safetensors file declares, checked to fill its data exactly."""
    whole = file_size(path)
    start = read_start(path, _LENGTH_BYTES)
    if len(start) < _LENGTH_BYTES:
        raise ModelError(f"{path} is too short to be a safetensors file.")
    length = int.from_bytes(start, "little")
    if length > whole - _LENGTH_BYTES:
        raise ModelError(
            f"{path} is no safetensors file, or is cut off: its header should have {length} bytes, "
            f"but only {whole - _LENGTH_BYTES} follow."
        )
    if length > MAX_HEADER_BYTES:
        raise ModelError(f"{path}: a header of {length // 1024**2} MiB is more than any model needs; it is not read.")
    header = parse_object(read_start(path, _LENGTH_BYTES + length)[_LENGTH_BYTES:], f"The header of {path}")
    header.pop("__metadata__", None)
    entries = [_entry(path, name, value) for name, value in header.items()]
    _check_layout(path, entries, whole - _LENGTH_BYTES - length)
    return TensorSummary(tuple(entry for entry, _ in entries))


def _entry(path: Path, name: str, value: Any) -> tuple[TensorEntry, int]:
    """The tensor of one header entry, and where its data begins."""
    if not isinstance(value, dict):
        raise _wrong(path, name, "is no object")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _wrong(path, name, f"has the type {str(dtype)[:20]!r}, which is not known")
    if not isinstance(shape, list) or not all(_whole(size) for size in shape):
        raise _wrong(path, name, "has a shape that is no list of whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_whole(offset) for offset in offsets):
        raise _wrong(path, name, "has offsets that are no two whole numbers")
    elements = 1
    for size in shape:
        elements *= size
        if elements > _MAX_ELEMENTS:
            raise _wrong(path, name, "has a shape too large to exist")
    size_bytes = offsets[1] - offsets[0]
    if elements * BITS[dtype] != 8 * size_bytes:
        raise _wrong(path, name, f"has {size_bytes} bytes of data, which its shape and type contradict")
    return TensorEntry(name, tuple(shape), dtype, size_bytes), offsets[0]


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_ELEMENTS


def _check_layout(path: Path, entries: list[tuple[TensorEntry, int]], available: int) -> None:
    """Tensors stand one after another without gaps and fill the file."""
    end = 0
    for entry, begin in sorted(entries, key=lambda item: (item[1], item[0].size_bytes)):
        if begin != end:
            raise _wrong(path, entry.name, "overlaps another one or leaves a gap")
        end = begin + entry.size_bytes
    if end != available:
        raise ModelError(
            f"{path} is cut off or damaged: its tensors need {end} bytes, but it holds {available} of data."
        )


def _wrong(path: Path, name: str, what: str) -> ModelError:
    return ModelError(f"{path}: the tensor “{name[:80]}” {what}. The file is damaged.")
