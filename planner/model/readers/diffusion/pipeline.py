"""A whole diffusers pipeline: the denoiser with its text encoders and its autoencoder."""

from collections.abc import Mapping
from dataclasses import replace

from planner.errors import ModelError
from planner.model.readers.config import Config
from planner.model.readers.registry import reader_of
from planner.model.spec import ModelSpec, Stack

MAIN = ("transformer", "unet", "prior")
SKIPPED = ("scheduler", "tokenizer", "tokenizer_2", "tokenizer_3", "feature_extractor", "image_processor")


def read_pipeline(config: Config) -> ModelSpec:
    """All components as one model: the denoiser's stacks first, then the others, named after their component."""
    components = config.raw("components")
    if not isinstance(components, Mapping) or not components:
        raise config.missing("components", "an object with the configuration of each component")
    found = [name for name in MAIN if name in components]
    if not found:
        raise config.error("components", sorted(components), f"such that one is called {' or '.join(MAIN)}")
    names = [found[0], *(name for name in components if name != found[0] and name not in SKIPPED)]
    specs = {name: _component(config, name, components[name]) for name in names}
    stacks = tuple(_named(stack, name) for name, spec in specs.items() for stack in spec.stacks)
    return ModelSpec(config.model_type, config.model_type, "diffusion", stacks, None)


def _component(config: Config, name: str, values: object) -> ModelSpec:
    where = f"{config.where}, component “{name}”"
    if not isinstance(values, Mapping):
        raise ModelError(f"{where}: this must be an object with the keys of a configuration.")
    kind = values.get("_class_name") or values.get("model_type")
    reader = reader_of(str(kind))
    if reader is None:
        raise ModelError(f"{where}: models of type “{kind}” cannot be read yet.")
    task = "diffusion" if "_class_name" in values else "feature-extraction"
    return reader(Config(values, str(kind), where), task)


def _named(stack: Stack, component: str) -> Stack:
    name = component if stack.name in ("unet", "transformer") else f"{component}: {stack.name}"
    return replace(stack, name=name)
