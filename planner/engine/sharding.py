"""What data-parallel ranks divide among themselves, and the buffers that dividing costs.

Sources: DeepSpeed `docs/code-docs/source/memory.rst` and config documentation (bucket sizes), ZeRO (arXiv:1910.02054)
section 5; torch 2.13 `torch/nn/parallel/distributed.py` (DDP buckets) and `torch/distributed/fsdp` (gathered units).
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from planner.engine.optimizer import ParameterTensor
from planner.engine.term import Factor, Term
from planner.model.counts import shard_elements
from planner.model.spec import ModelSpec
from planner.model.weights import weights
from planner.scenario.parallelism import Parallelism

DEEPSPEED = "DeepSpeed config: reduce_bucket_size and allgather_bucket_size, 5e8 elements each"
FSDP = "torch 2.13 FSDP: one unit per layer gathered, the next one prefetched, the root unit kept through backward"
DDP = "torch 2.13 DistributedDataParallel: buckets for all gradients, made once and kept"
WHOLE_TENSORS = "zero-redundancy-optimizer"
"""PyTorch's ZeRO-1, which runs under DDP and divides the list of tensors, not the tensors."""
MEGATRON = "megatron-distributed-optimizer"
BUCKET_ELEMENTS = 500_000_000
GATHERED_UNITS = 2
ALL = ("start_of_step", "forward", "end_of_forward", "backward", "optimizer_step")
IN_MODEL = ("forward", "end_of_forward", "backward")


@dataclass(frozen=True, slots=True)
class Shards:
    """How many ranks share each kind of state."""

    weights: int
    gradients: int
    optimizer: int

    @classmethod
    def of(cls, parallelism: Parallelism) -> "Shards":
        ranks = parallelism.data * (parallelism.context if parallelism.shard_over_context else 1)
        stage = parallelism.zero_stage
        return cls(ranks if stage >= 3 else 1, ranks if stage >= 2 else 1, ranks if stage >= 1 else 1)


def fullest_share(tensors: Sequence[ParameterTensor], ranks: int) -> tuple[ParameterTensor, ...]:
    """The whole tensors that the fullest rank of PyTorch's ZeroRedundancyOptimizer updates.

    Tensors are not split: sorted by size, each goes to the rank with the fewest elements so far, so that one large
    table can outweigh everything else. Source: torch 2.13 `zero_redundancy_optimizer.py: _partition_parameters`.
    """
    load = [(0, rank) for rank in range(ranks)]
    owned: list[list[ParameterTensor]] = [[] for _ in range(ranks)]
    for tensor in sorted(tensors, key=lambda tensor: tensor.elements, reverse=True):
        one = replace(tensor, multiplicity=1)
        for _ in range(tensor.multiplicity):
            elements, rank = heapq.heappop(load)
            owned[rank].append(one)
            heapq.heappush(load, (elements + tensor.elements, rank))
    return tuple(max(owned, key=lambda share: sum(tensor.elements for tensor in share)))


def gathers_are_recorded(parallelism: Parallelism) -> bool:
    """Whether the recording of a step itself gathers weights and scatters gradients, unit by unit."""
    return parallelism.zero_stage == 3 and parallelism.data > 1 and parallelism.backend in ("fsdp1", "fsdp2")


def divided(terms: Iterable[Term], ranks: int) -> tuple[Term, ...]:
    """The same terms as one rank of `ranks` holds them: the largest factor is divided, rounded up."""
    return tuple(terms) if ranks == 1 else tuple(_divided(item, ranks) for item in terms)


def _divided(item: Term, ranks: int) -> Term:
    largest = max(item.factors, key=lambda factor: int(factor.value))
    whole = int(largest.value)
    share = Factor(largest.name, -(-whole // ranks), f"{whole} / {ranks} ranks")
    return replace(item, factors=tuple(share if factor is largest else factor for factor in item.factors))


def sharding_buffers(
    spec: ModelSpec,
    parallelism: Parallelism,
    trained_elements: int,
    compute_bytes: int,
    gradient_bytes: int,
    profile: str = "hf-transformers",
) -> tuple[Term, ...]:
    """Buffers of the scheme in use, beside the states themselves.

    Megatron Core has none: gradients and weights are views of flat buffers, which are reduced and gathered in place
    (`megatron/core/distributed/param_and_grad_buffer.py`).
    """
    in_place = parallelism.backend == MEGATRON or profile == "megatron-core"
    if parallelism.data == 1 or gathers_are_recorded(parallelism) or in_place:
        return ()
    if parallelism.zero_stage == 0 or parallelism.backend == WHOLE_TENSORS:
        if parallelism.gradient_as_bucket_view:
            return ()
        buckets = (Factor("trained parameters", trained_elements), Factor("bytes", gradient_bytes))
        return (Term("gradients", "communication buckets", buckets, ALL, DDP),)
    if parallelism.zero_stage == 3:
        return _gathered(spec, parallelism, compute_bytes)
    bucket = min(BUCKET_ELEMENTS, trained_elements)
    how = f"the smaller of {BUCKET_ELEMENTS} and the trained parameters"
    return (
        Term("temporaries", "reduce bucket", (Factor("elements", bucket, how), Factor("bytes", gradient_bytes)),
             ("backward",), DEEPSPEED),
        Term("temporaries", "gather bucket", (Factor("elements", bucket, how), Factor("bytes", compute_bytes)),
             ("optimizer_step",), DEEPSPEED),
    )  # fmt: skip


def _gathered(spec: ModelSpec, parallelism: Parallelism, compute_bytes: int) -> tuple[Term, ...]:
    """Whole layers and the whole root unit, in the dtype that computes."""
    layer = max(_elements_by_layer(spec, parallelism.tensor), default=0)
    root = sum(
        shard_elements(weight, parallelism.tensor) * copies for weight, copies in weights(spec) if weight.group is None
    )
    return (
        Term("weights", "gathered layers",
             (Factor("units", GATHERED_UNITS), Factor("parameters of a layer", layer), Factor("bytes", compute_bytes)),
             IN_MODEL, FSDP),
        Term("weights", "gathered embeddings and head",
             (Factor("parameters outside the layers", root), Factor("bytes", compute_bytes)), IN_MODEL, FSDP),
    )  # fmt: skip


def _elements_by_layer(spec: ModelSpec, tensor_parallel: int) -> list[int]:
    found: dict[tuple[str, int], int] = {}
    for weight, copies in weights(spec):
        if weight.group is not None:
            count = next(stack for stack in spec.stacks if stack.name == weight.stack).groups[weight.group].count
            key = (weight.stack, weight.group)
            found[key] = found.get(key, 0) + shard_elements(weight, tensor_parallel) * copies // max(count, 1)
    return list(found.values())
