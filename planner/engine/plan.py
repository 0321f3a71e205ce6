"""The answer: what each phase needs, where its peak lies, and what that means on each GPU."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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

    @cached_property
    def gpus_needed(self) -> int | None:
        """The smallest number of such GPUs for which a legal layout fits; None where none was found."""
        return self.find_gpus()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Terms of host RAM, per node, and of disk, for the whole job: of the component `overhead`."""

    host_terms: tuple[Term, ...] = ()
    storage_terms: tuple[Term, ...] = ()


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
    count_layer_activations: Callable[[], int] = lambda: 0
    surround: Callable[[], Surroundings] = Surroundings
    """Counts host RAM and storage."""
    warnings: tuple[str, ...] = ()
    describe: Callable[[], Mapping[str, Any]] = dict
    """Finds `details`, which take longer than the rest of the phase."""

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
        """Terms behind `host_ram` and `storage`."""
        return (*self._around.host_terms, *self._around.storage_terms)

    @cached_property
    def host_ram(self) -> Mapping[str, int]:
        """Bytes of host RAM per node, by what holds them."""
        return by_name(self._around.host_terms)

    @cached_property
    def storage(self) -> Mapping[str, int]:
        """Bytes on disk for the whole job, by what they are."""
        return by_name(self._around.storage_terms)

    @property
    def host_ram_bytes(self) -> int:
        return sum(self.host_ram.values())

    @property
    def storage_bytes(self) -> int:
        return sum(self.storage.values())


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What is counted of the model itself."""

    parameters: int
    active_parameters: int
    embedding_parameters: int
    kv_bytes_per_token: int
    linear_4bit_parameters: int
    weight_bytes: int


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
        "storage_bytes": phase.storage_bytes,
        "storage": dict(phase.storage),
        "verdicts": {
            gpu: {
                "verdict": verdict.verdict,
                "capacity_bytes": verdict.capacity_bytes,
                "headroom_bytes": verdict.headroom_bytes,
                "gpus_needed": verdict.gpus_needed,
                **({"missing": list(verdict.missing)} if verdict.missing else {}),
            }
            for gpu, verdict in phase.verdicts.items()
        },
        "warnings": list(phase.warnings),
        **phase.details,
    }


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
