"""Gemma 1 to 3 as text models: wide heads, tied embeddings, from Gemma 2 on norms on both sides and sliding layers."""

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, decoder_model
from planner.model.readers.layers import every, windows
from planner.model.spec import ModelSpec

MODEL_TYPES = ("gemma", "gemma2", "gemma3_text")


def _alternating(config: Config, layers: int) -> list[int | None]:
    """Gemma 2: every second layer sees everything."""
    return windows(config, layers, every(2, layers))


def _five_to_one(config: Config, layers: int) -> list[int | None]:
    """Gemma 3: every sixth layer, or as `sliding_window_pattern` says, sees everything."""
    return windows(config, layers, every(config.size("sliding_window_pattern", 6), layers))


TRAITS = {
    "gemma": Traits(qkv_bias="attention_bias", output_bias="attention_bias"),
    "gemma2": Traits(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        norms=4,
        arrangement="sandwich",
        activation="hidden_activation",
        windows=_alternating,
    ),
    "gemma3_text": Traits(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        norms=4,
        arrangement="sandwich",
        qk_norm=True,
        activation="hidden_activation",
        windows=_five_to_one,
    ),
}


def read(config: Config, task: str | None) -> ModelSpec:
    """A Gemma decoder."""
    return decoder_model(config, task, TRAITS[config.model_type])
