"""Hand-made plans and GPUs: the chart is tested apart from the engine that fills it in."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from planner.chart.build import lifecycle_chart
from planner.chart.spec import ChartSpec
from planner.engine.plan import ModelSummary, Peak, PhaseName, PhasePlan, Plan, Room, Surroundings, Verdict
from planner.engine.term import Component, Term, term
from planner.hardware import Capacities, ChosenGpu
from planner.units import GIB

PhaseMaker = Callable[..., PhasePlan]
PlanMaker = Callable[..., Plan]
GpuMaker = Callable[..., ChosenGpu]


def make_gpu(label: str, usable_gib: float | None, gpu_id: str | None = None) -> ChosenGpu:
    usable = None if usable_gib is None else round(usable_gib * GIB)
    capacities = Capacities(usable, usable, usable, "custom" if usable else "unknown", "As entered.")
    return ChosenGpu(gpu_id or label, f"NVIDIA {label}", label, None, capacities)


def make_phase(
    components: Mapping[Component, float],
    *,
    capacities: Mapping[str, float] | None = None,
    band: float = 0.05,
    host_ram: int = 0,
) -> PhasePlan:
    """A phase from its components in GiB, judged as the engine judges it."""
    sizes: dict[Component, int] = {name: round(gib * GIB) for name, gib in components.items()}
    total = sum(sizes.values())
    low, high = round(total * (1 - band)), round(total * (1 + band))
    verdicts = {}
    for gpu, gib in (capacities or {}).items():
        capacity = round(gib * GIB)
        kind = "fits" if high <= capacity else "tight" if low <= capacity else "oom"
        verdicts[gpu] = Verdict(kind, capacity, capacity - total, lambda: 1)
    batches = term("overhead", "batches", ("host_ram",), "a test", bytes=host_ram)
    return PhasePlan(
        Peak("backward", total, total, total, low, high),
        sizes,
        {},
        tuple,
        verdicts,
        surround=lambda: Surroundings((batches,)),
    )


def make_plan(phases: Mapping[PhaseName, PhasePlan], name: str = "Llama 3 8B") -> Plan:
    return Plan(name, ModelSummary(8_030_261_248, 8_030_261_248, 525_336_576, 131_072, 6_979_321_856, 1), phases)


GPUS = (
    make_gpu("H100", 79.1, "h100"),
    make_gpu("L40S", 44.4, "l40s"),
    make_gpu("RTX 4090", 23.5, "4090"),
)


def mockup_plan() -> Plan:
    """The figures of the product's first drawing: six phases of an 8-billion-parameter model."""
    capacities = {"h100": 79.1, "l40s": 44.4, "4090": 23.5}

    def phase(*gib: float, **more: float) -> PhasePlan:
        names: tuple[Component, ...] = (
            "weights", "gradients", "optimizer_states", "activations", "logits", "kv_cache", "overhead"
        )  # fmt: skip
        return make_phase(dict(zip(names, gib, strict=True)), capacities=capacities, **more)

    return make_plan(
        {
            "serving": phase(15, 0, 0, 1.2, 0.3, 32, 1.4),
            "evaluation": phase(15, 0, 0, 0.5, 3.9, 0, 0.9),
            "design": phase(15, 0, 0, 0.1, 0.1, 0, 0.7),
            "preprocessing": phase(0, 0, 0, 0, 0, 0, 0, host_ram=12 * GIB),
            "training": phase(15, 15, 11.2, 3.9, 11.7, 0, 2.3),
            "fine_tuning": phase(5.6, 0.1, 0.2, 2.6, 11.7, 0, 1.3),
        }
    )


def mockup_chart(**changes: object) -> ChartSpec:
    settings: dict[str, object] = {
        "gpus": GPUS,
        "judge": "l40s",
        "captions": {"fine_tuning": "QLoRA", "serving": "32 × 8k"},
    }
    return lifecycle_chart(mockup_plan(), **{**settings, **changes})  # type: ignore[arg-type]


SERVER = Room("DGX", 100 * GIB, 200 * GIB)


def host_entry(component: Component, name: str, where: str, gib: float) -> Term:
    return term(component, name, (where,), "a test", bytes=round(gib * GIB))


def with_surroundings(
    phase: PhasePlan, *, room: Room, host: tuple[Term, ...] = (), disk: tuple[Term, ...] = ()
) -> PhasePlan:
    return replace(phase, room=room, surround=lambda: Surroundings(host, disk))


def make_host_plan(room: Room = SERVER) -> Plan:
    """Three phases with terms of host RAM and disk; two of them read the same base model."""
    base = host_entry("weights", "base model", "storage", 15)
    loading = host_entry("weights", "loading the checkpoint", "host_ram", 60)
    return make_plan(
        {
            "preprocessing": with_surroundings(
                make_phase({}),
                room=room,
                host=(host_entry("data", "batches", "host_ram", 3), host_entry("overhead", "processes", "host_ram", 2)),
                disk=(host_entry("data", "raw data", "storage", 24),),
            ),
            "training": with_surroundings(
                make_phase({"weights": 15}),
                room=room,
                host=(loading, host_entry("weights", "files", "page_cache", 50)),
                disk=(base, host_entry("optimizer_states", "checkpoints", "storage", 140)),
            ),
            "evaluation": with_surroundings(make_phase({"weights": 15}), room=room, disk=(base,)),
        }
    )


@pytest.fixture
def host_plan() -> Callable[..., Plan]:
    return make_host_plan


@pytest.fixture
def phase() -> PhaseMaker:
    return make_phase


@pytest.fixture
def plan() -> PlanMaker:
    return make_plan


@pytest.fixture
def gpu() -> GpuMaker:
    return make_gpu


@pytest.fixture
def mockup() -> Callable[..., ChartSpec]:
    return mockup_chart
