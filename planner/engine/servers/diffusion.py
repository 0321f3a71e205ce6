"""Diffusion pipelines: components that stand on the GPU or take turns there, steps of the denoiser, and one decoding.

The decoder works at the images' full size, so that it, not the denoiser, is mostly the fullest point. Stable Diffusion
XL in fp16, four images of 1024 x 1024: 21.72 GiB measured (huggingface/blog simple_sdxl_optimizations.md), 22.6
counted, sixteen of them for decoding; whether memory in use or memory reserved was measured is not said there.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from planner.engine.quantization import weight_terms
from planner.engine.rounding import smaller
from planner.engine.servers.denoising import is_pyramid, transformer_elements, unet_elements, widest_attention
from planner.engine.servers.workload import ServingWorkload
from planner.engine.term import Factor, Number, Term
from planner.model.spec import ModelSpec, Stack
from planner.model.weights import weights as weights_of
from planner.resources import resource

DECODED_COPIES = 4
TEXT_TOKENS = 512
DEFAULT_SIDE = 1024
PATCH = 2
DECODER_SOURCE = (
    "diffusers/models/autoencoders/vae.py Decoder: input, norm and activation of the widest full-size block, and "
    "cuDNN's copy; FLUX.1 rows of 1 to 16 images (sayakpaul/diffusers-torchao), SDXL rows (huggingface/blog)"
)
TILED_SOURCE = (
    "diffusers/models/autoencoders/autoencoder_kl.py tiled_decode: tiles as large as the images it was made for"
)
STEP_SOURCE = "diffusers 0.42, models/transformers and models/unets, run operator by operator without gradients"
OFFLOAD_SOURCE = (
    "diffusers/pipelines/pipeline_utils.py enable_model_cpu_offload: one component at a time; "
    "enable_sequential_cpu_offload: one layer at a time"
)
SCORES_SOURCE = (
    "diffusers/models/attention_processor.py Attention.get_attention_scores of AttnProcessor and SlicedAttnProcessor"
)
AUTOENCODERS = ("vae-decoder", "vae-encoder", "video-decoder", "video-encoder")
"""Ends of the names of their stacks."""
UPCAST_SOURCE = "diffusers/pipelines/stable_diffusion_xl: upcast_vae before decoding in fp16"
INSTANTS: Mapping[str, tuple[str, ...]] = {
    "text": ("encoding",),
    "denoiser": ("prefill", "decode"),
    "autoencoder": ("sampling",),
}
"""When each kind of component runs."""


def diffusion_terms(load: ServingWorkload) -> tuple[Term, ...]:
    """What a pipeline works with beside its weights, for `load.sequences` images made together."""
    decoder = _decoder(load.spec)
    height, width = _sides(load, decoder)
    images: Number = load.sequences
    terms: list[Term] = []
    step = _step_elements(load, decoder, height, width)
    if step:
        together = 2 if guides(load) else 1
        factors = (
            Factor("images", images),
            Factor("passes together", together, "with the prompt and without it" if together > 1 else ""),
            Factor("elements alive", step, f"of one pass at {width} x {height}"),
            Factor("bytes", _width(load)),
        )
        terms.append(Term("activations", "denoising step", factors, INSTANTS["denoiser"], STEP_SOURCE))
    terms += _scores(load, decoder, height, width)
    if decoder is not None:
        terms += _decoding(load, decoder, height, width)
    return tuple(terms)


def _scores(load: ServingWorkload, decoder: Stack | None, height: int, width: int) -> list[Term]:
    """Attention scores and their softmax where no fused kernel runs: of all heads of the batch, or of a slice of them.

    Slices are half as many heads as a layer has (`slice_size="auto"`), whatever the batch; without them fused attention
    would have kept no scores at all.
    """
    if not load.attention_slicing and load.attention != "eager":
        return []
    shrinking = _shrinking(decoder) if decoder else 8
    heads, tokens = widest_attention(load.spec.stack, (height // shrinking) * (width // shrinking))
    if not heads:
        return []
    rows: Number = load.sequences * (2 if guides(load) else 1) * heads
    if load.attention_slicing:
        rows = max(heads // 2, 1)
    factors = (
        Factor("heads at once", rows), Factor("queries", tokens), Factor("keys", tokens),
        Factor("tensors", 2, "scores and their softmax"), Factor("bytes", _width(load)),
    )  # fmt: skip
    return [Term("activations", "attention scores", factors, INSTANTS["denoiser"], SCORES_SOURCE)]


def _step_elements(load: ServingWorkload, decoder: Stack | None, height: int, width: int) -> int:
    """Elements of one pass of the denoiser, for one image; 0 for a model that is no denoiser."""
    stack = load.spec.stack
    if stack.image is None or stack.name.endswith(AUTOENCODERS):
        return 0
    shrinking = _shrinking(decoder) if decoder else 8
    if is_pyramid(stack):
        return unet_elements(stack, (height // shrinking) * (width // shrinking))
    tokens = (height // (PATCH * shrinking)) * (width // (PATCH * shrinking))
    return transformer_elements(stack, tokens, TEXT_TOKENS)


def _decoding(load: ServingWorkload, decoder: Stack, height: int, width: int) -> list[Term]:
    """The decoder's widest full-size block, for all images at once, one by one, or tile by tile."""
    images: Number = smaller(load.sequences, 1) if load.decodes_singly else load.sequences
    pixels, source = height * width, DECODER_SOURCE
    tile = decoder.image.image_size if decoder.image else None
    if load.decodes_tiles and tile and (height > tile or width > tile):
        pixels, source = min(height, tile) * min(width, tile), TILED_SOURCE
    upcast = _upcasts(load, decoder)
    factors = (
        Factor("images", images), Factor("channels", _full_size_channels(decoder)), Factor("pixels", pixels),
        Factor("tensors", DECODED_COPIES), Factor("bytes", 4 if upcast else _width(load)),
    )  # fmt: skip
    terms = [Term("activations", "decoding of the images", factors, INSTANTS["autoencoder"], source)]
    if upcast:
        count = sum(
            weight.elements * copies for weight, copies in weights_of(load.spec) if _part(weight.stack) == "autoencoder"
        )
        wider = (Factor("parameters", count), Factor("bytes", 2, "4 instead of 2"))
        terms.append(Term("activations", "autoencoder in fp32", wider, INSTANTS["autoencoder"], UPCAST_SOURCE))
    return terms


