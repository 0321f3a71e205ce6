"""Other layouts over the GPUs that there are, with the optimizer's batch as it was."""

from collections.abc import Iterator
from itertools import product

from planner.engine.advisor.change import Change
from planner.engine.case import Case, Edit
from planner.engine.phases.serving_layout import WHOLE_SPLITS
from planner.scenario.parallelism import Parallelism
from planner.scenario.phases import Evaluation
from planner.scenario.serving import Serving
from planner.scenario.step import TrainingStep

DEGREES = (1, 2, 4, 8, 16, 32, 64)
SHALLOW = 8
"""Stages of a deeper pipeline are only offered where there are as many micro-batches: others wait most of the time."""
PIPELINES = ("megatron-core", "torchtitan")
"""Software that cuts models into stages, and sequences among ranks."""
CROSSING = "Activations cross between GPUs in every layer."
DISPATCHING = "Tokens cross between GPUs around every mixture of experts."
GSHARD = "GShard (arXiv:2006.16668): tokens are dispatched to experts and combined by all-to-all"
MEGATRON = "Narayanan et al. (arXiv:2104.04473), sections 2.2 and 2.3"
ZERO = "ZeRO (arXiv:1910.02054), section 7"
CONTEXT = "Ring Attention (arXiv:2310.01889)"


def layout_changes(case: Case) -> Iterator[Change]:
    """Layouts of the same GPUs, or of more of those that the plan has; whether one is legal the rules say."""
    fields = case.fields
    if isinstance(fields, TrainingStep):
        yield from _of_steps(case, fields)
    elif isinstance(fields, Serving):
        yield from _of_serving(case, fields)
    elif isinstance(fields, Evaluation):
        yield from _of_evaluation(case)
    if isinstance(fields, TrainingStep | Serving | Evaluation):
        yield from _of_experts(case)


def _of_steps(case: Case, step: TrainingStep) -> Iterator[Change]:
    now, available = step.parallelism, case.scenario.hardware.available_gpus
    cuts = step.activation_profile in PIPELINES
    per_node = case.scenario.hardware.gpus_per_node
    tensors = {now.tensor, *(degree for degree in DEGREES if degree <= per_node)}
    pipelines = {now.pipeline, *(_depths(case.spec.layers) if cuts else ())}
    contexts = {now.context, *(degree for degree in DEGREES if cuts and degree <= per_node)}
    for tensor, pipeline, context in product(sorted(tensors), sorted(pipelines), sorted(contexts)):
        moved = (tensor != now.tensor) + (pipeline != now.pipeline) + (context != now.context)
        copy = tensor * pipeline * context
        for data in _copies(copy, now.ranks, available) if moved <= 2 else ():
            changed = (tensor, pipeline, context, data) != (now.tensor, now.pipeline, now.context, now.data)
            layout = {"tensor": tensor, "pipeline": pipeline, "context": context, "data": data}
            for stage in _stages(step, data, pipeline) if changed else ():
                change = _step_change(case, step, layout, stage, copy * data)
                if change is not None:
                    yield change


def _depths(layers: int) -> tuple[int, ...]:
    """Numbers of stages that get as many layers each."""
    return tuple(degree for degree in range(1, min(layers, DEGREES[-1]) + 1) if layers % degree == 0)


def _copies(copy: int, now: int, available: int) -> tuple[int, ...]:
    """Copies of a model on so many GPUs each: as many as take no fewer GPUs than now, then twice as many and so on."""
    found: list[int] = []
    data = 1
    while data * copy <= available:
        if data * copy >= now:
            found.append(data)
        data *= 2
    return tuple(found)


def _stages(step: TrainingStep, data: int, pipeline: int) -> tuple[int, ...]:
    """ZeRO stages to try: as it is, and what the software divides most with."""
    now = step.parallelism.zero_stage
    if data == 1:
        return (0,)
    if step.activation_profile == "megatron-core" or pipeline > 1:
        return (max(now, 1),)
    return (now, 3) if now != 3 else (3,)


