"""Whole weights that a forward pass gathers where each rank holds a shard of them, and nothing else is recorded of it.

Sources: torch FSDP (units are the layers and what is outside them, with one unit fetched ahead); DeepSpeed ZeRO-3
(`stage3_max_live_parameters`). Frozen models are divided as the policy's weights are: TRL `trainer/utils.py:
prepare_deepspeed, prepare_fsdp`; OpenRLHF `utils/deepspeed/deepspeed.py: get_ds_eval_config`.
"""

from math import ceil

from planner.engine.activations.tape import BYTES
from planner.engine.deepspeed import LIVE, LIVE_ELEMENTS
from planner.engine.sharding import Shards
from planner.engine.term import Factor, Term
from planner.model.counts import parameters, shard_elements
from planner.model.spec import ModelSpec
from planner.model.weights import weights
from planner.scenario.parallelism import Parallelism

UNITS = "torch FSDP: what is outside the layers, the running layer and the next are gathered at once"


def expert_ranks(spread: Parallelism, shards: int) -> float:
    """Ranks that share the experts beyond those that share everything.

    Expert-parallel ranks are some of the data-parallel ones, and what these hold of an expert is divided over the
    others (Megatron Core's expert-data-parallel group): together an expert is divided as much as any weight.
    """
    share = spread.expert_share
    return share if shards == 1 else max(1, ceil(share / shards))


def gathered_weights(
    spread: Parallelism, spec: ModelSpec, dtype: str, alive: tuple[str, ...], *, autocast: bool
) -> tuple[Term, ...]:
    """What a pass gathers at a time; under autocast in 16 bits. Experts of other ranks are not gathered."""
    if Shards.of(spread).weights == 1:
        return ()
    bytes_each = Factor("bytes", min(BYTES[dtype], 2) if autocast else BYTES[dtype])
    if spread.backend == "deepspeed":
        live = Factor("parameters", min(LIVE_ELEMENTS, parameters(spec)), "stage3_max_live_parameters at most")
        return (Term("weights", "gathered weights", (live, bytes_each), alive, LIVE),)
    layers: dict[tuple[str, int], int] = {}
    outside = 0
    for weight, copies in weights(spec):
        own = shard_elements(weight, spread.tensor, spread.expert_share) * copies
        if weight.group is None:
            outside += own
        else:
            stack = next(stack for stack in spec.stacks if stack.name == weight.stack)
            place = (weight.stack, weight.group)
            layers[place] = layers.get(place, 0) + own // stack.groups[weight.group].count
    units = outside + 2 * max(layers.values(), default=0)
    gathered = Factor("parameters", units, "outside the layers, and of two layers")
    return (Term("weights", "gathered weights", (gathered, bytes_each), alive, UNITS),)