def pipeline_weights(load: ServingWorkload) -> tuple[Term, ...]:
    """The weights of components that take turns on the GPU: each while it runs, whole or one layer at a time."""
    by_part: dict[str, list[Stack]] = {}
    for stack in load.spec.stacks:
        by_part.setdefault(_component(stack.name), []).append(stack)
    terms: list[Term] = []
    for component, stacks in by_part.items():
        spec = replace(load.spec, stacks=tuple(stacks))
        alive = INSTANTS[_part(stacks[0].name)]
        if load.pipeline_offload == "sequential":
            largest = max((weight.elements for weight, _ in weights_of(spec)), default=0)
            factors = (Factor("elements of the largest layer", largest), Factor("bytes", _width(load)))
            terms.append(Term("weights", f"{component}: one layer", factors, alive, OFFLOAD_SOURCE))
            continue
        made = weight_terms(spec, load.weights, 1, alive)
        terms += [replace(term, name=f"{component}: {term.name}", source=OFFLOAD_SOURCE) for term in made]
    return tuple(terms)


def offloads(load: ServingWorkload) -> bool:
    """Whether components wait on the host until they run."""
    return load.spec.task == "diffusion" and load.pipeline_offload != "none"


def guides(load: ServingWorkload) -> bool:
    """Whether a step runs with the prompt and without it, both in one batch (classifier-free guidance)."""
    if load.guidance is not None:
        return load.guidance
    doubled: list[str] = _rules()["doubled"]
    return load.spec.model_type in doubled


def _upcasts(load: ServingWorkload, decoder: Stack) -> bool:
    upcasting: list[str] = _rules()["upcasting"]
    return load.weights == "fp16" and decoder.upcasts and load.spec.model_type in upcasting


def _component(stack: str) -> str:
    return stack.split(":")[0]


def _part(stack: str) -> str:
    """Text encoders stand before a colon, too; what is neither they nor the autoencoder denoises."""
    if stack.endswith(AUTOENCODERS):
        return "autoencoder"
    return "text" if ":" in stack else "denoiser"


def _decoder(spec: ModelSpec) -> Stack | None:
    return next((stack for stack in spec.stacks if stack.name.endswith("vae-decoder")), None)


def _sides(load: ServingWorkload, decoder: Stack | None) -> tuple[int, int]:
    """Height and width of the images: as stated, else what the denoiser was made for, else the autoencoder."""
    made_for = load.spec.stack.image.image_size if load.spec.stack.image else None
    if made_for and decoder is not None and is_pyramid(load.spec.stack):
        side = made_for * _shrinking(decoder)
    else:
        side = decoder.image.image_size if decoder and decoder.image and decoder.image.image_size else DEFAULT_SIDE
    return load.image_height or side, load.image_width or side


def _width(load: ServingWorkload) -> int:
    return 4 if load.weights == "fp32" else 2


def _shrinking(decoder: Stack) -> int:
    """By how much the latent's sides are shorter than the image's."""
    return max(group.downsampling for group in decoder.groups)


def _full_size_channels(decoder: Stack) -> int:
    """Channels that reach full size: those of the layers, or of the step up, whichever is wider."""
    return max(group.width or decoder.hidden_size for group in decoder.groups if group.downsampling == 1)


@cache
def _rules() -> Mapping[str, Any]:
    rules: Mapping[str, Any] = json.loads(resource("servers", "diffusers.json").read_text("utf-8"))
    return rules
