"""The answer: what each phase needs, where its peak lies, and what that means on each GPU."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from planner.engine.term import Component, Factor, Term

VerdictKind = Literal["fits", "tight", "oom", "unknown"]
PhaseName = Literal["design", "preprocessing", "training", "fine_tuning", "evaluation", "serving"]
PHASES: tuple[PhaseName, ...] = ("design", "preprocessing", "training", "fine_tuning", "evaluation", "serving")


@dataclass(frozen=True, slots=True)
class Moment:
    """Memory at one named moment of a phase, at the instant that needs most. All bytes are per GPU."""

    name: str
    instant: str
    allocated_bytes: int
    components: Mapping[Component, int]
    """Sums to `allocated_bytes`; `overhead` is not part of it."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest moment, in the three meanings of "used", and the band around the last of them."""

    moment: str
    allocated_bytes: int
    reserved_bytes: int
    process_bytes: int
    low_bytes: int
    high_bytes: int


@dataclass(frozen=True)
class Verdict:
    """Whether the phase fits a GPU: the band `low..high` of `process_bytes` against the usable capacity."""

    verdict: VerdictKind
    capacity_bytes: int | None
    headroom_bytes: int | None
    """Capacity minus the need; negative by how much it does not fit."""
    find_gpus: Callable[[], int | None] = lambda: None
    """Searches for `gpus_needed`, which takes far longer than the verdict itself."""
    missing: tuple[str, ...] = ()
    """What would have to be known where the verdict is `unknown`."""
    group: str = ""
    """The role whose GPUs it is about, where that is not the policy."""

    @cached_property
    def gpus_needed(self) -> int | None:
        """The smallest number of such GPUs for which a legal layout fits; None where none was found."""
        return self.find_gpus()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Terms of host RAM, per node, and of disk, for the whole job. Those that live in `page_cache` are only wanted."""

    host_terms: tuple[Term, ...] = ()
    storage_terms: tuple[Term, ...] = ()
    told: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON members of the phase."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a node offers beside its GPUs, and where stored things go; None where it is not known."""

    name: str = ""
    """Of the server; empty where none was chosen and nothing is stated, so that nothing is judged."""
    ram_bytes: int | None = None
    disk_bytes: int | None = None
    """NVMe of all nodes, or the file system they share."""
    shared: bool = False


NO_ROOM = Room()
UNNAMED = "server"
"""What servers are called of which only RAM or disks are stated."""


HELD = ("host_ram",)
RAM_MISSING = "RAM of the server"
DISK_MISSING = "disks of the server"


def room_verdict(room: Room, capacity: int | None, need: int, wanted: int, missing: str) -> Verdict | None:
    """A need against what a node offers: tight where what is `wanted` beside it does not fit."""
    if not room.name:
        return None
    if capacity is None:
        return Verdict("unknown", None, None, missing=(missing,)) if need else None
    kind: VerdictKind = "oom" if need > capacity else "tight" if need + wanted > capacity else "fits"
    return Verdict(kind, capacity, capacity - need)


def by_name(terms: Iterable[Term]) -> dict[str, int]:
    """Bytes of single-valued terms by their names, as a plan tells them."""
    found: dict[str, int] = {}
    for item in terms:
        found[item.name] = found.get(item.name, 0) + int(item.bytes)
    return {name: size for name, size in found.items() if size}


