"""How far an estimate may be off, by class of case: records in `resources/bands/`, from published spreads or scores."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from planner.engine.servers.versions import vllm_band
from planner.errors import ResourceError
from planner.resources import resource

TRACED_PROFILES = ("litgpt",)
"""Software beside transformers whose steps on one GPU are recorded and were measured often enough."""


@dataclass(frozen=True, slots=True)
class Band:
    """Factors below and above an estimate between which the measured value is expected."""

    low: float
    high: float
    source: str

    def around(self, size_bytes: int) -> tuple[int, int]:
        """The lowest and the highest bytes expected for an estimate of `size_bytes`."""
        return floor(size_bytes * self.low), ceil(size_bytes * self.high)

    def around_all(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same for the points of a sweep."""
        return np.floor(sizes * self.low).astype(np.int64), np.ceil(sizes * self.high).astype(np.int64)


@cache
def bands() -> Mapping[str, Band]:
    """All classes of case with their bands."""
    path = resource("bands", "bands.json")
    try:
        return {name: Band(**band) for name, band in json.loads(path.read_text("utf-8"))["classes"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResourceError(f"The planner's bands cannot be read ({error}). Please install it again.") from error


def band(case_class: str) -> Band:
    """The band of one class of case, such as `training` or `serving`."""
    return bands()[case_class]


def case_class(
    phase: str, *, ranks: int = 1, profile: str = "hf-transformers", approximate: bool = False,
    quantized: bool = False, engine: str | None = None, engine_version: str | None = None,
) -> str:  # fmt: skip
    """The class that a phase of a plan belongs to; `quantized`: frozen weights are held in 4 or 8 bits."""
    if approximate:
        return "rough"
    if phase == "serving" and engine != "transformers":
        return _server_class(engine, engine_version)
    if phase in ("evaluation", "serving"):
        return "inference"
    if profile in TRACED_PROFILES and ranks == 1:
        return f"training, {profile}, quantized base" if quantized else f"training, {profile}"
    if profile != "hf-transformers":
        return "training, other profile"
    return "training, sharded" if ranks > 1 else "training"


def _server_class(engine: str | None, version: str | None) -> str:
    """Engines with their own division of a GPU: vLLM by whether its version is stated, the others by name."""
    if engine != "vllm":
        return f"serving, {engine}"
    if version is None:
        return "serving, unknown version"
    return "serving, vLLM V0" if vllm_band(version).generation == "V0" else "serving"
