"""Memory that no tensor explains: contexts, communication buffers, workspaces, graphs and desktops.

Observations are what somebody measured or what another program assumes. Allowances are what this program counts
with: each has a band and names the observations behind it, and says that it is a default where it is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, cast, get_args

from planner.errors import CatalogueError
from planner.hardware.gpus import Gpu
from planner.hardware.records import Record, read_catalogue_file
from planner.hardware.sources import Source, cited, read_sources
from planner.units import MIB

AllowanceKind = Literal[
    "cuda_context",
    "nccl_inference",
    "nccl_training",
    "cublas_workspace",
    "cublaslt_workspace",
    "te_workspace",
    "cuda_graphs",
    "llama_cpp_process",
    "desktop_headless",
    "desktop_linux",
    "desktop_wsl2",
    "desktop_windows",
]
ALLOWANCE_KINDS: tuple[AllowanceKind, ...] = get_args(AllowanceKind)
ObservationKind = Literal["measured", "derived", "stated", "constant", "fit", "missing"]
OBSERVATION_KINDS: tuple[ObservationKind, ...] = get_args(ObservationKind)
Desktop = Literal["headless", "linux", "wsl2", "windows"]


@dataclass(frozen=True, slots=True)
class Overhead:
    """Memory to count with, in bytes, with the band it may lie in and where it comes from."""

    bytes: int
    low_bytes: int
    high_bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class Observation:
    """One figure of overhead as its source states it; sizes are None where it states none."""

    id: str
    category: str
    kind: ObservationKind
    size_bytes: int | None
    range_bytes: tuple[int, int] | None
    """From the least to the most that was seen; less than nothing where memory was freed."""
    gpu: str
    generation: str
    scope: str
    cuda: str
    pytorch: str
    driver: str
    os: str
    conditions: str
    note: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Allowance:
    """What to count for one kind of overhead on the GPUs it applies to, in MiB or as a share of the card."""

    id: str
    kind: AllowanceKind
    what: str
    vendors: tuple[str, ...]
    architectures: tuple[str, ...]
    compute_capabilities: tuple[str, ...]
    from_gpus: int
    """The smallest number of GPUs working together for which it is meant."""
    unit: Literal["MiB", "share"]
    low: float
    typical: float
    high: float
    basis: str
    observations: tuple[Observation, ...]
    source: str
    """The rule in words, then the documents behind it."""

    def precision(self, gpu: Gpu | None) -> int | None:
        """How closely it is meant for `gpu`: 0 for any GPU, more for narrower conditions, None if it is not."""
        if gpu is None:
            return None if self.vendors or self.architectures or self.compute_capabilities else 0
        conditions = (
            (self.vendors, gpu.vendor, 1),
            (self.architectures, gpu.architecture, 2),
            (self.compute_capabilities, gpu.compute_capability, 4),
        )
        if any(wanted and value not in wanted for wanted, value, _ in conditions):
            return None
        return sum(weight for wanted, _, weight in conditions if wanted)

    def overhead(self, card_bytes: int = 0) -> Overhead:
        """In bytes; shares are of `card_bytes`."""
        unit_bytes = MIB if self.unit == "MiB" else card_bytes
        return Overhead(
            bytes=int(self.typical * unit_bytes),
            low_bytes=int(self.low * unit_bytes),
            high_bytes=int(self.high * unit_bytes),
            source=self.source,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Overheads:
    """Allowances by kind, and observations by id. Every lookup gives an answer, at worst that for any GPU."""

    allowances: Mapping[AllowanceKind, tuple[Allowance, ...]]
    observations: Mapping[str, Observation]

    def context_overhead(self, gpu: Gpu | None) -> Overhead:
        """Context and loaded libraries of one process on one GPU. They come off the usable capacity."""
        return self.allowance("cuda_context", gpu).overhead()

    def nccl_overhead(self, gpu: Gpu | None, gpus: int, *, training: bool) -> Overhead:
        """Buffers of the communication library on each of `gpus` GPUs that work together."""
        return self.allowance("nccl_training" if training else "nccl_inference", gpu, gpus).overhead()

    def cublas_workspace(self, gpu: Gpu | None) -> Overhead:
        """Matrix-multiply workspace per handle and stream. PyTorch takes it from its own allocator."""
        return self.allowance("cublas_workspace", gpu).overhead()

    def cublaslt_workspace(self, gpu: Gpu | None) -> Overhead:
        """Workspace of cuBLASLt per handle and stream. PyTorch takes it from its own allocator."""
        return self.allowance("cublaslt_workspace", gpu).overhead()

    def te_workspace(self, gpu: Gpu | None) -> Overhead:
        """A workspace of Transformer Engine, a tensor of its own."""
        return self.allowance("te_workspace", gpu).overhead()

    def cuda_graphs_overhead(self, gpu: Gpu | None = None) -> Overhead:
        """Captured CUDA graphs of one process."""
        return self.allowance("cuda_graphs", gpu).overhead()

    def llama_cpp_overhead(self, gpu: Gpu | None) -> Overhead:
        """Context and libraries of a llama.cpp process on one GPU."""
        return self.allowance("llama_cpp_process", gpu).overhead()

    def desktop_overhead(self, desktop: Desktop, gpu: Gpu | None, card_bytes: int) -> Overhead:
        """What the system and its desktop hold of a card of `card_bytes`."""
        kinds: dict[Desktop, AllowanceKind] = {
            "headless": "desktop_headless",
            "linux": "desktop_linux",
            "wsl2": "desktop_wsl2",
            "windows": "desktop_windows",
        }
        return self.allowance(kinds[desktop], gpu).overhead(card_bytes)

    @lru_cache(maxsize=1024)  # noqa: B019 - one catalogue, kept for as long as the program runs
    def allowance(self, kind: AllowanceKind, gpu: Gpu | None, gpus: int = 1) -> Allowance:
        """The allowance meant most closely for this GPU and for this many of them."""
        matches = [
            ((precision, item.from_gpus), item)
            for item in self.allowances[kind]
            if item.from_gpus <= gpus and (precision := item.precision(gpu)) is not None
        ]
        return max(matches, key=lambda match: match[0])[1]


def load_overheads() -> Overheads:
    """Read `resources/hardware/overheads.json`."""
    content = read_catalogue_file("overheads.json", "vram-planner/overheads")
    sources = read_sources(content)
    observations: dict[str, Observation] = {}
    for record in content.records("observations"):
        observation = read_observation(record, sources)
        if observation.id in observations:
            raise CatalogueError(f"{record.where}: the id '{observation.id}' is used twice.")
        observations[observation.id] = observation
    allowances: dict[AllowanceKind, tuple[Allowance, ...]] = dict.fromkeys(ALLOWANCE_KINDS, ())
    for record in content.records("allowances"):
        allowance = read_allowance(record, observations)
        allowances[allowance.kind] += (allowance,)
    content.close()
    for kind, items in allowances.items():
        if not any(item.precision(None) == 0 and item.from_gpus <= 1 for item in items):
            raise CatalogueError(f"overheads.json has no allowance '{kind}' that holds for any single GPU.")
    return Overheads(MappingProxyType(allowances), MappingProxyType(observations))


def read_observation(record: Record, sources: Mapping[str, Source]) -> Observation:
    """One observation from its record; only what is said to be missing may do without a source."""
    kind = cast(ObservationKind, record.choice("kind", OBSERVATION_KINDS))
    mib = record.optional_number("mib")
    spread = record.optional_record("range_mib")
    observation = Observation(
        id=record.text("id"),
        category=record.text("category"),
        kind=kind,
        size_bytes=None if mib is None else int(mib * MIB),
        range_bytes=_read_range(spread) if spread else None,
        gpu=record.text("gpu", ""),
        generation=record.text("generation", ""),
        scope=record.text("scope"),
        cuda=record.text("cuda", ""),
        pytorch=record.text("pytorch", ""),
        driver=record.text("driver", ""),
        os=record.text("os", ""),
        conditions=record.text("conditions"),
        note=record.text("note", ""),
        sources=() if kind == "missing" else cited(record, sources),
    )
    record.close()
    return observation


def read_allowance(record: Record, observations: Mapping[str, Observation]) -> Allowance:
    """One allowance from its record; it must name at least one observation of the file."""
    named = record.texts("observations")
    if not named or any(name not in observations for name in named):
        raise record.wrong("observations", "must name observations of this file")
    behind = tuple(observations[name] for name in named)
    what, basis = record.text("what"), record.text("basis")
    documents = dict.fromkeys(source.text for item in behind for source in item.sources)
    allowance = Allowance(
        id=record.text("id"),
        kind=cast(AllowanceKind, record.choice("kind", ALLOWANCE_KINDS)),
        what=what,
        vendors=record.texts("vendors"),
        architectures=record.texts("architectures"),
        compute_capabilities=record.texts("compute_capabilities"),
        from_gpus=record.whole("from_gpus", 1),
        unit=cast(Literal["MiB", "share"], record.choice("unit", ("MiB", "share"))),
        low=record.number("low"),
        typical=record.number("typical"),
        high=record.number("high"),
        basis=basis,
        observations=behind,
        source=f"{what}: {basis} [{'; '.join(documents)}]",
    )
    record.close()
    if not allowance.low <= allowance.typical <= allowance.high:
        raise record.wrong("typical", "must lie between low and high")
    return allowance


def _read_range(record: Record) -> tuple[int, int]:
    low, high = record.number("low", minimum=-1e9), record.number("high", minimum=-1e9)
    record.close()
    return int(low * MIB), int(high * MIB)