@dataclass(frozen=True)
class PhasePlan:
    """One phase of the life of a model. All VRAM figures are bytes per GPU, of the fullest rank."""

    peak: Peak
    components: Mapping[Component, int]
    """At the peak; sums to `peak.process_bytes`."""
    moments: Mapping[str, Moment]
    tell: Callable[[], tuple[Term, ...]]
    """Makes `terms`; they are many, and most views never ask."""
    verdicts: Mapping[str, Verdict]
    """For each GPU; where further groups of GPUs work for the phase, the worst of all groups."""
    count_layer_activations: Callable[[], int] = lambda: 0
    surround: Callable[[], Surroundings] = Surroundings
    """Counts host RAM and storage."""
    warnings: tuple[str, ...] = ()
    describe: Callable[[], Mapping[str, Any]] = dict
    """Finds `details`, which take longer than the rest of the phase."""
    room: Room = NO_ROOM
    case_class: str = ""
    """The class of case whose band the peak has; empty where nothing is on a GPU."""
    groups: "Mapping[str, PhasePlan]" = field(default_factory=dict)
    """Further groups of GPUs that work for this phase, by the role that they are for."""
    policy_verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Where there are such groups, the verdicts of the phase's own GPUs alone."""

    @property
    def own_verdicts(self) -> Mapping[str, Verdict]:
        """The verdicts on what this plan's figures are about: its own GPUs."""
        return self.policy_verdicts or self.verdicts

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Every term alive at some moment; `alive` holds names of moments."""
        return self.tell()

    @cached_property
    def details(self) -> Mapping[str, Any]:
        """Further JSON members of the phase: `kv`, `engine_budget`, `buffers` for serving."""
        return self.describe()

    @cached_property
    def layer_activation_bytes(self) -> int:
        """What the repeated layers alone keep for backward."""
        return self.count_layer_activations()

    @cached_property
    def _around(self) -> Surroundings:
        return self.surround()

    @property
    def host_terms(self) -> tuple[Term, ...]:
        """Terms behind `host_ram`, `page_cache` and `storage`."""
        return (*self._around.host_terms, *self._around.storage_terms)

    @property
    def around(self) -> Mapping[str, Any]:
        """Further JSON members that host and storage bring: `checkpoints` for training."""
        return self._around.told

    @cached_property
    def host_ram(self) -> Mapping[str, int]:
        """Bytes of host RAM per node that processes hold, by what holds them."""
        return by_name(item for item in self._around.host_terms if item.alive == HELD)

    @cached_property
    def page_cache(self) -> Mapping[str, int]:
        """Bytes of host RAM per node that the kernel should have left for files."""
        return by_name(item for item in self._around.host_terms if item.alive != HELD)

    @cached_property
    def storage(self) -> Mapping[str, int]:
        """Bytes on disk for the whole job, by what they are."""
        return by_name(self._around.storage_terms)

    @property
    def host_ram_bytes(self) -> int:
        return sum(self.host_ram.values())

    @property
    def page_cache_bytes(self) -> int:
        return sum(self.page_cache.values())

    @property
    def storage_bytes(self) -> int:
        return sum(self.storage.values())

    @cached_property
    def host_verdict(self) -> Verdict | None:
        """Whether a node's RAM is enough; None where no node is known."""
        return room_verdict(self.room, self.room.ram_bytes, self.host_ram_bytes, self.page_cache_bytes, RAM_MISSING)

    @cached_property
    def storage_verdict(self) -> Verdict | None:
        """Whether the disks are large enough; a fifth of them should stay free. None where no node is known."""
        wanted = self.storage_bytes // 4
        return room_verdict(self.room, self.room.disk_bytes, self.storage_bytes, wanted, DISK_MISSING)


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What is counted of the model itself."""

    parameters: int
    active_parameters: int
    embedding_parameters: int
    kv_bytes_per_token: int
    linear_4bit_parameters: int
    weight_bytes: int


SHARED_FILES = ("base model",)
"""Files that several phases read and that are stored once."""


@dataclass(frozen=True, slots=True)
class Programme:
    """All phases together: one cluster is bought for them. RAM is that of the fullest phase, disk that of all."""

    host_ram_bytes: int
    storage: Mapping[PhaseName, int]
    """What each phase adds to the disks; what phases share counts with the first of them."""
    host_verdict: Verdict | None
    storage_verdict: Verdict | None

    @property
    def storage_bytes(self) -> int:
        return sum(self.storage.values())

    @property
    def required_storage_bytes(self) -> int:
        """The disks to buy, of which four fifths can be relied on (stas00/ml-engineering, storage)."""
        return -(-self.storage_bytes * 5 // 4)


def programme(phases: Mapping[PhaseName, PhasePlan]) -> Programme:
    """What the phases of a plan need together."""
    stored: dict[PhaseName, int] = {}
    seen: dict[str, int] = {}
    for name, phase in phases.items():
        again = 0
        for title in SHARED_FILES:
            size = phase.storage.get(title, 0)
            again += min(size, seen.get(title, 0))
            seen[title] = max(size, seen.get(title, 0))
        stored[name] = phase.storage_bytes - again
    room = next((phase.room for phase in phases.values()), NO_ROOM)
    plans = [plan for phase in phases.values() for plan in (phase, *phase.groups.values())]
    fullest = max(plans, key=lambda plan: plan.host_ram_bytes, default=None)
    total = sum(stored.values())
    return Programme(
        0 if fullest is None else fullest.host_ram_bytes,
        stored,
        worst(plan.host_verdict for plan in plans),
        room_verdict(room, room.disk_bytes, total, total // 4, DISK_MISSING),
    )


def worst(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    order = ("oom", "unknown", "tight", "fits")
    found = [verdict for verdict in verdicts if verdict is not None]
    return min(found, key=lambda item: (order.index(item.verdict), item.headroom_bytes or 0), default=None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What `estimate` returns: a function of the scenario and the catalogue alone."""

    name: str
    model: ModelSummary
    phases: Mapping[PhaseName, PhasePlan]

    def to_json(self) -> dict[str, Any]:
        """The plan in the public file format `vram-planner/plan`, version 1."""
        return {
            "format": "vram-planner/plan",
            "version": 1,
            "name": self.name,
            "model": {key: getattr(self.model, key) for key in ModelSummary.__slots__},
            "phases": {name: _phase_json(phase) for name, phase in self.phases.items()},
            "programme": _programme_json(programme(self.phases)),
        }


