"""How much memory a GPU has: by its label, by its driver, and as its runtime really hands it out.

Verdicts use the last of the three. Where no report of it exists, a stated fallback stands in, marked as such:
a sibling of the same memory size and generation, else the label less 4 % (or the driver's total less 4 %, where
that total already lies below).
The 4 %, and the rule to use the smallest of several reports, come from 46 NVIDIA cards of which both totals are
known: on Linux the runtime's is smaller by 1.4 % (median) to 4.7 %, and more so with newer drivers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd
from typing import Literal

from planner.hardware.gpus import Gpu, MemoryOption, MigProfile
from planner.hardware.sources import Report, Source
from planner.units import GIB, MIB, format_size

UsableBasis = Literal["measured", "unverified", "fallback", "custom", "unknown"]
System = Literal["linux", "windows"]

AGREEMENT = 0.005
"""A total moves by about so much from one driver to the next, so reports this near to each other agree."""
UNVERIFIED_NOTE = "It rests on a public document whose place is not recorded."
WINDOWS_NOTE = "Windows itself keeps part of the card, which counts as overhead."


@dataclass(frozen=True, slots=True)
class Capacities:
    """Three readings of one GPU's memory, in bytes; None where a reading is not known."""

    marketing_bytes: int
    driver_bytes: int | None
    usable_bytes: int | None
    """What the runtime hands out: the driver's own reserve is already out of it."""
    usable_basis: UsableBasis
    note: str = ""
    """How the usable size is known, or why it is not, in a sentence for people."""
    sources: tuple[Source, ...] = ()


def gpu_capacities(gpu: Gpu, catalogue: Iterable[Gpu], system: System = "linux") -> Capacities:
    """The capacities of a whole GPU; `catalogue` is searched for siblings where its own reports are missing."""
    memory = gpu.memory
    if memory.options:
        largest = max(memory.options, key=lambda option: option.memory_gb)
        return option_capacities(gpu, largest, catalogue)
    if system == "windows" and memory.usable_windows:
        return _reported(gpu, memory.usable_windows, WINDOWS_NOTE)
    if system == "windows" and memory.driver_bytes is not None:
        note = f"CUDA on Windows reports the driver's total, to within 1 MiB where both are known. {WINDOWS_NOTE}"
        return _derived(gpu, memory.driver_bytes, note, _sources(memory.driver))
    if memory.usable:
        return _reported(gpu, memory.usable)
    if memory.usable_setting:
        note = f"It depends on {memory.usable_setting}: add a custom GPU of that size.{_also_reported(gpu)}"
        return Capacities(memory.marketing_bytes, memory.driver_bytes, None, "unknown", note)
    return _from_sibling(gpu, catalogue) or _from_label(gpu)


def option_capacities(gpu: Gpu, option: MemoryOption, catalogue: Iterable[Gpu]) -> Capacities:
    """A machine with unified memory in one of its sizes: what the system lets the GPU use by default.

    Where that is not reported for this size, the smallest share of memory reported for the chip is used, else
    the smallest of its kind: the share is a policy of the system, so the 4 % of other GPUs would promise too much.
    """
    size_bytes = option.memory_gb * GIB
    if option.working_set:
        report = option.working_set
        note = f"Default working set of the GPU: {report.condition}."
        if not report.verified:
            note = f"{note} {UNVERIFIED_NOTE}"
        return Capacities(size_bytes, None, report.size_bytes, _basis(report), note, report.sources)
    chip = [(share, gpu) for share in _shares(gpu)]
    kin = [(share, other) for other in catalogue if other.architecture == gpu.architecture for share in _shares(other)]
    share, like = min(chip or kin, key=lambda pair: pair[0])
    usable_bytes = int(size_bytes * share) // MIB * MIB
    note = (
        f"The working set with {option.memory_gb} GB is not reported; "
        f"{share:.0%} of the memory, the smallest share reported for {like.vendor} {like.label}, stands in."
    )
    return Capacities(size_bytes, None, usable_bytes, "fallback", note)


def mig_capacities(gpu: Gpu, profile: MigProfile, whole: Capacities) -> Capacities:
    """A MIG slice: as reported, else its share of the memory slices of the whole GPU (on Linux, where MIG exists).

    Memory is cut into eight slices (four on smaller GPUs), so the label of a profile names a number of eighths
    (NVIDIA MIG user guide, "GPU instance profiles").
    """
    marketing_bytes = profile.memory_gb * GIB
    if profile.memory:
        report = profile.memory
        usable_bytes = min(report.size_bytes, whole.usable_bytes or report.size_bytes)
        note = "As the driver reports the slice." if report.verified else f"The driver's size of it. {UNVERIFIED_NOTE}"
        return Capacities(marketing_bytes, report.size_bytes, usable_bytes, _basis(report), note, report.sources)
    if whole.usable_bytes is None:
        return Capacities(marketing_bytes, None, None, "unknown", whole.note)
    full_gb = max(item.memory_gb for item in gpu.memory.mig)
    eighths = round(8 * profile.memory_gb / full_gb)
    usable_bytes = whole.usable_bytes * eighths // 8 // MIB * MIB
    part = f"{eighths // gcd(eighths, 8)}/{8 // gcd(eighths, 8)}"
    note = f"The size of this slice is not reported; {part} of the whole GPU's {_gib(whole.usable_bytes)} stands in."
    return Capacities(marketing_bytes, None, usable_bytes, "fallback", note, whole.sources)


