"""Whatever a file holds: one clear message, exit status 2, no traceback, and the file as it was."""

import json
import os
from pathlib import Path

import pytest

SCENARIO = {
    "format": "vram-planner/scenario",
    "version": 1,
    "name": "x",
    "model": {"preset": "meta-llama/Llama-3.1-8B"},
    "phases": {"training": {"micro_batch_size": 1, "sequence_length": 4096}},
    "hardware": {"gpus": ["l40s"]},
}
CONFIG = json.loads((Path(__file__).parent / "data" / "config.json").read_text(encoding="utf-8"))
DIMENSIONS = {"task": "causal-lm", "layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 100}


def scenario(**changes: object) -> bytes:
    return json.dumps({**SCENARIO, **changes}).encode()


def training(**fields: object) -> bytes:
    return scenario(phases={"training": fields})


def config(**changes: object) -> bytes:
    return json.dumps({**CONFIG, **changes}).encode()


FILES = {
    "truncated.vramplan": (scenario()[:150], "cut off"),
    "truncated-config.json": (config()[:200], "cut off"),
    "binary.vramplan": (bytes(range(256)) * 20, "not a text file"),
    "picture.json": (b"\x89PNG\r\n\x1a\n\x00\x00", "not a text file"),
    "empty.vramplan": (b"", "empty"),
    "list.json": (b"[1, 2, 3]", "object"),
    "other.json": (b'{"hello": "world"}', "format"),
    "nested.json": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested"),
    "long-number.json": (b'{"model_type": "llama", "hidden_size": ' + b"9" * 10_000 + b"}", "too many digits"),
    "corpus.json": (b'{"format": "vram-planner/corpus", "version": 1, "name": "", "cases": []}', "validate"),
    "newer.vramplan": (scenario(version=99), "99"),
    "nan.vramplan": (training(sequence_length=float("nan")), "NaN"),
    "infinite.vramplan": (training(sequence_length=float("inf")), "phases.training.sequence_length"),
    "word.vramplan": (training(micro_batch_size="four"), "phases.training.micro_batch_size"),
    "fraction.vramplan": (training(micro_batch_size=1.5), "phases.training.micro_batch_size"),
    "negative.vramplan": (training(sequence_length=-1), "phases.training.sequence_length"),
    "zero.vramplan": (training(micro_batch_size=0), "phases.training.micro_batch_size"),
    "unknown-field.vramplan": (training(micro_batchsize=1), "micro_batchsize"),
    "unknown-choice.vramplan": (training(precision="fp12"), "phases.training.precision"),
    "unknown-preset.vramplan": (scenario(model={"preset": "meta-llama/Llama-9"}), "meta-llama/Llama-9"),
    "unknown-gpu.vramplan": (scenario(hardware={"gpus": ["h1000"]}), "h1000"),
    "zero-layers.vramplan": (scenario(model={"dimensions": {**DIMENSIONS, "layers": 0}}), "model.dimensions.layers"),
    "too-large.vramplan": (scenario(model={"parameters": 10**30}), "model.parameters"),
    "three-way.vramplan": (training(parallelism={"tensor": 3}), "3 does not divide"),
    "zero-layers.json": (config(num_hidden_layers=0), "num_hidden_layers"),
    "negative.json": (config(hidden_size=-4096), "hidden_size"),
    "word.json": (config(hidden_size="wide"), "hidden_size"),
    "huge.json": (config(hidden_size=10**30), "hidden_size"),
    "nan.json": (config(hidden_size=float("nan")), "NaN"),
    "unknown-architecture.json": (
        json.dumps({"architectures": ["FrobnicatorForCausalLM"], "model_type": "frobnicator"}).encode(),
        "frobnicator",
    ),
    "untyped-architecture.json": (json.dumps({"architectures": ["FrobnicatorForCausalLM"]}).encode(), "model_type"),
}


def assert_one_clear_message(outcome, *words: str) -> None:
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith("vram-planner: ")
    assert outcome.err.count("vram-planner: ") == 1
    assert len(outcome.err) < 1000
    assert "Traceback" not in outcome.err
    assert "pydantic" not in outcome.err
    for word in words:
        assert word in outcome.err


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_or_senseless_file_is_refused_with_one_message(command, tmp_path, name: str):
    content, word = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert_one_clear_message(command("estimate", path), word)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["truncated.vramplan", "zero-layers.json", "unknown-gpu.vramplan"])
def test_check_and_render_refuse_what_estimate_refuses(command, tmp_path, name: str):
    content, word = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert_one_clear_message(command("check", path), word)
    assert_one_clear_message(command("render", path, tmp_path / "chart.png"), word)
    assert not (tmp_path / "chart.png").exists()


@pytest.mark.parametrize("subcommand", ["estimate", "check", "validate"])
def test_a_missing_file_is_named(command, tmp_path, subcommand: str):
    assert_one_clear_message(command(subcommand, tmp_path / "none.vramplan"), "none.vramplan")


@pytest.mark.parametrize("subcommand", ["estimate", "check", "validate"])
def test_a_folder_is_refused(command, tmp_path, subcommand: str):
    assert_one_clear_message(command(subcommand, tmp_path), str(tmp_path))


@pytest.mark.parametrize("subcommand", ["estimate", "check", "validate"])
def test_a_file_without_permission_is_refused(command, tmp_path, monkeypatch, subcommand: str):
    path = tmp_path / "secret.vramplan"
    path.write_bytes(scenario())
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read everything
        opened = Path.open

        def refuse(self: Path, *arguments, **options):
            if self == path:
                raise PermissionError(13, "Permission denied", str(self))
            return opened(self, *arguments, **options)

        monkeypatch.setattr(Path, "open", refuse)
        monkeypatch.setattr(Path, "read_text", refuse)
    assert_one_clear_message(command(subcommand, path), "secret.vramplan")


@pytest.mark.usefixtures("qapp")
def test_a_picture_that_cannot_be_written_is_refused_and_an_old_one_kept(command, tmp_path, plan_file):
    assert_one_clear_message(command("render", plan_file, tmp_path / "none" / "chart.png"), "none", "does not exist")
    old = tmp_path / "chart.gif"
    old.write_bytes(b"old")
    assert_one_clear_message(command("render", plan_file, old), "chart.gif", ".png")
    assert old.read_bytes() == b"old"
    assert_one_clear_message(command("render", plan_file, tmp_path), tmp_path.name)


def test_every_contradiction_is_named_at_once(command, tmp_path):
    path = tmp_path / "plan.vramplan"
    phases = {
        "training": {"parallelism": {"tensor": 3}},
        "serving": {"parallelism": {"tensor": 5}},
    }
    path.write_bytes(scenario(phases=phases))
    outcome = command("estimate", path)
    assert outcome.status == 2
    assert "phases.training.parallelism.tensor" in outcome.err
    assert "phases.serving.parallelism.tensor" in outcome.err