def _programme_json(whole: Programme) -> dict[str, Any]:
    return {
        "host_ram_bytes": whole.host_ram_bytes,
        "storage_bytes": whole.storage_bytes,
        "required_storage_bytes": whole.required_storage_bytes,
        "storage": dict(whole.storage),
        **_rooms_json(whole),
    }


def _rooms_json(judged: PhasePlan | Programme) -> dict[str, Any]:
    """The verdicts of RAM and disks, where a node is known."""
    verdicts = {"host_verdict": judged.host_verdict, "storage_verdict": judged.storage_verdict}
    return {name: _verdict_json(verdict) for name, verdict in verdicts.items() if verdict is not None}


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict.verdict,
        "capacity_bytes": verdict.capacity_bytes,
        "headroom_bytes": verdict.headroom_bytes,
        **({"missing": list(verdict.missing)} if verdict.missing else {}),
        **({"group": verdict.group} if verdict.group else {}),
    }


def _phase_json(phase: PhasePlan) -> dict[str, Any]:
    return {
        "peak": {key: getattr(phase.peak, key) for key in Peak.__slots__},
        "components": dict(phase.components),
        "moments": {
            name: {"allocated_bytes": moment.allocated_bytes, "instant": moment.instant, **moment.components}
            for name, moment in phase.moments.items()
        },
        "terms": [_term_json(item) for item in phase.terms],
        "layer_activation_bytes": phase.layer_activation_bytes,
        "host_ram_bytes": phase.host_ram_bytes,
        "host_ram": dict(phase.host_ram),
        "page_cache_bytes": phase.page_cache_bytes,
        "storage_bytes": phase.storage_bytes,
        "storage": dict(phase.storage),
        "host_terms": [_term_json(item) for item in phase.host_terms],
        "verdicts": _verdicts_json(phase.verdicts),
        **_rooms_json(phase),
        "warnings": list(phase.warnings),
        **({"groups": {role: _phase_json(group) for role, group in phase.groups.items()}} if phase.groups else {}),
        **({"policy_verdicts": _verdicts_json(phase.policy_verdicts)} if phase.policy_verdicts else {}),
        **phase.around,
        **phase.details,
    }


def _verdicts_json(verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    return {gpu: {**_verdict_json(verdict), "gpus_needed": verdict.gpus_needed} for gpu, verdict in verdicts.items()}


def _term_json(item: Term) -> dict[str, Any]:
    derived = {factor.name: factor.how for factor in item.factors if factor.how}
    return {
        "component": item.component,
        "name": item.name,
        "bytes": item.bytes,
        "factors": {factor.name: factor.value for factor in item.factors},
        **({"derived": derived} if derived else {}),
        "alive": list(item.alive),
        "source": item.source,
    }


__all__ = ["PHASES", "Factor", "ModelSummary", "Moment", "Peak", "PhaseName", "PhasePlan", "Plan", "Term", "Verdict"]
