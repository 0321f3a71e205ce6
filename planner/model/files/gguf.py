"""The header of a GGUF file: metadata and the list of tensors. The tensors themselves are never read.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Long arrays (the vocabulary) are stepped over.
"""

import json
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planner.errors import ModelError
from planner.model.files.bounded import file_size
from planner.model.files.tensors import TensorEntry, TensorSummary
from planner.resources import resource

MAGIC = b"GGUF"
_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_KEYS, _MAX_TENSORS, _MAX_NAME, _MAX_DIMENSIONS, _MAX_DEPTH = 65_536, 1_048_576, 65_535, 8, 4
_KEPT_ITEMS, _KEPT_TEXT = 4096, 1024**2
_MAX_HEADER_BYTES = 128 * 1024**2
"""Real headers, vocabulary included, stay below 30 MB."""
_MAX_ELEMENTS = 2**62


@dataclass(frozen=True, slots=True)
class ArrayLength:
    """Stands for an array that is too long to keep; only how many items it has."""

    items: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata by key, and the tensors of this file."""

    metadata: Mapping[str, Any]
    tensors: TensorSummary


@cache
def tensor_types() -> Mapping[int, tuple[str, int, int]]:
    """(name, weights per block, bytes per block) by the number of a type."""
    with resource("models", "gguf-types.json").open(encoding="utf-8") as file:
        types = json.load(file)["types"]
    return {int(key): (value["name"], value["weights"], value["bytes"]) for key, value in types.items()}


def read_gguf(path: Path) -> GgufHeader:
    """The header of one GGUF file, version 2 or 3."""
    whole = file_size(path)
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise ModelError(f"{path} is no GGUF file: it does not begin with “GGUF”.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                return _Reader(view, whole, path).header()
    except (OSError, ValueError) as problem:
        raise ModelError(f"{path} cannot be read: {problem}.") from None
    except struct.error:
        raise ModelError(f"{path} is cut off inside its header.") from None


class _Reader:
    """A place in the file that moves forward and never past its end."""

    def __init__(self, view: mmap.mmap, size: int, path: Path) -> None:
        self.view, self.size, self.path, self.at = view, size, path, 4

    def header(self) -> GgufHeader:
        version = self.number("I")
        if version not in (2, 3):
            raise self.wrong(f"version {version} of the format is not known; it must be 2 or 3")
        tensors, keys = self.number("Q"), self.number("Q")
        if keys > _MAX_KEYS or tensors > _MAX_TENSORS:
            raise self.wrong(f"{tensors} tensors and {keys} keys are more than any model has")
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            name = self.text()
            if name in metadata:
                raise self.wrong(f"the key “{name[:60]}” stands twice")
            metadata[name] = self.value(self.number("I"), 0)
            if self.at > _MAX_HEADER_BYTES:
                raise self.wrong("its metadata are far larger than any model's")
        found = [self.tensor() for _ in range(tensors)]
        if len({entry.name for entry, _ in found}) < len(found):
            raise self.wrong("two tensors have the same name")
        self.check_data(found, metadata.get("general.alignment", 32))
        return GgufHeader(metadata, TensorSummary(tuple(entry for entry, _ in found)))

    def tensor(self) -> tuple[TensorEntry, int]:
        name = self.text()
        dimensions = self.number("I")
        if dimensions > _MAX_DIMENSIONS:
            raise self.wrong(f"the tensor “{name[:60]}” has {dimensions} dimensions")
        sizes = [self.number("Q") for _ in range(dimensions)]
        kind, offset = self.number("I"), self.number("Q")
        if kind not in tensor_types():
            raise self.wrong(f"the tensor “{name[:60]}” has type {kind}, which is not known")
        type_name, weights, block = tensor_types()[kind]
        elements = 1
        for size in sizes:
            elements *= size
            if elements > _MAX_ELEMENTS:
                raise self.wrong(f"the tensor “{name[:60]}” is too large to exist")
        if (sizes[0] if sizes else 1) % weights:
            raise self.wrong(f"rows of the tensor “{name[:60]}” are no whole number of {type_name} blocks")
        # GGUF lists the fastest dimension first, torch the slowest.
        return TensorEntry(name, tuple(reversed(sizes)), type_name, elements // weights * block), offset

    def check_data(self, found: list[tuple[TensorEntry, int]], alignment: Any) -> None:
        if not isinstance(alignment, int) or not 1 <= alignment <= 2**20:
            raise self.wrong("its alignment is no sensible number")
        start = -(-self.at // alignment) * alignment
        end = max((offset + entry.size_bytes for entry, offset in found), default=0)
        if found and start + end > self.size:
            raise self.wrong(f"it is cut off: its tensors need {start + end} bytes, but it has {self.size}")

    def number(self, code: str) -> Any:
        size = struct.calcsize("<" + code)
        (value,) = struct.unpack_from("<" + code, self.view, self.at)
        self.at += size
        return value

    def text(self) -> str:
        """A name, which must be short and in UTF-8."""
        content = self.bytes_of_text()
        if len(content) > _MAX_NAME:
            raise self.wrong(f"a name has {len(content)} bytes")
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise self.wrong("a name is not in UTF-8") from None

    def bytes_of_text(self) -> bytes:
        length = self.number("Q")
        if length > self.size - self.at:
            raise self.wrong(f"a text should have {length} bytes, which is more than it can")
        begin = self.at
        self.at += length
        return self.view[begin : begin + min(length, _KEPT_TEXT)]

    def value(self, kind: int, depth: int) -> Any:
        if kind in _FORMATS:
            return self.number(_FORMATS[kind])
        if kind == _STRING:
            return self.bytes_of_text().decode("utf-8", errors="replace")
        if kind == _ARRAY and depth < _MAX_DEPTH:
            return self.array(depth + 1)
        raise self.wrong(f"a value has type {kind}, which is not known")

    def array(self, depth: int) -> Any:
        kind, count = self.number("I"), self.number("Q")
        if kind in _FORMATS:
            return self.numbers(_FORMATS[kind], count)
        if count > (self.size - self.at) // 8:
            raise self.wrong(f"an array should have {count} items, which is more than it can")
        if count <= _KEPT_ITEMS:
            return [self.value(kind, depth) for _ in range(count)]
        if kind != _STRING:
            raise self.wrong(f"an array of arrays has {count} items")
        self.step_over_texts(count)
        return ArrayLength(count)

    def numbers(self, code: str, count: int) -> Any:
        width, begin = struct.calcsize("<" + code), self.at
        if count > (self.size - begin) // width:
            raise self.wrong(f"an array should have {count} items, which is more than it can")
        self.at += count * width
        if count > _KEPT_ITEMS:
            return ArrayLength(count)
        return list(struct.unpack_from(f"<{count}{code}", self.view, begin))

    def step_over_texts(self, count: int) -> None:
        """Past `count` texts without decoding them: a vocabulary has a quarter of a million."""
        unpack, view, at, last = struct.Struct("<Q").unpack_from, self.view, self.at, self.size - 8
        for _ in range(count):
            if at > last:
                raise self.wrong("it is cut off inside its vocabulary")
            at += 8 + unpack(view, at)[0]
        if at > self.size:
            raise self.wrong("it is cut off inside its vocabulary")
        self.at = at

    def wrong(self, what: str) -> ModelError:
        return ModelError(f"{self.path} is no sound GGUF file: {what}.")
