"""The catalogue of accelerators: what each is, and what its driver and its runtime were seen to report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from planner.errors import CatalogueError
from planner.hardware.records import Record, read_catalogue_file
from planner.hardware.sources import Report, Source, cited, read_report, read_reports, read_sources
from planner.units import GIB

Segment = Literal["data-centre", "workstation", "consumer", "laptop", "unified", "embedded", "cloud"]
SEGMENTS: tuple[Segment, ...] = get_args(Segment)


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A slice of a GPU (MIG), such as `3g.40gb`: three compute slices with a label of 40 GB."""

    name: str
    memory_gb: int
    instances: int
    """How many of them one GPU holds."""
    memory: Report | None
    """What the driver gives it, where somebody reported that."""


@dataclass(frozen=True, slots=True)
class MemoryOption:
    """One size in which a machine with unified memory is sold."""

    memory_gb: int
    working_set: Report | None
    """What the system lets the GPU use of it by default (Metal's `recommendedMaxWorkingSetSize`)."""

    @property
    def name(self) -> str:
        return f"{self.memory_gb}gb"


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one GPU: the vendor's label, and reports from the smallest to the largest."""

    marketing_gb: int
    kind: str
    unified: bool
    """Shared with the processor: host RAM must not be counted a second time."""
    driver: tuple[Report, ...]
    driver_otherwise: tuple[Report, ...]
    """Under another condition: an older driver, error correction on or off."""
    usable: tuple[Report, ...]
    usable_windows: tuple[Report, ...]
    usable_otherwise: tuple[Report, ...]
    usable_setting: str
    """Which setting of the machine decides the usable size, where nothing else does; else empty."""
    options: tuple[MemoryOption, ...]
    mig: tuple[MigProfile, ...]
    ecc: str

    @property
    def marketing_bytes(self) -> int:
        """The label, read as GiB: vendors print GiB and write GB."""
        return self.marketing_gb * GIB

    @property
    def driver_bytes(self) -> int | None:
        """What `nvidia-smi` and its like call the total."""
        return self.driver[0].size_bytes if self.driver else None


@dataclass(frozen=True, slots=True)
class Speed:
    """Dense rates without sparsity; bandwidth in decimal GB/s, NVLink in both directions together."""

    bandwidth_gb_per_s: float
    fp16_tflops: float | None
    fp8_tflops: float | None
    fp4_tflops: float | None
    tflops_basis: str
    nvlink_gb_per_s: float | None
    may_be_exceeded: bool = False
    """The 16-bit figure is one of shaders where there are matrix units, or approximate: it is no peak."""

    @property
    def peak_fp16_tflops(self) -> float | None:
        """What 16-bit products cannot exceed, where that is known."""
        return None if self.may_be_exceeded else self.fp16_tflops


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """One accelerator of the catalogue."""

    id: str
    name: str
    """As its vendor writes it."""
    title: str
    """For lists and sentences, such as `H100 SXM5 80 GB`."""
    label: str
    """The shortest name people use, such as `H100`; cards may share it."""
    vendor: str
    architecture: str
    compute_capability: str
    gfx: str
    segment: Segment
    form_factor: str
    released: str
    """A date, or a year where the day is not known."""
    power_w: int | None
    memory: Memory
    speed: Speed
    supports: frozenset[str]
    """Of `bf16`, `fp8` and `fp4`: the formats its matrix units compute in."""
    note: str
    sources: tuple[Source, ...]

    @property
    def full_title(self) -> str:
        """With the vendor in front, such as `NVIDIA H100 SXM5 80 GB`."""
        return f"{self.vendor} {self.title}"

    @property
    def release_year(self) -> int:
        return int(self.released[:4])

    @property
    def variants(self) -> tuple[str, ...]:
        """What may follow `id/`: MIG profiles, or the sizes of a machine with unified memory."""
        return tuple(profile.name for profile in self.memory.mig) + tuple(item.name for item in self.memory.options)


