"""The model families that are written down, in the order in which they are asked whether a structure is theirs.

A family is imported when it is asked: most plans are of one family, and the window should come up fast.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module

from planner.engine.activations.setting import Found, Setting
from planner.model.spec import ModelSpec

Find = Callable[[ModelSpec, Setting], Found | None]

TRANSFORMERS = (
    "llama",
    "moe",
    "deepseek",
    "gpt_oss",
    "llama4",
    "bert",
    "modernbert",
    "deberta",
    "t5",
    "bart",
    "whisper",
    "vision_language",
    "clip",
    "swin",
    "convnext",
    "resnet",
    "vit",
    "mamba",
    "hybrid",
    "gpt2",
    "gpt_neox",
    "opt",
    "falcon",
    "bloom",
    "mpt",
    "relatives",
    "unet",
    "flux",
    "sd3",
)
"""Modules of `planner.engine.activations.models`; each has a function `find`."""

OTHER_SOFTWARE: Mapping[str, tuple[str, ...]] = {
    "litgpt": ("litgpt",),
    "megatron-core": ("megatron",),
    "torchtitan": (),
    "torchtune": (),
}
"""Activation profiles of other software than Hugging Face's, whose own model classes come first."""


def candidates(names: tuple[str, ...] = TRANSFORMERS) -> Iterator[Find]:
    """The families one after the other, each imported as its turn comes."""
    return (_find(name) for name in names)


@cache
def _find(name: str) -> Find:
    found: Find = import_module(f"planner.engine.activations.models.{name}").find
    return found
