"""Diffusion pipelines: all components stand on the GPU, steps of the denoiser, and one decoding of all images.

The decoder works at the images' full size, so that it, not the denoiser, is the fullest point.
"""

from planner.engine.servers.workload import ServingWorkload
from planner.engine.term import Factor, Term
from planner.model.spec import DOWNSAMPLE, Block, Stack

DECODED_COPIES = 4
TEXT_TOKENS = 512
STEP_WIDTHS = 17
DEFAULT_SIDE = 1024
PATCH = 2
DECODER_SOURCE = (
    "diffusers/models/autoencoders/vae.py Decoder: input, norm and activation of the widest full-size block, and "
    "cuDNN's copy; FLUX.1 rows of 1 to 16 images (sayakpaul/diffusers-torchao)"
)
STEP_SOURCE = (
    "diffusers/models/transformers: queries, keys, values, the feed-forward of four widths before and after its "
    "activation, and both joined, beside the residual"
)


def diffusion_terms(load: ServingWorkload) -> tuple[Term, ...]:
    """What a pipeline works with beside its weights, for `load.sequences` images made together."""
    decoder = next((stack for stack in load.spec.stacks if stack.name.endswith("vae-decoder")), None)
    side = decoder.image.image_size if decoder and decoder.image and decoder.image.image_size else DEFAULT_SIDE
    height, width = load.image_height or side, load.image_width or side
    images = Factor("images", load.sequences)
    bytes_each = Factor("bytes", 4 if load.weights == "fp32" else 2)
    terms: list[Term] = []
    if load.spec.stack.image is not None and not _is_pyramid(load.spec.stack):
        shrunk = PATCH * (_shrinking(decoder) if decoder else 8)
        tokens = (height // shrunk) * (width // shrunk) + TEXT_TOKENS
        step = (
            images, Factor("tokens", tokens, f"patches and {TEXT_TOKENS} of text"),
            Factor("widths", STEP_WIDTHS * load.spec.stack.hidden_size, f"{STEP_WIDTHS} x hidden"), bytes_each,
        )  # fmt: skip
        terms.append(Term("activations", "denoising step", step, ("prefill", "decode"), STEP_SOURCE))
    if decoder is not None:
        decoding = (
            images, Factor("channels", _full_size_channels(decoder)), Factor("pixels", height * width),
            Factor("tensors", DECODED_COPIES), bytes_each,
        )  # fmt: skip
        terms.append(Term("activations", "decoding of the images", decoding, ("sampling",), DECODER_SOURCE))
    return tuple(terms)


def _is_pyramid(stack: Stack) -> bool:
    return any(isinstance(group.mixer, Block) and group.mixer.kind == DOWNSAMPLE for group in stack.groups)


def _shrinking(decoder: Stack) -> int:
    """By how much the latent's sides are shorter than the image's."""
    return max(group.downsampling for group in decoder.groups)


def _full_size_channels(decoder: Stack) -> int:
    """Channels that reach full size: those of the layers, or of the step up, whichever is wider."""
    return max(group.width or decoder.hidden_size for group in decoder.groups if group.downsampling == 1)
