"""Models by hand and short ways to ask about serving, for the tests that repeat reports from the field."""

import json

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.kv_cache import total_bytes
from planner.engine.phases.serving import plan_serving
from planner.engine.quantization import weight_terms
from planner.hardware import load_hardware
from planner.model import resolve_model
from planner.model.spec import Attention, DenseFeedForward, Embedding, Head, LayerGroup, ModelSpec, Stack
from planner.scenario import Scenario
from planner.scenario.model_source import PresetModel
from planner.scenario.serving import Serving

HARDWARE = load_hardware()
CATALOG = load_catalog()


def model(groups, hidden, vocab, tied=False, positions=131072, model_type="llama") -> ModelSpec:
    stack = Stack("decoder", hidden, Embedding(vocab, hidden), groups)
    return ModelSpec("m", model_type, "causal-lm", (stack,), Head(vocab, tied=tied), positions)


def llama(layers, hidden, heads, kv_heads, size, vocab, tied=False, head_dim=128) -> ModelSpec:
    return model(
        (LayerGroup(layers, Attention(heads, kv_heads, head_dim), DenseFeedForward(size)),), hidden, vocab, tied
    )


LLAMA_3_70B = llama(80, 8192, 64, 8, 28672, 128256)
QWEN3_32B = llama(64, 5120, 64, 8, 25600, 151936)


def plan(spec, gpu="h100-sxm5-80gb", **fields):
    chosen = HARDWARE.resolve(gpu)
    return plan_serving(Serving.model_validate_json(json.dumps(fields)), spec, [chosen], chosen, HARDWARE)


def serving(preset, gpu="h100-sxm5-80gb", **fields):
    """The serving phase of a whole estimate, as JSON."""
    scenario = Scenario.of(
        {
            "format": "vram-planner/scenario", "version": 1, "name": preset, "model": {"preset": preset},
            "phases": {"serving": fields}, "hardware": {"gpus": [gpu]},
        }
    )  # fmt: skip
    return estimate(scenario, CATALOG).to_json()["phases"]["serving"]


def phase(name, preset, **fields):
    """One phase of a whole estimate, as JSON."""
    scenario = Scenario.of(
        {
            "format": "vram-planner/scenario", "version": 1, "name": preset, "model": {"preset": preset},
            "phases": {name: fields}, "hardware": {"gpus": ["h100-sxm5-80gb"]},
        }
    )  # fmt: skip
    return estimate(scenario, CATALOG).to_json()["phases"][name]


def preset(name) -> ModelSpec:
    return resolve_model(PresetModel(preset=name))


def weights(spec, name, **parallel):
    return total_bytes(weight_terms(spec, name, parallel.pop("tensor", 1), ("load",), **parallel))
