"""Folders: a model with `config.json` and weights, or a diffusers pipeline with one folder for each component."""

import re
from pathlib import Path
from typing import Any

from planner.errors import ModelError
from planner.model.files.bounded import read_json
from planner.model.files.opened import OpenedModel, from_config
from planner.model.files.safetensors import read_safetensors
from planner.model.files.tensors import TensorSummary, together

CONFIG, INDEX, PIPELINE = "config.json", "model.safetensors.index.json", "model_index.json"
MAX_ENTRIES = 10_000
_MAX_INDEX_BYTES = 64 * 1024**2
_NO_MODEL = re.compile(r"scheduler|tokenizer|feature_extractor|image_processor|safety_checker|processor")
_PLAIN_NAME = re.compile(r"[^/\\\x00]+\Z")


def names_in(folder: Path) -> list[str]:
    """The names of a folder's entries, at most `MAX_ENTRIES`."""
    try:
        names = []
        for entry in folder.iterdir():
            names.append(entry.name)
            if len(names) > MAX_ENTRIES:
                raise ModelError(f"{folder} has more than {MAX_ENTRIES} entries; choose the model's own folder.")
    except PermissionError:
        raise ModelError(f"{folder} may not be read. Ask for permission, or copy it elsewhere.") from None
    except (OSError, RuntimeError, ValueError) as problem:
        raise ModelError(f"{folder!r} cannot be read: {problem}.") from None
    return sorted(names)


def open_folder(folder: Path) -> OpenedModel:
    """The model in a folder."""
    names = names_in(folder)
    if PIPELINE in names:
        return _open_pipeline(folder)
    if CONFIG not in names:
        weights = [name for name in names if name.endswith((".gguf", ".safetensors"))]
        hint = f" Open one of its files, such as {weights[0]}." if weights else ""
        raise ModelError(f"{folder} holds no {CONFIG} and no {PIPELINE}, so it is no model's folder.{hint}")
    tensors, notes = folder_tensors(folder, names)
    return from_config(read_json(folder / CONFIG), folder.resolve().name, str(folder / CONFIG), tensors, notes)


def folder_tensors(folder: Path, names: list[str]) -> tuple[TensorSummary | None, tuple[str, ...]]:
    """All tensors of a folder's safetensors files, by the index where there is one; pickles are never opened."""
    if INDEX in names:
        return index_tensors(folder / INDEX)
    found = [name for name in names if name.endswith(".safetensors")]
    if found:
        return together(read_safetensors(folder / name) for name in found), ()
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in names):
        return None, ("Its weights are Python pickles, which can run code and are not opened.",)
    return None, ()


def index_tensors(path: Path) -> tuple[TensorSummary | None, tuple[str, ...]]:
    """The tensors of a split checkpoint; None, with a note, when some of its files are not there."""
    parts = index_parts(path)
    missing = [name for name in parts if not _stands(path.parent / name)]
    if missing:
        return None, (f"{len(missing)} of its {len(parts)} files are missing, such as {missing[0][:100]}.",)
    return together(read_safetensors(path.parent / name) for name in parts), ()


def _stands(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than the file system has any
        return False


def index_parts(path: Path) -> list[str]:
    """The files that an index names, which must stand beside it."""
    placed = read_json(path, _MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise ModelError(f"{path}: the key “weight_map” must be an object that names the file of each tensor.")
    parts = set(placed.values()) if all(isinstance(name, str) for name in placed.values()) else {""}
    if not all(_PLAIN_NAME.match(name) and name not in (".", "..") for name in parts):
        raise ModelError(f"{path}: “weight_map” must name files beside the index, and nothing else.")
    if len(parts) > MAX_ENTRIES:
        raise ModelError(f"{path} names {len(parts)} files, more than any model has.")
    return sorted(parts)


def _open_pipeline(folder: Path) -> OpenedModel:
    index = read_json(folder / PIPELINE)
    components: dict[str, Any] = {}
    summaries: list[TensorSummary] = []
    notes: list[str] = []
    for name, value in index.items():
        if not is_component(name, value):
            continue
        place = folder / name
        components[name] = read_json(place / CONFIG)
        tensors, found = folder_tensors(place, _one_precision(names_in(place)))
        notes += (f"{name}: {note}" for note in found)
        if tensors is not None:
            summaries.append(tensors)
    config = {"_class_name": index.get("_class_name", "DiffusionPipeline"), "components": components}
    complete = together(summaries) if len(summaries) == len(components) else None
    return from_config(config, folder.resolve().name, str(folder / PIPELINE), complete, tuple(notes))


def is_component(name: str, value: object) -> bool:
    """Whether an entry of `model_index.json` names a model: `[library, class]` under a plain folder name."""
    names_class = isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)
    if not names_class or _NO_MODEL.search(name):
        return False
    if not _PLAIN_NAME.match(name) or name in (".", ".."):
        raise ModelError(f"{PIPELINE}: the component “{name[:60]}” is no name of a folder.")
    return True


def _one_precision(names: list[str]) -> list[str]:
    """Without the second copy in 16 bits (`*.fp16.safetensors`) that many pipelines carry."""
    plain = [name for name in names if not re.search(r"\.(fp16|bf16|non_ema)[.-]", name)]
    return plain if any(name.endswith(".safetensors") for name in plain) else names
