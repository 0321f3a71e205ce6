"""How a model's positions reach into rotary tables that engines compute once for all of them."""

from dataclasses import dataclass
from typing import Literal

RotaryScaling = Literal["default", "linear", "ntk", "dynamic", "yarn", "longrope", "llama3", "proportional", "other"]
RotaryLayers = Literal["all", "full", "windowed"]


@dataclass(frozen=True, slots=True)
class RotaryTable:
    """One table of cosines and sines, as a configuration's `rope_scaling` or `rope_parameters` describes it."""

    layers: RotaryLayers = "all"
    """Which layers turn by it: those that see everything and those with a window may have one each (Gemma 3)."""
    scaling: RotaryScaling = "default"
    factor: float = 1.0
    """By how much the positions were stretched (`factor`)."""
    original_positions: int | None = None
    """Positions before stretching (`original_max_position_embeddings`)."""
    sections: bool = False
    """Whether time, height and width are turned apart (M-RoPE of Qwen2-VL and its kin)."""


PLAIN_ROTARY = (RotaryTable(),)