def _step_change(case: Case, step: TrainingStep, layout: dict[str, int], stage: int, ranks: int) -> Change | None:
    """The change with micro-batches and accumulation that keep the sequences of one update."""
    now = step.parallelism
    total = step.micro_batch_size * step.gradient_accumulation_steps * now.data
    own, rest = divmod(total, layout["data"])
    if rest:
        return None
    size = next(size for size in range(min(own, step.micro_batch_size), 0, -1) if own % size == 0)
    sizes = {"micro_batch_size": size, "gradient_accumulation_steps": own // size}
    if layout["pipeline"] > max(SHALLOW, now.pipeline, own // size):
        return None
    edits: list[Edit] = [
        (case.path("parallelism", name), value) for name, value in layout.items() if getattr(now, name) != value
    ]
    if stage != now.zero_stage:
        edits.append((case.path("parallelism", "zero_stage"), stage))
        edits.append((case.path("parallelism", "sharding_backend"), _backend(step, stage)))
    if layout["tensor"] > 1 and layout["tensor"] != now.tensor and not now.sequence_parallel:
        edits.append((case.path("parallelism", "sequence_parallel"), True))
    edits += [(case.path(name), value) for name, value in sizes.items() if getattr(step, name) != value]
    words = _words(now, layout, stage)
    more = ranks - now.ranks
    costs = CROSSING if layout["tensor"] > now.tensor else ""
    costs += " Stages wait for one another." if layout["pipeline"] > now.pipeline else ""
    costs += " Keys and values go round a ring." if layout["context"] > now.context else ""
    costs += " Half as much traffic again as data parallelism." if stage == 3 > now.zero_stage else ""
    source = CONTEXT if layout["context"] > now.context else ZERO if stage > now.zero_stage else MEGATRON
    return Change(
        "layout-" + "-".join(f"{name[0]}{value}" for name, value in {**layout, "zero": stage}.items()),
        f"{words} on {ranks} GPUs" if more else words,
        "layout",
        "speed",
        tuple(edits),
        costs.strip() or "The same traffic.",
        source,
        more,
    )


def _backend(step: TrainingStep, stage: int) -> str | None:
    """The software that divides states at that stage, where another is not stated."""
    if step.activation_profile == "megatron-core" and stage:
        return "megatron-distributed-optimizer"
    return "fsdp2" if step.activation_profile == "torchtitan" and stage == 3 else None


def _words(now: Parallelism, layout: dict[str, int], stage: int) -> str:
    """What is new, such as `Tensor parallel 4, data parallel 2`."""
    changed = [f"{name} parallel {value}" for name, value in layout.items() if getattr(now, name) != value]
    if stage != now.zero_stage:
        changed.append(f"ZeRO stage {stage}")
    text = ", ".join(changed)
    return text[:1].upper() + text[1:]


def _of_serving(case: Case, serving: Serving) -> Iterator[Change]:
    """More GPUs for each copy of the model."""
    stages = serving.engine in WHOLE_SPLITS
    field = "pipeline" if stages else "tensor"
    costs = "GPUs work one after the other." if stages else CROSSING
    for degree, more in _further_degrees(case, field):
        copy = degree * serving.parallelism.ranks // (getattr(serving.parallelism, field) * serving.parallelism.data)
        edits = ((case.path("parallelism", field), degree),)
        yield Change(f"{field}-{degree}", f"Every copy on {copy} GPUs", "layout", "speed", edits, costs, MEGATRON, more)


def _of_evaluation(case: Case) -> Iterator[Change]:
    for degree, more in _further_degrees(case, "tensor"):
        edits = ((case.path("parallelism", "tensor"), degree),)
        title = f"Tensor parallel {degree}"
        yield Change(f"tensor-{degree}", title, "layout", "speed", edits, CROSSING, MEGATRON, more)


def _of_experts(case: Case) -> Iterator[Change]:
    """Experts spread over GPUs that the other degrees count; the rules say over how many they can be."""
    counts = [getattr(group.feed_forward, "experts", 0) for group in case.spec.stack.groups]
    most = min(max(counts, default=0), case.scenario.hardware.available_gpus)
    for degree in DEGREES:
        if case.fields.parallelism.expert < degree <= most:
            edits = ((case.path("parallelism", "expert"), degree),)
            title = f"Expert parallel {degree}"
            yield Change(f"expert-{degree}", title, "experts", "speed", edits, DISPATCHING, GSHARD)


def _further_degrees(case: Case, field: str) -> Iterator[tuple[int, int]]:
    """Larger degrees within a server, each with how many more GPUs it takes."""
    now, hardware = case.fields.parallelism, case.scenario.hardware
    degree = getattr(now, field)
    for larger in DEGREES:
        more = (larger - degree) * now.ranks // degree
        if degree < larger <= hardware.gpus_per_node and now.ranks + more <= hardware.available_gpus:
            yield larger, more
