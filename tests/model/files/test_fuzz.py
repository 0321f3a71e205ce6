"""Whole folders as people have them, with any byte or any key of any file changed: only our own errors come out."""

import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.errors import ModelError, PlannerError
from planner.model.files import open_model
from planner.model.presets import load_presets

LLAMA = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 10,
    "tie_word_embeddings": False,
}
TENSORS = {
    "model.embed_tokens.weight": ("BF16", (10, 8)),
    "lm_head.weight": ("BF16", (10, 8)),
    "model.norm.weight": ("BF16", (8,)),
    "model.layers.0.input_layernorm.weight": ("BF16", (8,)),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", (8, 8)),
    "model.layers.0.self_attn.k_proj.weight": ("BF16", (8, 8)),
    "model.layers.0.mlp.up_proj.weight": ("BF16", (16, 8)),
}
BAD: tuple[Any, ...] = (
    None,
    -1,
    0,
    2**63,
    10**40,
    1.5,
    "",
    "../x",
    "\x00",
    "x" * 5000,
    True,
    [],
    [1, "a"],
    {},
    {"a": []},
)
MOST_SECONDS = 5.0


def _write_split(folder: Path, writing: SimpleNamespace) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    names = list(TENSORS)
    placed = {}
    for number, part in enumerate((names[:4], names[4:]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        writing.write_safetensors(folder / file, {name: TENSORS[name] for name in part})
        placed |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_pipeline(folder: Path, writing: SimpleNamespace) -> None:
    config = load_presets()["runwayml/stable-diffusion-v1-5"].config
    folder.mkdir()
    index: dict[str, Any] = {"_class_name": "StableDiffusionPipeline", "scheduler": ["diffusers", "PNDMScheduler"]}
    for name, component in config["components"].items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(component))
        index[name] = ["diffusers", "Any"]
    writing.write_safetensors(folder / "vae" / "diffusion_pytorch_model.safetensors", TENSORS)
    (folder / "model_index.json").write_text(json.dumps(index))


@pytest.fixture(scope="module", params=[_write_split, _write_pipeline], ids=["split checkpoint", "diffusers pipeline"])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, writing: SimpleNamespace) -> Path:
    write: Callable[[Path, SimpleNamespace], None] = request.param
    folder = tmp_path_factory.mktemp("sound") / "model"
    write(folder, writing)
    open_model(folder)
    return folder


def _some_file(folder: Path, chance: random.Random, ending: str = "") -> Path:
    return chance.choice(sorted(path for path in folder.rglob("*" + ending) if path.is_file()))


def _opened(folder: Path) -> str:
    """What is told of a changed folder; any other error than ours, and any long wait, fails the test."""
    start = time.monotonic()
    try:
        told = open_model(folder).name
    except PlannerError as error:
        told = error.message
    assert time.monotonic() - start < MOST_SECONDS
    return told


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.randoms(use_true_random=False), st.binary(max_size=30), st.integers(0, 20))
def test_any_bytes_of_any_file_may_be_changed(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, chance: random.Random, noise: bytes, cut: int
) -> None:
    folder = _copy(sound, tmp_path_factory)
    path = _some_file(folder, chance)
    content = path.read_bytes()
    at = chance.randrange(len(content))
    path.write_bytes(content[:at] + noise + content[at + cut :])
    assert _opened(folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(BAD))
def test_any_value_of_any_json_file_may_be_changed(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, chance: random.Random, value: Any
) -> None:
    folder = _copy(sound, tmp_path_factory)
    path = _some_file(folder, chance, ".json")
    tree = node = json.loads(path.read_text())
    while True:
        key = chance.choice(sorted(node))
        if not isinstance(node[key], dict) or not node[key]:
            break
        node = node[key]
    node[key] = value
    path.write_text(json.dumps(tree))
    assert _opened(folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_file_may_be_missing_a_loop_or_a_folder(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    folder = _copy(sound, tmp_path_factory)
    path = _some_file(folder, chance)
    path.unlink()
    kind = chance.choice(("missing", "loop", "folder"))
    if kind == "loop":
        path.symlink_to(path)
    elif kind == "folder":
        path.mkdir()
    assert _opened(folder)


def test_folders_that_lead_into_each_other_are_refused_at_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(second)
    second.symlink_to(first)
    with pytest.raises(ModelError):
        open_model(first)
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "unet").symlink_to(inner)
    (inner / "model_index.json").write_text(json.dumps({"unet": ["diffusers", "UNet2DConditionModel"]}))
    with pytest.raises(ModelError):
        open_model(inner)


def _copy(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy, at the same place each time so that many examples leave little behind."""
    place = tmp_path_factory.getbasetemp() / "changed"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    return place
