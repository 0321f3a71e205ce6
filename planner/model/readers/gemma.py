"""Gemma 1 to 3 as text models: wide heads, tied embeddings, from Gemma 2 on norms on both sides and sliding layers."""

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, decoder_model
from planner.model.readers.layers import every, windows
from planner.model.spec import ModelSpec, Norm

MODEL_TYPES = ("gemma", "gemma2", "gemma3_text")


def _alternating(config: Config, layers: int) -> list[int | None]:
    """Gemma 2: every second layer sees everything."""
    return windows(config, layers, every(2, layers))


def _five_to_one(config: Config, layers: int) -> list[int | None]:
    """Gemma 3: every sixth layer, or as `sliding_window_pattern` says, sees everything."""
    return windows(config, layers, every(config.size("sliding_window_pattern", 6), layers))


_NORM = Norm(code="one-plus-weight")

TRAITS = {
    "gemma": Traits(norm=_NORM, qkv_bias="attention_bias", output_bias="attention_bias", scaled_embedding=True),
    "gemma2": Traits(
        norm=_NORM,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        norms=4,
        arrangement="sandwich",
        activation="hidden_activation",
        windows=_alternating,
        scaled_embedding=True,
        softcap=True,
    ),
    "gemma3_text": Traits(
        norm=_NORM,
        qk_norm_kind=_NORM,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        norms=4,
        arrangement="sandwich",
        qk_norm=True,
        activation="hidden_activation",
        windows=_five_to_one,
        scaled_embedding=True,
        softcap=False,
    ),
}


def read(config: Config, task: str | None) -> ModelSpec:
    """A Gemma decoder."""
    return decoder_model(config, task, TRAITS[config.model_type])
