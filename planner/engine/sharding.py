"""What data-parallel ranks divide among themselves, and the buffers that dividing costs.

Sources: DeepSpeed `docs/code-docs/source/memory.rst` and config documentation (bucket sizes), ZeRO (arXiv:1910.02054)
section 5; torch 2.13 `torch/nn/parallel/distributed.py` (DDP buckets) and `torch/distributed/fsdp` (gathered units).
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from planner.engine.deepspeed import zero_terms
from planner.engine.moments import ALL
from planner.engine.optimizer import ParameterTensor
from planner.engine.term import Factor, Term
from planner.scenario.parallelism import Parallelism

DDP = "torch 2.13 DistributedDataParallel: buckets for all gradients, made once and kept"
WHOLE_TENSORS = "zero-redundancy-optimizer"
"""PyTorch's ZeRO-1, which runs under DDP and divides the list of tensors, not the tensors."""
FSDP_BACKENDS = ("fsdp1", "fsdp2")
MEGATRON = "megatron-distributed-optimizer"


@dataclass(frozen=True, slots=True)
class Shards:
    """How many ranks share each kind of state."""

    weights: int
    gradients: int
    optimizer: int

    @classmethod
    def of(cls, parallelism: Parallelism) -> "Shards":
        ranks, stage = parallelism.shard_ranks, stage_of(parallelism)
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


def stage_of(parallelism: Parallelism) -> int:
    """What is divided between steps: FSDP's stage 2 (SHARD_GRAD_OP) only keeps weights gathered until backward."""
    return 3 if parallelism.zero_stage == 2 and parallelism.backend in FSDP_BACKENDS else parallelism.zero_stage


def gathers_are_recorded(parallelism: Parallelism) -> bool:
    """Whether weights are gathered and gradients scattered, which the recording does unit by unit."""
    return stage_of(parallelism) == 3 and parallelism.shard_ranks > 1 and parallelism.backend in FSDP_BACKENDS


def gathers_stages(parallelism: Parallelism) -> bool:
    """Whether whole pipeline stages are gathered and scattered, instead of unit after unit."""
    return gathers_are_recorded(parallelism) and parallelism.pipeline > 1


def shares_rows(parallelism: Parallelism) -> bool:
    """Whether ranks share out the rows of each weight, as FSDP2 does; ranks that also divide experts are told apart."""
    return gathers_are_recorded(parallelism) and parallelism.backend == "fsdp2" and parallelism.expert == 1


def states_in_16_bits(parallelism: Parallelism) -> bool:
    """Whether gradients of 16-bit weights stay in 16 bits until the update.

    DeepSpeed's `gradient_accumulation_dtype` is that of the weights, except where its `BF16_Optimizer` runs, which
    is without ZeRO or where asked for (`runtime/engine.py: get_data_types`). FSDP casts what it has scattered to the
    dtype of the shards (`_fsdp_collectives.py: foreach_reduce`, `_runtime_utils.py: _cast_grad_to_param_dtype`).
    """
    by_deepspeed = parallelism.backend == "deepspeed" and parallelism.zero_stage > 0
    return by_deepspeed or gathers_are_recorded(parallelism)


def divided(terms: Iterable[Term], ranks: int) -> tuple[Term, ...]:
    """The same terms as one rank of `ranks` holds them: the largest factor is divided, rounded up."""
    return tuple(terms) if ranks == 1 else tuple(_divided(item, ranks) for item in terms)


def _divided(item: Term, ranks: int) -> Term:
    largest = max(item.factors, key=lambda factor: int(factor.value))
    whole = int(largest.value)
    share = Factor(largest.name, -(-whole // ranks), f"{whole} / {ranks} ranks")
    return replace(item, factors=tuple(share if factor is largest else factor for factor in item.factors))


def sharding_buffers(
    parallelism: Parallelism, parameters: int, trained: int, compute_bytes: int, gradient_bytes: int, profile: str
) -> tuple[Term, ...]:
    """Buffers of the scheme in use, beside the states themselves. All counts are elements.

    Megatron Core has none: gradients and weights are views of flat buffers, which are reduced and gathered in place
    (`megatron/core/distributed/param_and_grad_buffer.py`).
    """
    ranks, in_place = parallelism.shard_ranks, parallelism.backend == MEGATRON or profile == "megatron-core"
    if ranks == 1 or gathers_are_recorded(parallelism) or in_place:
        return ()
    if parallelism.zero_stage == 0 or parallelism.backend == WHOLE_TENSORS:
        if parallelism.gradient_as_bucket_view:
            return ()
        buckets = (Factor("trained parameters", trained), Factor("bytes", gradient_bytes))
        return (Term("gradients", "communication buckets", buckets, ALL, DDP),)
    return zero_terms(parallelism.zero_stage, ranks, parameters, trained, compute_bytes, gradient_bytes)
