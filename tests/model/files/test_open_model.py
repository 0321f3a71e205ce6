"""What a person may choose or drop: configurations, folders, weights, and things that are none of these."""

import json
import pickle
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.errors import ModelError
from planner.model.counts import parameters
from planner.model.files import open_model
from planner.model.presets import load_presets

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 128,
    "vocab_size": 100,
    "tie_word_embeddings": False,
}
TENSORS = {"model.embed_tokens.weight": ("BF16", (100, 64)), "model.norm.weight": ("BF16", (64,))}
for _layer in range(2):
    _name = f"model.layers.{_layer}."
    TENSORS |= {
        _name + "self_attn.q_proj.weight": ("BF16", (256, 64)),
        _name + "self_attn.k_proj.weight": ("BF16", (128, 64)),
        _name + "self_attn.v_proj.weight": ("BF16", (128, 64)),
        _name + "self_attn.o_proj.weight": ("BF16", (64, 256)),
        _name + "mlp.gate_proj.weight": ("BF16", (128, 64)),
        _name + "mlp.up_proj.weight": ("BF16", (128, 64)),
        _name + "mlp.down_proj.weight": ("BF16", (64, 128)),
        _name + "input_layernorm.weight": ("BF16", (64,)),
        _name + "post_attention_layernorm.weight": ("BF16", (64,)),
    }
TENSORS |= {"lm_head.weight": ("BF16", (100, 64))}


def _folder(place: Path) -> Path:
    place.mkdir()
    (place / "config.json").write_text(json.dumps(CONFIG))
    return place


def test_a_folder_with_configuration_and_weights_agrees_with_itself(tmp_path: Path, writing: SimpleNamespace) -> None:
    folder = _folder(tmp_path / "tiny")
    writing.write_safetensors(folder / "model.safetensors", TENSORS)
    opened = open_model(folder)
    assert opened.name == "tiny"
    assert opened.source == {"config": CONFIG}
    assert opened.tensors is not None
    assert opened.tensors.elements == parameters(opened.spec)
    assert opened.notes == ()


def test_a_disagreement_between_configuration_and_weights_is_shown(tmp_path: Path, writing: SimpleNamespace) -> None:
    folder = _folder(tmp_path / "tiny")
    writing.write_safetensors(folder / "model.safetensors", {"model.norm.weight": ("BF16", (64,))})
    assert "fewer than" in open_model(folder).notes[0]


def test_a_split_checkpoint_is_read_through_its_index(tmp_path: Path, writing: SimpleNamespace) -> None:
    folder = _folder(tmp_path / "tiny")
    names = list(TENSORS)
    halves = {"model-00001-of-00002.safetensors": names[:8], "model-00002-of-00002.safetensors": names[8:]}
    for file, members in halves.items():
        writing.write_safetensors(folder / file, {name: TENSORS[name] for name in members})
    placed = {name: file for file, members in halves.items() for name in members}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    for path in (index, folder, folder / "model-00001-of-00002.safetensors"):
        opened = open_model(path)
        assert opened.tensors is not None
        assert opened.tensors.elements == parameters(opened.spec)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "missing" in open_model(folder).notes[0]


def test_an_index_may_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "tiny")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../../etc/passwd"}}')
    with pytest.raises(ModelError, match="beside the index"):
        open_model(folder)


def test_weights_alone_tell_a_llama_shaped_structure(tmp_path: Path, writing: SimpleNamespace) -> None:
    opened = open_model(writing.write_safetensors(tmp_path / "alone.safetensors", TENSORS))
    assert parameters(opened.spec) == opened.tensors.elements if opened.tensors else False
    assert opened.spec.approximate


def test_weights_of_unknown_names_become_a_size(tmp_path: Path, writing: SimpleNamespace) -> None:
    opened = open_model(writing.write_safetensors(tmp_path / "alone.safetensors", {"x": ("F32", (2000, 1000))}))
    assert opened.source == {"parameters": 2_000_000}


def test_a_diffusers_folder_is_read_with_all_its_components(tmp_path: Path) -> None:
    preset = load_presets()["runwayml/stable-diffusion-v1-5"]
    folder = tmp_path / "sd"
    index: dict[str, Any] = {"_class_name": preset.config["_class_name"], "scheduler": ["diffusers", "PNDMScheduler"]}
    for name, config in preset.config["components"].items():
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(config))
        index[name] = ["diffusers", "Any"]
    (folder / "model_index.json").write_text(json.dumps(index))
    assert parameters(open_model(folder).spec) == 1_066_235_307


def test_pickles_and_archives_are_never_opened(tmp_path: Path) -> None:
    pickled = tmp_path / "model.bin"
    pickled.write_bytes(pickle.dumps({"a": 1}))
    archive = tmp_path / "model.safetensors"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data.pkl", "x")
    for path in (pickled, archive):
        with pytest.raises(ModelError, match="pickle or an archive"):
            open_model(path)


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 50, b"{", b"[]", b'{"a": 1}', b'{"model_type": "llama"}'])
def test_what_is_no_model_is_refused_with_a_clear_message(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"config\.json"):
        open_model(path)


def test_an_empty_folder_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        open_model(tmp_path)
