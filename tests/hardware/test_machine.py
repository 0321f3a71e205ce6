"""GPUs of this machine through NVML: names that drivers tell are found in the catalogue; without one there are none."""

import sys
from types import SimpleNamespace

import pytest

from planner.hardware import load_hardware
from planner.hardware.machine import catalogue_id, local_gpus

GPUS = load_hardware().gpus
MIB = 1024**2


class NVMLError(Exception):
    pass


def library(cards, *, old=False, broken=False):
    """A stand-in for pynvml with these cards: name, total, reserved and free MiB."""

    def memory(handle, version=None):
        if version is not None and old:
            raise NVMLError("Function Not Found")
        _, total, reserved, free = cards[handle]
        told = {"total": total * MIB, "free": free * MIB}
        return SimpleNamespace(**told, **({"reserved": reserved * MIB} if version is not None else {}))

    def start():
        if broken:
            raise NVMLError("Driver Not Loaded")

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlMemory_v2=2,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: cards[handle][0],
        nvmlDeviceGetMemoryInfo=memory,
    )


@pytest.mark.parametrize(
    ("name", "mib", "expected"),
    [
        # As nvidia-smi prints them, with its total.
        ("NVIDIA H100 80GB HBM3", 81559, "h100-sxm5-80gb"),
        ("NVIDIA H100 PCIe", 81559, "h100-pcie-80gb"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-sxm4-40gb"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-pcie-80gb"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx-4090"),
        ("NVIDIA GeForce RTX 3090", 24576, "rtx-3090"),
        ("NVIDIA L40S", 46068, "l40s"),
        ("Tesla T4", 15360, "t4"),
        ("NVIDIA RTX A6000", 49140, "rtx-a6000"),
        ("NVIDIA Unheard 9000", 24564, None),
        ("NVIDIA GeForce RTX 4090", 49140, None),
    ],
)
def test_the_names_of_drivers_are_found_in_the_catalogue(name, mib, expected):
    assert catalogue_id(name, mib * MIB, GPUS.values()) == expected


def test_memory_is_told_with_what_is_reserved_and_free(monkeypatch):
    cards = [("NVIDIA GeForce RTX 4090", 24564, 487, 22000), ("NVIDIA Unheard 9000", 8192, 200, 100)]
    monkeypatch.setitem(sys.modules, "pynvml", library(cards))
    first, second = local_gpus(GPUS.values())
    assert (first.id, first.usable_bytes, first.free_bytes) == ("rtx-4090", (24564 - 487) * MIB, 22000 * MIB)
    assert (second.index, second.id, second.free_bytes) == (1, None, 100 * MIB)


def test_an_old_driver_does_not_tell_what_it_reserves(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", library([("Tesla T4", 15360, 0, 15000)], old=True))
    (card,) = local_gpus(GPUS.values())
    assert (card.id, card.reserved_bytes) == ("t4", 0)


@pytest.mark.parametrize("module", [None, library([], broken=True)])
def test_without_a_driver_there_are_none(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert local_gpus(GPUS.values()) == ()
