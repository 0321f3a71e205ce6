"""Ways to spread one phase over a number of GPUs: degrees whose product is that number, and what is recomputed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from planner.engine.case import Case, Edit
from planner.engine.phases.serving_layout import WHOLE_SPLITS, tensor_degrees
from planner.scenario.phases import Evaluation
from planner.scenario.serving import Serving
from planner.scenario.step import TrainingStep

MOST_GPUS = 1024
RECOMPUTATION = ("none", "selective", "full")
"""What of the forward pass backward repeats, the least first."""
PIPELINES = ("megatron-core", "torchtitan")
"""Software that cuts models into stages, and sequences among ranks."""
_DEGREES = (1, 2, 4, 8, 16)
_EXPERT_DEGREES = (2, 4, 8, 16, 32, 64)
_FEW = 6
"""Models of 61 or 94 layers have fewer equal divisions than these."""
_DIVIDED = {"megatron-core": "megatron-distributed-optimizer", "torchtitan": "fsdp2"}


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism, with what a training step changes beside them; None where it stays as it is planned."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    zero_stage: int | None = None
    checkpointing: str | None = None

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data * self.context

    @property
    def recomputation(self) -> int:
        """0 where nothing is computed twice, up to 2."""
        return RECOMPUTATION.index(self.checkpointing) if self.checkpointing in RECOMPUTATION else 0

    @property
    def text(self) -> str:
        """Such as `TP 8 · PP 4 · DP 2 · ZeRO-1 · full checkpointing`; `one GPU` where nothing is spread.

        Copies that share nothing but the requests are `3 replicas`.
        """
        apart = self.zero_stage is None and self.expert == 1
        data = 1 if apart else self.data
        degrees = (("TP", self.tensor), ("PP", self.pipeline), ("CP", self.context), ("DP", data))
        words = [f"{name} {degree}" for name, degree in degrees if degree > 1]
        if apart and self.data > 1:
            words.append(f"{self.data} replicas")
        if self.expert > 1:
            words.append(f"EP {self.expert}")
        if self.zero_stage and self.data > 1:
            words.append(f"ZeRO-{self.zero_stage}")
        if self.checkpointing in RECOMPUTATION[1:]:
            words.append(f"{self.checkpointing} checkpointing")
        return " · ".join(words) or "one GPU"


def sizes_of(per_node: int, most: int = MOST_GPUS) -> tuple[int, ...]:
    """Numbers of GPUs that are tried: all within a server, then whole servers."""
    return (*range(1, min(per_node, most + 1)), *range(per_node, most + 1, per_node))


def layouts_of(case: Case, gpus: int) -> Iterator[Layout]:
    """Every way to put a phase on exactly `gpus` GPUs that keeps what it computes. The rules say which are legal."""
    fields = case.fields
    if isinstance(fields, TrainingStep):
        yield from _of_steps(case, fields, gpus)
    elif isinstance(fields, Serving):
        yield from _of_serving(case, fields, gpus)
    elif isinstance(fields, Evaluation):
        yield from (Layout(tensor=tensor) for tensor in _tensors(case, gpus) if tensor == gpus)
    elif gpus == 1:
        yield Layout()


def _of_steps(case: Case, step: TrainingStep, gpus: int) -> Iterator[Layout]:
    cuts = step.activation_profile in PIPELINES
    updates = sequences_of(step)
    contexts = _DEGREES if cuts else (1,)
    checkpoints = checkpointing_of(step)
    for tensor in _tensors(case, gpus):
        for pipeline in _depths(case.spec.layers) if cuts else (1,):
            for context in contexts:
                copy = tensor * pipeline * context
                data = gpus // copy
                if copy * data != gpus or updates % data or pipeline > updates // data:
                    continue
                for stage in _stages(step, data, pipeline):
                    for expert in _experts(case, data * context, tensor):
                        for kept in checkpoints:
                            yield Layout(tensor, pipeline, data, context, expert, stage, kept)


def _of_serving(case: Case, serving: Serving, gpus: int) -> Iterator[Layout]:
    per_node = case.scenario.hardware.gpus_per_node
    by_layers = serving.engine in WHOLE_SPLITS
    within = (1,) if by_layers else tuple(tensor_degrees(serving.engine, case.spec, min(gpus, per_node)))
    for tensor in within:
        for pipeline in _depths(case.spec.layers):
            data = gpus // (tensor * pipeline)
            if tensor * pipeline * data == gpus and data <= serving.concurrent_sequences:
                for expert in _experts(case, data, tensor):
                    yield Layout(tensor, pipeline, data, 1, expert)


def _tensors(case: Case, gpus: int) -> Iterator[int]:
    """Degrees within a server that divide the heads and the GPUs."""
    for tensor in tensor_degrees("", case.spec, min(gpus, case.scenario.hardware.gpus_per_node)):
        if gpus % tensor == 0 and tensor & (tensor - 1) == 0:
            yield tensor


@lru_cache
def _depths(layers: int) -> tuple[int, ...]:
    """Numbers of stages that get as many layers each; where few do, also the fewest for each size of the fullest."""
    even = {degree for degree in range(1, layers + 1) if layers % degree == 0}
    if len(even) < _FEW:
        even |= {-(-layers // fullest) for fullest in range(1, layers + 1)}
    return tuple(sorted(even))


def _stages(step: TrainingStep, data: int, pipeline: int) -> tuple[int | None, ...]:
    """What data-parallel ranks can divide, with this software."""
    if data == 1:
        return (0,)
    if step.activation_profile == "megatron-core" or pipeline > 1:
        return (1,)
    return (3,) if step.activation_profile == "torchtitan" else tuple(sorted({step.parallelism.zero_stage, 1, 3}))


def _experts(case: Case, copies: int, tensor: int) -> tuple[int, ...]:
    """Experts whole on every rank; dealt to as many ranks as there are copies; or to tensor-parallel ranks as well."""
    counts = [getattr(group.feed_forward, "experts", 0) for group in case.spec.stack.groups]
    fewest = min((count for count in counts if count), default=0)
    legal = [degree for degree in _EXPERT_DEGREES if fewest and fewest % degree == 0]
    largest = (max((degree for degree in legal if degree <= most), default=1) for most in (copies, copies * tensor))
    return tuple(sorted({1, *largest}))


def _expert_tensor(case: Case, layout: Layout) -> int | None:
    """Ranks that share one expert in Megatron Core, as many as there are for it; None for those of the other layers."""
    if getattr(case.fields, "activation_profile", "") != "megatron-core" or layout.expert == 1:
        return None
    ranks = layout.tensor * layout.data * layout.context // layout.expert
    found = max(degree for degree in range(1, layout.tensor + 1) if layout.tensor % degree == 0 and degree <= ranks)
    return None if found == layout.tensor else found


def checkpointing_of(step: TrainingStep) -> tuple[str, ...]:
    """Kinds of checkpointing to try, that which holds least first: all, what is planned, none."""
    now = step.activation_checkpointing
    selective = ("selective",) if step.activation_profile == "megatron-core" else ()
    found = {"none", "full", now, *selective}
    return tuple(sorted(found, key=lambda kind: -RECOMPUTATION.index(kind) if kind in RECOMPUTATION else -1))


def sequences_of(step: TrainingStep) -> int:
    """Sequences of one update, which every layout keeps."""
    return step.micro_batch_size * step.gradient_accumulation_steps * step.parallelism.data


def micro_batches_of(step: TrainingStep, layout: Layout) -> tuple[int, ...]:
    """Sizes that divide the sequences of a rank, from the planned one down: the same update by more accumulation."""
    own = sequences_of(step) // layout.data
    return tuple(size for size in range(min(own, step.micro_batch_size), 0, -1) if own % size == 0)


def edits_of(case: Case, layout: Layout, micro_batch_size: int | None = None) -> tuple[Edit, ...]:
    """What a layout changes in the scenario. A step takes the micro-batch given, or the planned one if it divides."""
    fields = case.fields
    if not hasattr(fields, "parallelism"):
        return ()
    names, known = ("tensor", "pipeline", "data", "expert", "context"), type(fields.parallelism).model_fields
    edits: list[Edit] = [(case.path("parallelism", name), getattr(layout, name)) for name in names if name in known]
    if layout.pipeline == 1 and getattr(fields.parallelism, "pipeline_interleave", 1) > 1:
        edits.append((case.path("parallelism", "pipeline_interleave"), 1))
    if (shared := _expert_tensor(case, layout)) != getattr(fields.parallelism, "expert_tensor", None):
        edits.append((case.path("parallelism", "expert_tensor"), shared))
    if layout.data % getattr(fields.parallelism, "shard_replicas", 1):
        edits.append((case.path("parallelism", "shard_replicas"), 1))
    if isinstance(fields, TrainingStep):
        edits += _step_edits(case, fields, layout, micro_batch_size)
    return tuple(edits)


def _step_edits(case: Case, step: TrainingStep, layout: Layout, micro: int | None) -> Iterator[Edit]:
    own = sequences_of(step) // layout.data
    size = micro or micro_batches_of(step, layout)[0]
    yield case.path("micro_batch_size"), size
    yield case.path("gradient_accumulation_steps"), own // size
    yield case.path("activation_checkpointing"), layout.checkpointing
    stage = layout.zero_stage or 0
    if stage != step.parallelism.zero_stage:
        yield case.path("parallelism", "zero_stage"), stage
        yield case.path("parallelism", "sharding_backend"), _DIVIDED.get(step.activation_profile) if stage else None
    if layout.tensor > 1 and layout.tensor != step.parallelism.tensor and not step.parallelism.sequence_parallel:
        yield case.path("parallelism", "sequence_parallel"), True
