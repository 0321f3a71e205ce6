"""Kinds of models that an engine does not serve, told beside the figures: these say what such a model would take."""

from planner.engine.servers.versions import version_number
from planner.model.spec import ModelSpec
from planner.scenario.choices import ENGINES
from planner.scenario.serving import Serving

ENCODER_DECODERS_BELOW = (0, 11, 0)
"""vllm-project/vllm#24907 (15 September 2025) removed BART and its kin: Whisper is the only one left."""


def unserved(phase: Serving, spec: ModelSpec) -> tuple[str, ...]:
    """Why the engine would refuse the model itself, or what of it these figures leave out."""
    if any(stack.name.endswith("video-decoder") for stack in spec.stacks):
        return (
            "Weights of this pipeline are exact, but only one frame is denoised and none decoded: what the frames of a "
            "video take is not counted.",
        )
    if phase.engine == "transformers":
        return ()
    if spec.task == "diffusion":
        return (
            f"{ENGINES[phase.engine]} serves no diffusion pipelines: what it would reserve means nothing here. Choose "
            "Transformers, which stands for diffusers.",
        )
    if phase.engine == "vllm" and spec.task == "seq2seq-lm" and _newer(phase.engine_version):
        return (
            "vLLM serves no encoder with a decoder but Whisper since 0.11 (vllm-project/vllm#24907): with this "
            "model it would not start. TensorRT-LLM and Transformers serve it.",
        )
    if all(stack.embedding is None for stack in spec.stacks):
        return (
            f"{ENGINES[phase.engine]} serves models that read tokens, and this one has no token table: choose "
            "Transformers for models that read images or sound alone.",
        )
    return ()


def _newer(version: str | None) -> bool:
    number = version_number(version) if version else None
    return number is None or number >= ENCODER_DECODERS_BELOW
