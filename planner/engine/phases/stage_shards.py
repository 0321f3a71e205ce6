"""FSDP2 on a pipeline stage: gathered with the first micro-batch, scattered after the last one.

Source: torch 2.13 `distributed/pipelining/stage.py: backward_maybe_with_nosync` (no resharding and no reduction after a
micro-batch's backward, whatever is asked for) and `fsdp/_fully_shard/_fsdp_param.py: to_accumulated_grad_if_needed`.
"""

from planner.engine.activations.recipe import Sharding
from planner.engine.activations.tape import BYTES
from planner.engine.moments import IN_MODEL
from planner.engine.pipeline import Ends
from planner.engine.quantization import stage_weights
from planner.engine.term import Factor, Term
from planner.model.counts import shard_elements
from planner.model.spec import ModelSpec
from planner.scenario.parallelism import Parallelism

SCHEDULED = "torch 2.13 distributed/pipelining/stage.py: backward_maybe_with_nosync; FSDP2, _fsdp_param.py"


def stage_terms(
    part: ModelSpec, ends: Ends, spread: Parallelism, sharding: Sharding, trained_elements: int
) -> tuple[Term, ...]:
    """The stage's weights as gathered and its gradients in the reduction's type, both whole, from first to last.

    `part` has no layers but the stage's. What the last reduction takes beside them, one unit's gradients, comes when
    the activations are gone, and is not counted.
    """
    whole = sum(
        shard_elements(weight, spread.tensor, spread.expert_share) * copies
        for weight, copies in stage_weights(part, spread.pipeline, ends)
    )
    gathered = (Factor("parameters", whole), Factor("bytes", BYTES[sharding.compute_dtype]))
    gradients = (Factor("trained parameters", trained_elements), Factor("bytes", BYTES[sharding.reduce_dtype]))
    return (
        Term("weights", "gathered weights of the stage", gathered, IN_MODEL, SCHEDULED),
        Term("gradients", "whole gradients of the stage", gradients, IN_MODEL, SCHEDULED),
    )