def custom_capacities(memory_gib: float) -> Capacities:
    """A GPU of a size that somebody entered: taken as what its runtime hands out."""
    size_bytes = int(memory_gib * GIB)
    return Capacities(size_bytes, None, size_bytes, "custom", "As entered.")


def with_usable(capacities: Capacities, usable_bytes: int) -> Capacities:
    """The same GPU with a usable size that somebody measured on their own machine."""
    return replace(capacities, usable_bytes=usable_bytes, usable_basis="custom", note="As entered.", sources=())


def _reported(gpu: Gpu, reports: tuple[Report, ...], remark: str = "") -> Capacities:
    lowest, highest = reports[0].size_bytes, reports[-1].size_bytes
    agreeing = [report for report in reports if report.size_bytes <= lowest * (1 + AGREEMENT)]
    named = next((report for report in agreeing if report.verified), None)
    notes = [f"{_gib(lowest)} to {_gib(highest)} are reported; the smallest counts."] if highest > lowest else []
    if (condition := (named or reports[0]).condition) not in ("", "Linux"):
        notes.append(f"Condition: {condition}.")
    if named is None:
        notes.append(UNVERIFIED_NOTE)
    # Two decimals of a GiB can stand a little above the driver's exact total.
    usable_bytes = min(lowest, gpu.memory.driver_bytes or lowest)
    return Capacities(
        gpu.memory.marketing_bytes,
        gpu.memory.driver_bytes,
        usable_bytes,
        "measured" if named else "unverified",
        " ".join([*notes, remark]).strip(),
        _sources(agreeing),
    )


def _from_sibling(gpu: Gpu, catalogue: Iterable[Gpu]) -> Capacities | None:
    """From the sibling whose driver reports most nearly the same total; of several, the one with least."""
    own = gpu.memory.driver_bytes
    siblings = [other for other in catalogue if _is_sibling(gpu, other)]
    if own is not None:
        siblings = [other for other in siblings if other.memory.driver_bytes] or siblings
    if not siblings:
        return None

    def distance(other: Gpu) -> tuple[int, int]:
        theirs = other.memory.driver_bytes
        return abs(theirs - own) if own is not None and theirs is not None else 0, other.memory.usable[0].size_bytes

    sibling = min(siblings, key=distance)
    usable_bytes, theirs = sibling.memory.usable[0].size_bytes, sibling.memory.driver_bytes
    why = f"The usable size of this GPU is not reported; that of {sibling.full_title}, of the same size and generation,"
    if own is None or theirs is None or own == theirs:
        note = f"{why} stands in."
    else:
        reserve_bytes = theirs - usable_bytes
        usable_bytes = own - reserve_bytes
        note = f"{why} is {reserve_bytes // MIB} MiB below its driver's total, and so much is taken off here."
    return _derived(gpu, usable_bytes, note + _also_reported(gpu), _sources(sibling.memory.usable[:1]))


def _from_label(gpu: Gpu) -> Capacities:
    label_bytes, driver_bytes = gpu.memory.marketing_bytes, gpu.memory.driver_bytes
    total_bytes, what = label_bytes, "its label"
    if driver_bytes is not None and driver_bytes < label_bytes * 96 // 100:
        total_bytes, what = driver_bytes, "its driver's total"
    note = f"The usable size is reported neither for this GPU nor for a sibling; {what} less 4 % stands in."
    sources = _sources(gpu.memory.driver)
    return _derived(gpu, total_bytes * 96 // 100 // MIB * MIB, note + _also_reported(gpu), sources)


def _derived(gpu: Gpu, usable_bytes: int, note: str, sources: tuple[Source, ...]) -> Capacities:
    memory = gpu.memory
    return Capacities(memory.marketing_bytes, memory.driver_bytes, usable_bytes, "fallback", note, sources)


def _is_sibling(gpu: Gpu, other: Gpu) -> bool:
    return (
        other.id != gpu.id
        and bool(other.memory.usable)
        and other.memory.marketing_gb == gpu.memory.marketing_gb
        and (other.vendor, other.architecture) == (gpu.vendor, gpu.architecture)
        and other.memory.unified == gpu.memory.unified
    )


def _shares(gpu: Gpu) -> list[float]:
    return [
        option.working_set.size_bytes / (option.memory_gb * GIB) for option in gpu.memory.options if option.working_set
    ]


def _basis(report: Report) -> UsableBasis:
    return "measured" if report.verified else "unverified"


def _also_reported(gpu: Gpu) -> str:
    reports = gpu.memory.usable_otherwise
    sizes = ", ".join(f"{_gib(report.size_bytes)} ({report.condition})" for report in reports)
    return f" Also reported: {sizes}." if sizes else ""


def _sources(reports: Iterable[Report]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for report in reports for source in report.sources))


def _gib(size_bytes: int) -> str:
    return format_size(size_bytes, digits=2)
