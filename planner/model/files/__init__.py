"""Models from files: `config.json`, model folders, safetensors, GGUF and diffusers folders; headers only.

`open_model(path)` looks at the content, not at the name alone, and raises `ModelError` for whatever is not a model.
"""

import re
from pathlib import Path

from planner.errors import ModelError
from planner.model.dimensions import from_parameter_count
from planner.model.files.bounded import file_size, read_json, read_start
from planner.model.files.folder import CONFIG, INDEX, PIPELINE, index_tensors, open_folder
from planner.model.files.gguf import MAGIC, read_gguf
from planner.model.files.gguf_config import gguf_config
from planner.model.files.infer import inferred_config
from planner.model.files.opened import OpenedModel, from_config
from planner.model.files.safetensors import read_safetensors
from planner.model.files.tensors import TensorEntry, TensorSummary, together

__all__ = ["OpenedModel", "TensorEntry", "TensorSummary", "open_model", "read_gguf", "read_safetensors"]

_SPLIT = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf\Z")
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def open_model(path: Path) -> OpenedModel:
    """The model that a file or folder describes."""
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError, RuntimeError) as problem:
        raise ModelError(f"{path!r} cannot be read: {problem}.") from None
    if is_folder:
        return open_folder(path)
    start = read_start(path, 16)
    if start.startswith(MAGIC):
        return _open_gguf(path)
    if start.startswith(b"PK\x03\x04") or start.startswith(_PICKLES):
        raise ModelError(f"{path} is a pickle or an archive, which can run code when it is loaded; it is not opened.")
    if path.name == INDEX or path.name.endswith(".safetensors.index.json"):
        return _open_index(path)
    if path.name == PIPELINE:
        return open_folder(path.parent)
    if path.suffix == ".safetensors":
        return _open_safetensors(path)
    if path.suffix == ".gguf":
        raise ModelError(f"{path} is no GGUF file: it does not begin with “GGUF”.")
    if start.lstrip()[:1] == b"{" or path.suffix == ".json":
        name = path.resolve().parent.name if path.name == CONFIG else path.stem
        return from_config(read_json(path), name, str(path))
    raise ModelError(
        f"{path} is none of the files that describe a model: a config.json, a safetensors or a GGUF file, "
        f"or a folder with them ({file_size(path)} bytes)."
    )


def _open_gguf(path: Path) -> OpenedModel:
    header = read_gguf(path)
    tensors = header.tensors
    match = _SPLIT.match(path.name)
    stated = header.metadata.get("split.count", 1)
    if match and isinstance(stated, int) and stated > 1:
        if not 1 < stated <= 9999 or int(match[3]) != stated:
            raise ModelError(f"{path} says that it is one of {stated} parts, which its name contradicts.")
        parts = [path.with_name(f"{match[1]}-{number:05}-of-{match[3]}.gguf") for number in range(1, stated + 1)]
        headers = [header if part == path else read_gguf(part) for part in parts]
        header, tensors = headers[0], together(part.tensors for part in headers)
    name = path.name.removesuffix(".gguf")
    return from_config(gguf_config(header, tensors, path), name, str(path), tensors)


def _open_index(path: Path) -> OpenedModel:
    tensors, notes = index_tensors(path)
    beside = path.parent / CONFIG
    if beside.is_file():
        return from_config(read_json(beside), path.resolve().parent.name, str(beside), tensors, notes)
    if tensors is None:
        raise ModelError(f"{path}: there is no {CONFIG} beside it, and {notes[0][0].lower()}{notes[0][1:]}")
    return _from_tensors(path, tensors)


def _open_safetensors(path: Path) -> OpenedModel:
    tensors = read_safetensors(path)
    beside = path.parent / CONFIG
    split = re.search(r"-\d{5}-of-\d{5}\.safetensors\Z", path.name)
    if split and (path.parent / INDEX).is_file():
        return _open_index(path.parent / INDEX)
    if beside.is_file() and not split:
        return from_config(read_json(beside), path.resolve().parent.name, str(beside), tensors)
    return _from_tensors(path, tensors)


def _from_tensors(path: Path, tensors: TensorSummary) -> OpenedModel:
    """Without a configuration: the structure that the names tell, else only the number of parameters."""
    config = inferred_config(tensors)
    note = "There is no config.json beside it: the structure is told from the tensors, the width of a head is guessed."
    if config is not None:
        return from_config(config, path.stem, str(path), tensors, (note,))
    spec = from_parameter_count(tensors.elements)
    only = "There is no config.json beside it and its tensors are of an unknown kind: only their number is used."
    return OpenedModel(path.stem, {"parameters": tensors.elements}, spec, tensors, (only,))
