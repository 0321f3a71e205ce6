"""How many GPUs a serving load needs: the smallest legal layout whose need fits the engine's budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from planner.engine.servers import ServingWorkload, plan_server
from planner.engine.term import Term
from planner.engine.verdict import MOST_GPUS, gpus_needed
from planner.hardware import ChosenGpu, HardwareCatalog
from planner.model.spec import Attention, LatentAttention, ModelSpec

Trace = Callable[[ServingWorkload], Sequence[Term]]
"""What a pass over a workload works with, for an engine whose passes are traced."""
WHOLE_SPLITS = ("llama.cpp",)
"""Engines that cut the model by layers alone."""


def serving_gpus_needed(
    engine: str,
    load: ServingWorkload,
    chosen: ChosenGpu,
    hardware: HardwareCatalog,
    *,
    high_share: float = 1.0,
    gpus_per_node: int = 8,
    trace: Trace | None = None,
) -> int | None:
    """The smallest number of `chosen` GPUs that hold the load of one replica's `load.sequences`, or None up to 1024.

    Layouts are tensor x pipeline x data: tensor parallelism divides the heads and stays inside a node, a pipeline has
    no more stages than layers, replicas share the requests. `high_share` is the upper end of the band over the need;
    `trace` finds what a pass works with, for an engine whose passes are traced: only where the rest fits.
    """

    def need(gpus: int) -> int | None:
        fitting: list[int] = []
        for tensor, pipeline, data in layouts(engine, load.spec, gpus, gpus_per_node):
            sequences = -(-load.sequences // data)
            changed = replace(load, tensor_parallel=tensor, pipeline=pipeline, sequences=sequences)
            plan = plan_server(engine, changed, chosen, hardware.overheads)
            if plan.capacity_bytes is None or plan.refused:
                continue
            if trace is not None and plan.need_bytes <= plan.capacity_bytes:
                plan = plan_server(engine, changed, chosen, hardware.overheads, trace(changed))
            fitting.append(int(plan.need_bytes * high_share) - int(plan.capacity_bytes))
        return min(fitting, default=None)

    return None if chosen.capacities.usable_bytes is None else gpus_needed(need, 0, most=MOST_GPUS)


def layouts(engine: str, spec: ModelSpec, gpus: int, gpus_per_node: int) -> Iterator[tuple[int, int, int]]:
    """Legal (tensor, pipeline, data) degrees whose product is `gpus`."""
    degrees = (1,) if engine in WHOLE_SPLITS else tensor_degrees(engine, spec, min(gpus, gpus_per_node))
    for tensor in degrees:
        if gpus % tensor:
            continue
        rest = gpus // tensor
        for pipeline in range(1, min(rest, spec.layers) + 1):
            if rest % pipeline == 0:
                yield tensor, pipeline, rest // pipeline


def tensor_degrees(engine: str, spec: ModelSpec, most: int) -> Iterator[int]:
    """Degrees up to `most` over which one copy can be divided: they divide all heads, or any number of layers."""
    mixers = [group.mixer for group in spec.stack.groups]
    heads = [mixer.heads for mixer in mixers if isinstance(mixer, Attention | LatentAttention)]
    for degree in range(1, most + 1):
        if engine in WHOLE_SPLITS:
            if degree <= spec.layers:
                yield degree
        elif degree == 1 or (heads and all(count % degree == 0 for count in heads)):
            yield degree
