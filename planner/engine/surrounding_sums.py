"""Host RAM and storage by what they hold, as charts and explanations show them."""

from collections.abc import Iterable, Mapping

from planner.engine.plan import HELD, SHARED_FILES, PhaseName, PhasePlan, programme
from planner.engine.storage import STORAGE
from planner.engine.term import Component, Term


def held_terms(phase: PhasePlan) -> tuple[Term, ...]:
    """Terms of host RAM that processes of a node hold."""
    return tuple(item for item in phase.host_terms if item.alive == HELD and int(item.bytes))


def cached_terms(phase: PhasePlan) -> tuple[Term, ...]:
    """Terms of host RAM that the kernel should have left for files."""
    return tuple(item for item in phase.host_terms if item.alive not in (HELD, STORAGE) and int(item.bytes))


def stored_terms(phase: PhasePlan) -> tuple[Term, ...]:
    """Terms of disk."""
    return tuple(item for item in phase.host_terms if item.alive == STORAGE and int(item.bytes))


def host_components(phase: PhasePlan) -> dict[Component, int]:
    """Bytes of host RAM by component; they sum to `host_ram_bytes`."""
    return _by_component(held_terms(phase))


def storage_components(phase: PhasePlan) -> dict[Component, int]:
    """Bytes on disk by component; they sum to `storage_bytes`."""
    return _by_component(stored_terms(phase))


def programme_components(phases: Mapping[PhaseName, PhasePlan]) -> dict[Component, int]:
    """Bytes on disk of all phases by component; files that several phases read count with the first of them."""
    stored = programme(phases).storage
    sums: dict[Component, int] = {}
    for name, phase in phases.items():
        again = phase.storage_bytes - stored[name]
        for component, size in storage_components(phase).items():
            sums[component] = sums.get(component, 0) + size
        shared = next((item.component for item in stored_terms(phase) if item.name in SHARED_FILES), None)
        if shared is not None:
            sums[shared] -= again
    return {component: size for component, size in sums.items() if size}


def _by_component(terms: Iterable[Term]) -> dict[Component, int]:
    sums: dict[Component, int] = {}
    for item in terms:
        sums[item.component] = sums.get(item.component, 0) + int(item.bytes)
    return sums
