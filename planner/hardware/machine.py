"""The GPUs of this machine, as NVIDIA's management library tells them: total, reserved and free memory now.

Where there is no driver, or no GPU of NVIDIA's, there is nothing to tell, and nothing is said about it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from planner.hardware.gpus import Gpu

_WORD = re.compile(r"[a-z]+\d[a-z0-9]*|\d+|[a-z]+")
_SAME = 0.015
"""A driver's total differs by less from another of the same card, as versions reserve more or less."""
_LIKE = 0.12
"""A total is so much smaller than the label at most."""
_BUILDS = frozenset({"sxm", "pcie", "nvl", "mobile", "laptop", "max"})


@dataclass(frozen=True, slots=True)
class LocalGpu:
    """One GPU, in bytes; `id` is that of the catalogue, where it holds this one."""

    index: int
    name: str
    total_bytes: int
    reserved_bytes: int
    free_bytes: int
    id: str | None

    @property
    def usable_bytes(self) -> int:
        """What is left for programs when nothing else runs."""
        return self.total_bytes - self.reserved_bytes


def local_gpus(gpus: Iterable[Gpu]) -> tuple[LocalGpu, ...]:
    """All that are found, those in use too. Never raises: without a driver there are none."""
    try:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no library, no driver, or one that does not answer
        return ()
    known = tuple(gpus)
    try:
        return tuple(_found(nvml, index, known) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def _found(nvml: Any, index: int, known: tuple[Gpu, ...]) -> LocalGpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    name = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        reserved = int(memory.reserved)
    except (nvml.NVMLError, AttributeError, TypeError):  # drivers before 510 do not tell what they reserve
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        reserved = 0
    total = int(memory.total)
    return LocalGpu(index, name, total, reserved, int(memory.free), catalogue_id(name, total, known))


def catalogue_id(name: str, total_bytes: int, gpus: Iterable[Gpu]) -> str | None:
    """The GPU of the catalogue that a driver calls by this name: all words of its label, and the same memory."""
    words = frozenset(_words(name))
    fitting = [gpu for gpu in gpus if gpu.vendor == "NVIDIA" and _label(gpu) <= words and _as_large(gpu, total_bytes)]
    if not fitting:
        return None
    longest = max(len(_label(gpu)) for gpu in fitting)
    best = [gpu for gpu in fitting if len(_label(gpu)) == longest]
    # `H100 PCIe` names the build, `H100 80GB HBM3` the memory that only one of the builds has.
    built = [gpu for gpu in best if _build(gpu) & words] or [gpu for gpu in best if gpu.memory.kind.lower() in words]
    return min(
        built or [gpu for gpu in best if not _build(gpu)] or best,
        key=lambda gpu: (abs(_total(gpu) - total_bytes), gpu.id),
    ).id


def _words(text: str) -> list[str]:
    """`A100-SXM4-80GB` as `a100`, `sxm`, `80`: the number of a socket says nothing here."""
    found = _WORD.findall(text.lower().replace("sxm2", "sxm").replace("sxm4", "sxm").replace("sxm5", "sxm"))
    return [word.removesuffix("gb") for word in found]


def _label(gpu: Gpu) -> frozenset[str]:
    return frozenset(_words(gpu.label)) - _BUILDS


def _build(gpu: Gpu) -> frozenset[str]:
    return frozenset(_words(gpu.title)) & _BUILDS


def _total(gpu: Gpu) -> int:
    return gpu.memory.driver_bytes or gpu.memory.marketing_bytes


def _as_large(gpu: Gpu, total_bytes: int) -> bool:
    if gpu.memory.driver_bytes is not None:
        return abs(total_bytes / gpu.memory.driver_bytes - 1) <= _SAME
    return 1 - _LIKE <= total_bytes / gpu.memory.marketing_bytes <= 1
