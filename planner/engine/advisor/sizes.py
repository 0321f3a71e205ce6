"""Smaller batches, lengths and loads: what still fits, and micro-batches that keep the optimizer's batch as it is."""

from collections.abc import Iterable, Iterator

from planner.engine.advisor.change import Change, Level
from planner.engine.case import Case, Edit
from planner.engine.limits import limit
from planner.engine.phases.serving_layout import WHOLE_SPLITS
from planner.model.spec import Block, LayerGroup, NormPart, Part, Repeated
from planner.scenario.phases import Evaluation
from planner.scenario.serving import Serving
from planner.scenario.step import TrainingStep

BATCH_NORM = "Batch Normalization (arXiv:1502.03167)"
ACCUMULATION = "Gradients of equal micro-batches add up to those of the whole batch (PyTorch, gradient accumulation)"
EXACT = "The largest value that fits, by estimate"
CUT = 64
"""Lengths are cut to a multiple of so many tokens, of which kernels work in tiles."""


def size_changes(case: Case) -> Iterator[Change]:
    """Smaller sizes of this case."""
    fields = case.fields
    if isinstance(fields, TrainingStep):
        yield from _micro_batches(case, fields)
        yield from _largest(case, "sequence_length", "capability", "Sequences of {} tokens", "Shorter sequences.")
    elif isinstance(fields, Evaluation):
        yield from _largest(case, "batch_size", "speed", "Batches of {}", "More, smaller batches.")
        yield from _largest(case, "sequence_length", "capability", "Sequences of {} tokens", "Shorter sequences.")
    elif isinstance(fields, Serving):
        yield from _layers_on_gpu(case, fields)
        yield from _largest(
            case, "concurrent_sequences", "capability", "{} requests at a time", "Further requests wait."
        )
        yield from _largest(case, "context_length", "capability", "Contexts of {} tokens", "Shorter requests.")


def _micro_batches(case: Case, step: TrainingStep) -> Iterator[Change]:
    """Parts of a micro-batch, accumulated as many times more often: halves, the largest that fits, single sequences."""
    whole = step.micro_batch_size
    largest = limit(case.scenario, case.phase, "micro_batch_size", case.catalog).largest or 1
    parts = [size for size in range(whole // 2, 0, -1) if whole % size == 0]
    chosen = {*parts[:3], *parts[-1:], next((size for size in parts if size <= largest), 1)} if parts else set()
    alike = not _normalizes_batches(case)
    for size in sorted(chosen, reverse=True):
        steps = step.gradient_accumulation_steps * (whole // size)
        edits = ((case.path("micro_batch_size"), size), (case.path("gradient_accumulation_steps"), steps))
        yield Change(
            f"micro-batch-{size}",
            f"Micro-batches of {size}, accumulated {steps} times",
            "micro-batch",
            "speed" if alike else "numerics",
            edits,
            "More, smaller kernels; the same batch." if alike else "Norms see the statistics of smaller batches.",
            ACCUMULATION if alike else BATCH_NORM,
        )


def _normalizes_batches(case: Case) -> bool:
    """Whether norms take statistics over a batch, so that its size matters for the results."""
    return any(
        isinstance(part, NormPart) and part.norm.kind == "batchnorm"
        for stack in case.spec.stacks
        for part in _flat((*stack.before, *stack.after, *(part for group in stack.groups for part in _own(group))))
    )


def _own(group: LayerGroup) -> tuple[Part, ...]:
    """What a layer holds that is known by its parts alone."""
    return (*group.extra, *(group.mixer.parts if isinstance(group.mixer, Block) else ()))


def _flat(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, Repeated):
            yield from _flat(part.parts)
        else:
            yield part


def _largest(case: Case, field: str, level: Level, title: str, costs: str) -> Iterator[Change]:
    """The largest value of a field with which the case fits as it is otherwise."""
    found = limit(case.scenario, case.phase, field, case.catalog).largest
    value = getattr(case.fields, field)
    if found is None or found >= value:
        return
    if "length" in field and found > 2 * CUT:
        found -= found % CUT
    edits: tuple[Edit, ...] = ((case.path(field), found),)
    yield Change(f"{field.replace('_', '-')}-{found}", title.format(found), field, level, edits, costs, EXACT)


def _layers_on_gpu(case: Case, serving: Serving) -> Iterator[Change]:
    """llama.cpp: as many layers on the GPU as fit, by halving what is left."""
    if serving.engine not in WHOLE_SPLITS:
        return
    path = case.path("gpu_layers")
    most = case.spec.layers + 1
    low, high = -1, min(most if serving.gpu_layers is None else serving.gpu_layers, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if case.changed([(path, middle)]).verdict.verdict == "fits" else (low, middle)
    if low >= 0:
        yield Change(
            f"gpu-layers-{low}", f"{low} of {most} layers on the GPU", "gpu-layers", "speed", ((path, low),),
            "The other layers are computed by the CPU.", "llama.cpp, --n-gpu-layers",
        )  # fmt: skip
