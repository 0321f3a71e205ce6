"""Which file reads which model type. A new architecture is one small file beside this one and its line here."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from planner.model.readers.config import Config
from planner.model.spec import ModelSpec

Reader = Callable[[Config, str | None], ModelSpec]

FAMILIES = (
    "llama",
    "gpt",
    "bloom_opt_mpt",
    "falcon",
    "parallel",
    "gemma",
    "moe",
    "deepseek",
    "dbrx",
    "small_labs",
    "further_moe",
    "state_space",
    "hybrid",
    "qwen_next",
    "bert",
    "deberta",
    "modernbert",
    "t5",
    "bart",
    "whisper",
    "vit",
    "pyramid",
    "clip",
    "llama4",
    "multimodal",
    "mllama",
    "glm4v",
    "gemma4",
    "remote",
    "diffusion.unet",
    "diffusion.vae",
    "diffusion.mmdit",
)
"""Modules of this package; each has `MODEL_TYPES` and `read(config, task)`."""


@cache
def readers() -> Mapping[str, Reader]:
    """Every model type that can be read, with its reader."""
    found: dict[str, Reader] = {}
    for family in FAMILIES:
        module = import_module(f"planner.model.readers.{family}")
        found |= dict.fromkeys(module.MODEL_TYPES, module.read)
    return found
