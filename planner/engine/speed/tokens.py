"""How many tokens a sequence has in each stack of a model."""

from planner.model.spec import ModelSpec

SPEECH_FRAMES = 1500
"""Whisper's encoder always sees thirty seconds (transformers, modeling_whisper.py: max_source_positions)."""


def stack_tokens(
    spec: ModelSpec, sequence: int, decoder: int | None = None, image_size: int | None = None
) -> int | None:
    """Tokens in the main stack: those of the text, or the patches of an image; None where its size is not known."""
    image = spec.stack.image
    if image is None:
        return sequence if decoder is None else decoder
    side = image_size or image.image_size
    if side is None:
        return None
    patches = -(-side // image.patch_size)
    return patches * patches


def encoder_tokens(spec: ModelSpec, sequence: int) -> int:
    """Tokens that the encoder of an encoder-decoder reads."""
    return SPEECH_FRAMES if spec.task in ("speech-seq2seq", "audio-text-to-text") else sequence
