"""Memory that FSDP's own CUDA streams keep: torch's allocator has a pool per stream and never lends across them.

Sources: torch 2.13 `c10/cuda/CUDACachingAllocator.cpp` (blocks are looked up by stream);
`torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py` (`FSDPCommContext`: gathers on `all_gather_copy_in_stream`,
sharded gradients on `reduce_scatter_stream`), `torch/distributed/fsdp/_runtime_utils.py` (unshard, post-backward).
"""

from collections.abc import Iterable
from math import prod

from planner.engine.activations.fully_shard import ROOT
from planner.engine.activations.recipe import Sharding
from planner.engine.activations.setting import RECORDED
from planner.engine.activations.tape import BYTES
from planner.engine.term import Factor, Term
from planner.engine.traced import SettledPhase
from planner.scenario.step import TrainingStep

POOLS = "torch c10/cuda/CUDACachingAllocator.cpp: a block is only reused on the stream it was allocated on"
IDLE = "torch c10/cuda/CUDACachingAllocator.cpp: the freed block of 16-bit logits is too small for fp32 ones"


def idle_terms(phase: TrainingStep, settled: SettledPhase, moment: str) -> tuple[Term, ...]:
    """Memory reserved but idle at a moment of an FSDP step."""
    pools = stream_terms(settled, moment)
    casts = phase.activation_profile == "torchtitan" and phase.loss_upcast and not phase.compile_loss
    whole = phase.loss_implementation == "full_logits"
    return (*pools, *idle_logits_term(settled, moment)) if pools and casts and whole else pools


def stream_terms(settled: SettledPhase, moment: str) -> tuple[Term, ...]:
    """What the pools of FSDP's streams have reserved beyond what they hold at the fullest instant of `moment`.

    None before the step: trainers empty the cache between generating and training (TRL `empty_cache`).
    """
    sharding = settled.phase.lowered.recipe.sharding
    if sharding is None or moment not in settled.winners:
        return ()
    found = []
    for name, peak, labels in _pools(settled, sharding):
        idle = peak - _held(settled, moment, labels)
        if idle > 0:
            found.append(Term("overhead", f"idle pool of the {name}", (Factor("bytes", idle),), (moment,), POOLS))
    return tuple(found)


def idle_logits_term(settled: SettledPhase, moment: str) -> tuple[Term, ...]:
    """torchtitan frees the 16-bit logits before backward; the fp32 tensors of the loss cannot use their block."""
    symbols = settled.phase.lowered.symbols
    names = ("batch", "sequence", "vocabulary")
    factors = (*(symbols[name] for name in names), Factor("bytes", 2))
    return (Term("overhead", "idle block of the 16-bit logits", factors, (moment,), IDLE),)


def _pools(settled: SettledPhase, sharding: Sharding) -> Iterable[tuple[str, int, tuple[str, ...]]]:
    """Each stream with the most it ever holds and the names of its tensors.

    Most is gathered when the root unit waits to be copied out and the first layer is gathered.
    """
    lowered = settled.phase.lowered
    units = {name: int(factor.value) for name, factor in lowered.symbols.items() if name.startswith("unit ")}
    shards = {name: int(factor.value) for name, factor in lowered.symbols.items() if name.startswith("shard of ")}
    root = units[f"unit {ROOT}"]
    layer = max((size for name, size in units.items() if name != f"unit {ROOT}"), default=0)
    layer_shard = max((size for name, size in shards.items() if name != f"shard of {ROOT}"), default=0)
    trained = {name: int(factor.value) for name, factor in lowered.symbols.items() if name.startswith("trained ")}
    held = 0
    if not sharding.offloads:
        held = trained[f"trained shard of {ROOT}"] + sum(
            int(count) * trained.get(f"trained shard of {kind}", 0) for kind, count in lowered.layers.items()
        )
    compute, reduce = BYTES[sharding.compute_dtype], BYTES[sharding.reduce_dtype]
    gradients = held * BYTES[sharding.shard_dtype]
    if sharding.flat_parameters:
        cast = trained[f"trained in {ROOT}"] * reduce if sharding.reduce_dtype != sharding.compute_dtype else 0
        yield "unshard stream", compute * (root + 2 * layer), ("gathered shards",)
        yield "post-backward stream", cast + gradients, ("flat gradient, cast", "sharded gradients")
        return
    whole = "fp8" if sharding.gathers_fp8 else sharding.compute_dtype
    gathered = compute * root + BYTES[whole] * (layer + layer_shard)
    yield "all-gather stream", gathered, ("gathered shards", "this rank's shard, cast")
    rest = 0 if sharding.reduce_dtype == sharding.shard_dtype else reduce * trained[f"trained shard of {ROOT}"]
    yield "reduce-scatter stream", gradients + rest, ("sharded gradients", "sharded gradients, cast")


def _held(settled: SettledPhase, moment: str, labels: tuple[str, ...]) -> int:
    """Bytes of tensors with one of these names at the fullest instant."""
    lowered, row = settled.phase.lowered, settled.winners[moment]
    total = 0
    for tensor in settled.phase.trace.tensors:
        recorded, per_layer = tensor.counts[row]
        if (recorded or per_layer) and tensor.name.rpartition(": ")[2] in labels:
            extra = int(lowered.layers[tensor.kind]) - RECORDED if tensor.kind else 0
            size = prod(int(lowered.symbols[dim].value) if isinstance(dim, str) else dim for dim in tensor.dims)
            total += (recorded + per_layer * extra) * size * tensor.itemsize
    return total
