"""The second line under a phase's name: what of its workload one wants to see at a glance."""

from collections.abc import Mapping

from planner.engine.plan import PhaseName
from planner.scenario.choices import METHODS
from planner.scenario.phases import Phases


def phase_captions(phases: Phases) -> Mapping[PhaseName, str]:
    """Captions such as `QLoRA` for fine-tuning, `4 × 4k` (sequences by tokens) for a step, `32 × 8k` for serving."""
    captions: dict[PhaseName, str] = {}
    if phases.training:
        captions["training"] = _batch(phases.training.micro_batch_size, phases.training.sequence_length)
    if phases.fine_tuning:
        captions["fine_tuning"] = METHODS[phases.fine_tuning.method]
    if phases.evaluation:
        captions["evaluation"] = _batch(phases.evaluation.batch_size, phases.evaluation.sequence_length)
    if phases.serving:
        captions["serving"] = _batch(phases.serving.concurrent_sequences, phases.serving.context_length)
    return captions


def _batch(sequences: int, tokens: int) -> str:
    return f"{sequences} × {short_count(tokens)}"


def short_count(tokens: int) -> str:
    """`8192` is `8k` as models are named, `131072` is `128k`; other counts are written out."""
    for unit, letter in ((1024 * 1024, "M"), (1024, "k")):
        if tokens >= unit and tokens % unit == 0:
            return f"{tokens // unit}{letter}"
    return str(tokens)
