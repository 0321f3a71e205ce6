"""The rotary tables of a configuration: `rope_scaling`, or since transformers 5 `rope_parameters`, by kind of layer."""

from collections.abc import Mapping
from typing import Any, get_args

from planner.model.spec import PLAIN_ROTARY, RotaryLayers, RotaryScaling, RotaryTable

TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys of the language model in configurations of several parts."""
TWO_BASES = ("gemma3", "gemma4", "modernbert")
"""Families whose windows turn at a base of their own (`rope_local_base_freq`, `local_rope_theta`), unstretched."""
UNSTRETCHED_WINDOWS = ("olmo3",)
"""Families that stretch positions only where a layer sees everything (vllm/model_executor/models/olmo2.py)."""
OLD_NAMES = {"su": "longrope", "mrope": "default", "deepseek_yarn": "yarn"}
BY_LAYER: Mapping[str, RotaryLayers] = {"full_attention": "full", "sliding_attention": "windowed"}


def rotary_tables(config: Mapping[str, Any]) -> tuple[RotaryTable, ...]:
    """The tables of the language model that `config` describes; a plain one where nothing is stated."""
    text = _text(config)
    stated = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(stated, Mapping):
        stated = {}
    nested = {layers: stated[name] for name, layers in BY_LAYER.items() if isinstance(stated.get(name), Mapping)}
    if nested:
        return tuple(_table(part, text, layers) for layers, part in nested.items())
    model_type = str(text.get("model_type") or config.get("model_type") or "")
    if model_type.startswith(TWO_BASES) or (stated and model_type.startswith(UNSTRETCHED_WINDOWS)):
        return _table(stated, text, "full"), RotaryTable("windowed")
    return (_table(stated, text, "all"),) if stated else PLAIN_ROTARY


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in TEXT_PARTS:
        part = config.get(name)
        if isinstance(part, Mapping):
            return _text(part)
    return config


def _table(stated: Mapping[str, Any], text: Mapping[str, Any], layers: RotaryLayers) -> RotaryTable:
    named = str(stated.get("rope_type") or stated.get("type") or "default")
    known: dict[str, RotaryScaling] = {name: name for name in get_args(RotaryScaling)}
    kind = known.get(OLD_NAMES.get(named, named), "other")
    factor, sections = stated.get("factor"), stated.get("mrope_section")
    original = stated.get("original_max_position_embeddings") or text.get("original_max_position_embeddings")
    return RotaryTable(
        layers,
        # A dynamic base with `alpha` stretches nothing (Hunyuan).
        "other" if kind == "dynamic" and "alpha" in stated else kind,
        float(factor) if isinstance(factor, int | float) and factor > 0 else 1.0,
        original if isinstance(original, int) and original > 0 else None,
        isinstance(sections, list | tuple),
    )
