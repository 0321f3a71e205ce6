"""The components of a diffusers pipeline in training: the denoiser, which is trained, and the encoders, which are not.

Source: diffusers 0.42, `examples/text_to_image/train_text_to_image.py`, `train_text_to_image_lora_sdxl.py` and
`examples/dreambooth/train_dreambooth_lora_flux.py`: text encoders and the autoencoder are frozen, held in the type that
is computed in, and deleted where embeddings or latents were cached.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from planner.engine.activations.lower import PRECISIONS
from planner.engine.quantization import weight_terms
from planner.engine.term import Term
from planner.model.spec import ModelSpec, Stack
from planner.resources import resource

SCRIPT = "diffusers 0.42, examples/text_to_image/train_text_to_image.py: vae.to(weight_dtype), requires_grad_(False)"
AUTOENCODER = ("vae-decoder", "vae-encoder")


@lru_cache(maxsize=64)
def trained_part(spec: ModelSpec) -> ModelSpec:
    """The denoiser of a pipeline; every other model as a whole."""
    if spec.task != "diffusion" or len(spec.stacks) == 1:
        return spec
    return replace(spec, stacks=spec.stacks[:1])


def frozen_encoders(spec: ModelSpec, encoded_ahead: str) -> Mapping[str, tuple[Stack, ...]]:
    """Frozen components on the GPU, by name: those whose work was not done ahead."""
    if spec.task != "diffusion":
        return {}
    found: dict[str, tuple[Stack, ...]] = {}
    for stack in spec.stacks[1:]:
        kind = "latents" if stack.name.endswith(AUTOENCODER) else "text"
        if encoded_ahead not in (kind, "everything"):
            name = stack.name.split(":")[0]
            found[name] = (*found.get(name, ()), stack)
    return found


@lru_cache(maxsize=64)
def frozen_terms(spec: ModelSpec, encoded_ahead: str, precision: str, alive: tuple[str, ...]) -> tuple[Term, ...]:
    """Weights of the frozen encoders: in the 16-bit type of mixed precision, an overflowing autoencoder in fp32."""
    terms: list[Term] = []
    weight_dtype, autocast = PRECISIONS[precision]
    for name, stacks in frozen_encoders(spec, encoded_ahead).items():
        wide = runs_in_fp32(spec) and stacks[0].name.endswith(AUTOENCODER)
        dtype = "fp32" if wide else autocast or weight_dtype
        made = weight_terms(replace(spec, stacks=stacks, head=None), dtype, 1, alive)
        terms += [replace(term, name=f"{name}, frozen: {term.name}", source=SCRIPT) for term in made]
    return tuple(terms)


def runs_in_fp32(spec: ModelSpec) -> bool:
    """Whether the script keeps this pipeline's autoencoder in fp32, because it overflows in fp16."""
    upcasting: list[str] = _rules()["upcasting"]
    return spec.model_type in upcasting and any(stack.upcasts for stack in spec.stacks)


@cache
def _rules() -> Mapping[str, Any]:
    rules: Mapping[str, Any] = json.loads(resource("servers", "diffusers.json").read_text("utf-8"))
    return rules
