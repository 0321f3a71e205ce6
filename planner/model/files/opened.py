"""A model as a file or folder describes it, ready for a scenario."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.model.counts import parameters, prediction_parameters
from planner.model.files.tensors import TensorSummary
from planner.model.readers import read_config
from planner.model.spec import ModelSpec

_PACKED = ("U8", "I8", "I32", "U32", "I64", "F4", "F8_E8M0")
"""Types in which quantized checkpoints pack several weights, or scales, so that elements are no parameters."""
_BESIDE = re.compile(
    r"(inv_freq|rope_freqs\.weight|rope_factors_(long|short)\.weight|position_ids|num_batches_tracked|running_(mean|var)"
    r"|e_score_correction_bias|exp_probs_b\.bias|\.attn\.(masked_)?bias|attention\.(masked_)?bias|rotary_emb\.\w+"
    r"|weight_scale(_inv|_2)?|input_scale)\Z"
)
"""Buffers and scales, which stand in files beside the parameters."""


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """What was found. `source` is what `model` in a scenario becomes; `notes` say what a person should know."""

    name: str
    source: Mapping[str, Any]
    spec: ModelSpec
    tensors: TensorSummary | None = None
    notes: tuple[str, ...] = ()


def from_config(
    config: Mapping[str, Any],
    name: str,
    where: str,
    tensors: TensorSummary | None = None,
    notes: tuple[str, ...] = (),
) -> OpenedModel:
    """The model of a configuration, compared with its tensors where both are there."""
    spec = read_config(config, None, name, where)
    found = [*notes]
    if spec.approximate:
        found.append(f"Approximate: {spec.approximate}.")
    if tensors is not None:
        found += cross_check(spec, tensors)
    return OpenedModel(name, {"config": dict(config)}, spec, tensors, tuple(found))


def cross_check(spec: ModelSpec, tensors: TensorSummary) -> list[str]:
    """Where the tensors disagree with the configuration."""
    if any(entry.dtype in _PACKED and len(entry.shape) > 1 for entry in tensors.entries):
        return [f"The weights are packed, so their count is not compared; they take {tensors.size_bytes:,} bytes."]
    expected, told = parameters(spec), prediction_parameters(spec)
    beside = sum(entry.elements for entry in tensors.entries if _BESIDE.search(entry.name))
    drafts = [f"{told:,} of the file's elements are layers for multi-token prediction."] if told else []
    for explained, notes in ((0, []), (told, drafts)):
        if tensors.elements - expected - explained in (0, beside):
            return notes
    difference = tensors.elements - beside - expected
    more = "more" if difference > 0 else "fewer"
    return [
        f"The file holds {tensors.elements - beside:,} elements, {abs(difference):,} {more} than the {expected:,} "
        "parameters of the configuration."
    ]
