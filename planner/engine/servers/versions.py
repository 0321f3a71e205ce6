"""Rules of an engine that change with its version, from a record in `resources/servers/`."""

import json
import re
from dataclasses import dataclass
from functools import cache

from planner.resources import resource


@dataclass(frozen=True, slots=True)
class VersionBand:
    """What vLLM profiles and reserves in a range of versions."""

    below: tuple[int, int]
    generation: str
    sampler_bytes: float
    """Profiled per sampled sequence and vocabulary entry: fp32 logits, sort buffers and masks."""
    non_torch_mib: float
    non_torch_parallel_mib: float
    graphs_in_budget: bool
    source: str


@cache
def vllm_bands() -> tuple[tuple[VersionBand, ...], str]:
    record = json.loads(resource("servers", "vllm.json").read_text("utf-8"))
    bands = tuple(VersionBand(**{**band, "below": tuple(band["below"])}) for band in record["bands"])
    return bands, record["assumed_version"]


def vllm_band(version: str | None) -> VersionBand:
    """The rules of a version such as `0.19.0 V1`; an unknown one is taken as the record's assumed version."""
    bands, assumed = vllm_bands()
    text = version or assumed
    found = re.match(r"(\d+)\.(\d+)", text)
    number = (int(found[1]), int(found[2])) if found else vllm_number(assumed)
    if text.endswith("V0"):
        return bands[0]
    chosen = next(band for band in bands if number < band.below)
    return bands[1] if text.endswith("V1") and chosen.generation == "V0" else chosen


def vllm_number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
