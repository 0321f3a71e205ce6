"""Every reader of what comes from elsewhere, each with files that it reads, to be fed with damaged ones.

A reader gets bytes, may refuse them with the planner's own error, and must not do anything else.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests/model/files")]

from conftest import gguf_bytes, safetensors_bytes  # noqa: E402 - of tests/model/files

from planner.catalog import load_catalog  # noqa: E402
from planner.engine.estimate import estimate  # noqa: E402
from planner.errors import PlannerError  # noqa: E402
from planner.evidence.corpus import load_corpus  # noqa: E402
from planner.evidence.score import score_corpus  # noqa: E402
from planner.model import resolve_model  # noqa: E402
from planner.model.files import open_model  # noqa: E402
from planner.model.hub import fetch_model  # noqa: E402
from planner.report.opening import load_report  # noqa: E402
from planner.scenario import issue_text, validate  # noqa: E402
from planner.scenario.files import load_scenario, scenario_to_json  # noqa: E402

_CATALOG = load_catalog()
_LLAMA = {
    "model.embed_tokens.weight": ("BF16", (100, 64)),
    "model.norm.weight": ("BF16", (64,)),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", (64, 64)),
    "model.layers.0.self_attn.k_proj.weight": ("BF16", (64, 64)),
    "model.layers.0.mlp.up_proj.weight": ("BF16", (128, 64)),
}
_GGUF = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.embedding_length": 32,
    "llama.attention.head_count": 4,
    "llama.feed_forward_length": 64,
    "llama.context_length": 64,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.tokens": ["a", "b"],
}
_GGUF_TENSORS = {"token_embd.weight": (1, (2, 32), 128), "output_norm.weight": (0, (32,), 128)}


@dataclass(frozen=True, slots=True)
class Reader:
    """What reads, the ending of its files, and sound ones to start from."""

    name: str
    suffix: str
    read: Callable[[Path], object]
    seeds: tuple[bytes, ...]

    def feed(self, content: bytes, folder: Path) -> str:
        """Have it read `content` from a file; returns what a person would be told, or nothing."""
        path = folder / self.name / f"{self.name}{self.suffix}"  # alone: what lies beside a model's file is read too
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        try:
            self.read(path)
        except PlannerError as error:
            return error.message
        return ""


def _plan(path: Path) -> None:
    """Open a plan as the window does: resolve its model, look for issues, estimate where there are none."""
    scenario = load_scenario(path)
    spec = resolve_model(scenario.model, _CATALOG.presets)
    issues = validate(scenario, spec, _CATALOG.hardware)
    for issue in issues:
        issue_text(issue)
    if not any(issue.severity == "error" for issue in issues):
        estimate(scenario, _CATALOG)
    scenario_to_json(scenario)


def _folder(path: Path) -> None:
    """A folder whose configuration is the given file, beside sound weights."""
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(path.read_bytes())
    (folder / "model.safetensors").write_bytes(safetensors_bytes(_LLAMA))
    open_model(folder)


def _pipeline(path: Path) -> None:
    """A folder of diffusers whose index is the given file."""
    folder = path.with_suffix("")
    component = folder / "unet"
    component.mkdir(parents=True, exist_ok=True)
    unet = _CATALOG.presets["runwayml/stable-diffusion-v1-5"].config["components"]["unet"]
    (component / "config.json").write_text(json.dumps(unet))
    (folder / "model_index.json").write_bytes(path.read_bytes())
    open_model(folder)


class _Answer(BytesIO):
    """What a server sends."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.headers = {"Content-Length": str(len(content))}


def _hub(path: Path) -> None:
    """The Hub answers every question with the given bytes."""
    content = path.read_bytes()
    with patch("planner.model.hub.urllib.request.urlopen", lambda *_a, **_k: _Answer(content)):
        fetch_model("someone/something", endpoint="https://hub.invalid")


def _corpus(path: Path) -> None:
    corpus = load_corpus(path)
    score_corpus(corpus.model_copy(update={"cases": corpus.cases[:3]}), _CATALOG)


def _configs() -> tuple[bytes, ...]:
    """Configurations of models with many kinds of parts."""
    kinds: dict[str, bytes] = {}
    for _, preset in sorted(_CATALOG.presets.items()):
        kinds.setdefault(str(preset.config.get("model_type")), json.dumps(dict(preset.config)).encode())
    return tuple(kinds.values())


def _plans() -> tuple[bytes, ...]:
    scenarios = json.loads((CHECKOUT / "tests/data/scenarios.json").read_text("utf-8"))
    own = (CHECKOUT / "tests/cli/data/llama.vramplan").read_bytes()
    listed = scenarios if isinstance(scenarios, list) else list(scenarios.values())
    return own, *(json.dumps(each).encode() for each in listed if isinstance(each, dict) and "format" in each)


def _reports() -> dict[str, bytes]:
    """A report of each kind that opens again, made by the program."""
    import tempfile
    from datetime import UTC, datetime

    from planner.report.tables import build_report
    from planner.report.write import write_report
    from planner.scenario.starting import starting_scenario

    scenario = starting_scenario()
    made = build_report(scenario, estimate(scenario, _CATALOG), _CATALOG, created=datetime(2024, 1, 1, tzinfo=UTC))
    with tempfile.TemporaryDirectory() as folder:
        contents = {}
        for suffix in (".html", ".md", ".xlsx", ".pptx", ".pdf", ".csv"):
            write_report(made, Path(folder) / f"report{suffix}")
            contents[suffix] = (Path(folder) / f"report{suffix}").read_bytes()
        return contents


def readers() -> tuple[Reader, ...]:
    """All of them; takes a few seconds."""
    configs = _configs()
    case = {"id": "a", "scenario": json.loads(_plans()[0]), "expected": {"phases.training.peak.allocated_bytes": 1}}
    corpus = json.dumps({"format": "vram-planner/corpus", "version": 1, "name": "own", "cases": [case]}).encode()
    parts = {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}
    index = json.dumps(parts).encode()
    return (
        Reader("plan", ".vramplan", _plan, _plans()),
        Reader("config", ".json", open_model, configs),
        Reader("folder", ".json", _folder, configs),
        Reader("pipeline", ".json", _pipeline, (index,)),
        Reader("safetensors", ".safetensors", open_model, (safetensors_bytes(_LLAMA),)),
        Reader("gguf", ".gguf", open_model, (gguf_bytes(_GGUF, _GGUF_TENSORS),)),
        Reader("hub", ".json", _hub, configs),
        Reader("corpus", ".json", _corpus, (corpus,)),
        *(Reader(f"report-{suffix[1:]}", suffix, load_report, (content,)) for suffix, content in _reports().items()),
    )