@dataclass(frozen=True, slots=True)
class GpuTable:
    """All accelerators by id, and the day on which the catalogue was put together."""

    as_of: str
    gpus: Mapping[str, Gpu]


def load_gpus() -> GpuTable:
    """Read `resources/hardware/gpus.json`."""
    content = read_catalogue_file("gpus.json", "vram-planner/gpus")
    as_of = content.text("as_of")
    sources = read_sources(content)
    gpus: dict[str, Gpu] = {}
    for record in content.records("gpus"):
        gpu = read_gpu(record, sources)
        if gpu.id in gpus:
            raise CatalogueError(f"{record.where}: the id '{gpu.id}' is used twice.")
        gpus[gpu.id] = gpu
    content.close()
    return GpuTable(as_of, gpus)


def read_gpu(record: Record, sources: Mapping[str, Source]) -> Gpu:
    """One accelerator from its record; raises `CatalogueError` for anything missing, wrong or unknown."""
    gpu = Gpu(
        id=record.text("id"),
        name=record.text("name"),
        title=record.text("title"),
        label=record.text("label"),
        vendor=record.text("vendor"),
        architecture=record.text("architecture"),
        compute_capability=record.text("compute_capability", ""),
        gfx=record.text("gfx", ""),
        segment=cast(Segment, record.choice("segment", SEGMENTS)),
        form_factor=record.text("form_factor"),
        released=record.text("released"),
        power_w=record.optional_whole("power_w"),
        memory=_read_memory(record.record("memory"), sources),
        speed=_read_speed(record.record("speed")),
        supports=frozenset(record.texts("supports")),
        note=record.text("note", ""),
        sources=cited(record, sources),
    )
    record.close()
    return gpu


def _read_memory(record: Record, sources: Mapping[str, Source]) -> Memory:
    memory = Memory(
        marketing_gb=record.whole("marketing_gb"),
        kind=record.text("type"),
        unified=record.flag("unified", False),
        driver=read_reports(record.records("driver"), "mib", sources),
        driver_otherwise=read_reports(record.records("driver_otherwise"), "mib", sources),
        usable=read_reports(record.records("usable"), "gib", sources),
        usable_windows=read_reports(record.records("usable_windows"), "gib", sources),
        usable_otherwise=read_reports(record.records("usable_otherwise"), "gib", sources),
        usable_setting=record.text("usable_setting", ""),
        options=tuple(_read_options(record, sources)),
        mig=tuple(_read_mig(record, sources)),
        ecc=record.text("ecc", ""),
    )
    record.close()
    return memory


def _read_options(memory: Record, sources: Mapping[str, Source]) -> Iterator[MemoryOption]:
    for record in memory.records("options"):
        working_set = record.optional_record("working_set")
        yield MemoryOption(
            memory_gb=record.whole("memory_gb"),
            working_set=read_report(working_set, "gib", sources) if working_set else None,
        )
        record.close()


def _read_mig(memory: Record, sources: Mapping[str, Source]) -> Iterator[MigProfile]:
    for record in memory.records("mig"):
        name = record.text("profile")
        size = name.partition(".")[2].removesuffix("gb")
        if not size.isdecimal():
            raise record.wrong("profile", f"is '{name}'; it must read like 3g.40gb")
        size_report = record.optional_record("memory")
        yield MigProfile(
            name=name,
            memory_gb=int(size),
            instances=record.whole("instances"),
            memory=read_report(size_report, "gib", sources) if size_report else None,
        )
        record.close()


def _read_speed(record: Record) -> Speed:
    speed = Speed(
        bandwidth_gb_per_s=record.number("bandwidth_gb_per_s"),
        fp16_tflops=record.optional_number("fp16_tflops"),
        fp8_tflops=record.optional_number("fp8_tflops"),
        fp4_tflops=record.optional_number("fp4_tflops"),
        tflops_basis=record.text("tflops_basis", ""),
        nvlink_gb_per_s=record.optional_number("nvlink_gb_per_s"),
        may_be_exceeded=record.flag("may_be_exceeded", False),
    )
    record.close()
    return speed
