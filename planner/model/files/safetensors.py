"""The header of a safetensors file: eight bytes of length, then JSON. The tensors themselves are never read.

Format: https://github.com/huggingface/safetensors (README, "Format").
"""

import json
from itertools import chain, count
from math import prod
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
    header = _parsed(read_start(path, _LENGTH_BYTES + length)[_LENGTH_BYTES:], f"The header of {path}")
    header.pop("__metadata__", None)
    tensors, begins = _tensors(path, header)
    _check_layout(path, tensors, begins, whole - _LENGTH_BYTES - length)
    return TensorSummary(tensors)


def _parsed(content: bytes, where: str) -> dict[str, Any]:
    """The header's object. Quickly where it is plain to see that no key stands twice, else with a check of each."""
    try:
        header = json.loads(content)
    except (ValueError, RecursionError):
        return parse_object(content, where)
    keys = (b'"dtype"', b'"shape"', b'"data_offsets"')
    tensors = len(header) - ("__metadata__" in header) if isinstance(header, dict) else -1
    # A quote inside a text is escaped, so these are keys, or whole texts; any surplus asks for the thorough way.
    plain = b"\\" not in content and all(content.count(key) == tensors for key in keys)
    return header if plain and content.startswith(b"{") else parse_object(content, where)


def _tensors(path: Path, header: dict[str, Any]) -> tuple[tuple[TensorEntry, ...], list[int]]:
    """The tensors of a header, and where the data of each begin.

    All are looked at together, which is several times quicker; only where something is wrong one after another.
    """
    try:
        shapes = [tuple(value["shape"]) for value in header.values()]
        dtypes = [value["dtype"] for value in header.values()]
        begins, ends = map(list, zip(*[value["data_offsets"] for value in header.values()], strict=True))
        sizes = [*begins, *ends, *chain.from_iterable(shapes)]
        # `type`, because true counts as a whole number in Python.
        whole = set(map(type, sizes)) == {int} and min(sizes) >= 0 and max(sizes) < _MAX_ELEMENTS
        bits = [8 * (end - begin) for begin, end in zip(begins, ends, strict=True)]
        sound = whole and bits == [prod(shape) * BITS[dtype] for shape, dtype in zip(shapes, dtypes, strict=True)]
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        found = [_checked(path, name, value) for name, value in header.items()]
        return tuple(entry for entry, _ in found), [begin for _, begin in found]
    return tuple(map(TensorEntry, header, shapes, dtypes, [size // 8 for size in bits])), begins


def _checked(path: Path, name: str, value: Any) -> tuple[TensorEntry, int]:
    """One tensor and where its data begin; an error that names it when it is not sound."""
    if not isinstance(value, dict):
        raise _wrong(path, name, "is no object")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _wrong(path, name, f"has the type {str(dtype)[:20]!r}, which is not known")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise _wrong(path, name, "has a shape that is no list of whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise _wrong(path, name, "has offsets that are no two whole numbers")
    size_bytes = offsets[1] - offsets[0]
    if prod(shape) * BITS[dtype] != 8 * size_bytes:
        raise _wrong(path, name, f"has {size_bytes} bytes of data, which its shape and type contradict")
    return TensorEntry(name, tuple(shape), dtype, size_bytes), offsets[0]


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < _MAX_ELEMENTS


def _check_layout(path: Path, tensors: tuple[TensorEntry, ...], begins: list[int], available: int) -> None:
    """Tensors stand one after another without gaps and fill the file."""
    end = 0
    for begin, size, index in sorted(zip(begins, [tensor.size_bytes for tensor in tensors], count(), strict=False)):
        if begin != end:
            raise _wrong(path, tensors[index].name, "overlaps another one or leaves a gap")
        end = begin + size
    if end != available:
        raise ModelError(
            f"{path} is cut off or damaged: its tensors need {end} bytes, but it holds {available} of data."
        )


def _wrong(path: Path, name: str, what: str) -> ModelError:
    return ModelError(f"{path}: the tensor “{name[:80]}” {what}. The file is damaged.")
