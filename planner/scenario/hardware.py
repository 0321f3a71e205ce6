"""The hardware asked for: GPUs to compare, the one that judges, and the node around them."""

from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from planner.scenario.declaration import Declared, declare

MAX_BYTES = 10**18
MAX_PRICE = 1_000_000.0
CATALOGUE_ID = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"


class CustomGpu(Declared):
    """A card that is not in the catalogue (`name` and `memory_gib`), or how many of one that is (`id`, `count`)."""

    id: str | None = declare(
        None, "Catalogue id", "Id of a GPU in the catalogue.", pattern=CATALOGUE_ID, max_length=100
    )
    name: str | None = declare(None, "Name", "Name of a card of your own.", max_length=100)
    memory_gib: float | None = declare(
        None, "Memory", "Memory that software can use.", unit="GiB", ge=0.01, le=1_000_000.0, step=1
    )
    count: int = declare(1, "Count", "How many of it there are.", unit="GPUs", ge=1, le=1_000_000)
    price_per_gpu_hour: float | None = declare(
        None, "Price", "What one of it costs for an hour.", unit="per GPU-hour", ge=0.0, le=MAX_PRICE, step=0.1
    )

    @model_validator(mode="after")
    def _is_one_card(self) -> Self:
        if (self.id is None) == (self.name is None):
            raise PydanticCustomError("gpu_entry", "A GPU needs either an id or a name.")
        if self.name is not None and (self.memory_gib is None or not self.name.strip()):
            raise PydanticCustomError("custom_gpu", "A GPU of your own needs a name and its memory.")
        return self

    @property
    def key(self) -> str:
        """What it is called in verdicts and by `judge`."""
        return self.id or self.name or ""


class CustomNode(Declared):
    """A server that is not in the catalogue."""

    name: str = declare("Custom node", "Name", "Name of the server.", max_length=100)
    host_ram_bytes: int | None = declare(None, "Host RAM", "Main memory.", unit="bytes", ge=1, le=MAX_BYTES)
    nvme_bytes: int | None = declare(None, "NVMe", "Fast local disk.", unit="bytes", ge=1, le=MAX_BYTES)
    cpu_cores: int | None = declare(None, "CPU cores", "Physical cores.", unit="cores", ge=1, le=100_000)


def _gpu_tag(value: Any) -> str:
    return "<id>" if isinstance(value, str) else "<CustomGpu>"


def _node_tag(value: Any) -> str:
    return "<id>" if isinstance(value, str) else "<CustomNode>"


CatalogueId = Annotated[str, Field(pattern=CATALOGUE_ID, max_length=100)]
GpuEntry = Annotated[
    Annotated[CatalogueId, Tag("<id>")] | Annotated[CustomGpu, Tag("<CustomGpu>")],
    Discriminator(_gpu_tag),
]
NodeEntry = Annotated[
    Annotated[CatalogueId, Tag("<id>")] | Annotated[CustomNode, Tag("<CustomNode>")],
    Discriminator(_node_tag),
]


class Hardware(Declared):
    """What the plan is judged against."""

    gpus: Annotated[tuple[GpuEntry, ...], Field(min_length=1, max_length=100, strict=False)] = declare(
        ("h100-sxm5-80gb",),
        "GPUs",
        "The GPUs to compare: ids of the catalogue, MIG slices such as a100-sxm4-80gb/3g.40gb, or cards of your own.",
    )
    judge: str | None = declare(
        None, "Judged by", "The GPU whose capacity flags a phase. Automatic: the first.", max_length=200
    )
    gpus_per_node: int = declare(8, "GPUs per node", "GPUs in each server.", unit="GPUs", ge=1, le=100_000)
    nodes: int = declare(1, "Nodes", "Servers.", unit="nodes", ge=1, le=1_000_000)
    node: NodeEntry | None = declare(
        None, "Server", "A server of the catalogue, or one of your own: its RAM and disks are judged.", advanced=True
    )
    host_ram_bytes: int | None = declare(
        None, "Host RAM", "Main memory of each server.", unit="bytes", ge=1, le=MAX_BYTES, advanced=True
    )
    nvme_bytes: int | None = declare(
        None, "NVMe", "Fast local disk of each server.", unit="bytes", ge=1, le=MAX_BYTES, advanced=True
    )
    shared_storage_bytes: int | None = declare(
        None,
        "Shared storage",
        "A file system that all servers share. Where there is one, all that is stored is judged by it, not by NVMe.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )
    headroom_percent: float = declare(
        0.0, "Keep free", "Share of each GPU that must stay free.", unit="%", ge=0.0, le=90.0, step=1
    )
    gpu_total_bytes: int | None = declare(
        None,
        "Usable memory",
        "What CUDA reports as total on the real card, instead of the catalogue's usable capacity.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )
    network_gbit_per_s: float | None = declare(
        None,
        "Network",
        "What the network adapters of one server carry together, one way. Automatic: that of the server chosen above.",
        unit="Gbit/s",
        ge=0.01,
        le=1_000_000.0,
        step=100,
        advanced=True,
    )
    price_per_gpu_hour: float | None = declare(
        None,
        "Price",
        "What one hour of the GPU that judges costs, for the rough cost of a step or of a million tokens. No price is "
        "built in: enter your own.",
        unit="per GPU-hour",
        ge=0.0,
        le=MAX_PRICE,
        step=0.1,
        advanced=True,
    )
    currency: str = declare(
        "", "Currency", "What prices are in, such as EUR. Shown beside costs.", max_length=20, advanced=True
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """What each GPU is called in verdicts and by `judge`."""
        return tuple(entry if isinstance(entry, str) else entry.key for entry in self.gpus)

    @property
    def judged_by(self) -> str:
        return self.judge or self.keys[0]

    @property
    def price(self) -> float | None:
        """Of one hour of the judging GPU: that of its entry, else the one stated for it here."""
        own = self._judging
        return self.price_per_gpu_hour if own is None or own.price_per_gpu_hour is None else own.price_per_gpu_hour

    @property
    def _judging(self) -> CustomGpu | None:
        """The entry of the judging GPU, where it is more than an id."""
        return next((entry for entry in self.gpus if not isinstance(entry, str) and entry.key == self.judged_by), None)

    @property
    def available_gpus(self) -> int:
        """How many of the judging GPU there are: as its entry says, else as nodes hold."""
        entry = self._judging
        return entry.count if entry and entry.states("count") else self.gpus_per_node * self.nodes
