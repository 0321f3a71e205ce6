"""What DeepSpeed's ZeRO keeps beside weights, gradients and states, stage by stage.

Source: DeepSpeed `runtime/zero/stage_1_and_2.py` (`backward_prologue`, `step`), `runtime/zero/stage3.py`
(`_setup_for_real_optimizer`, `__reduce_and_partition_ipg_grads`, `__prepare_fp32_grad_for_sub_group`),
`runtime/zero/config.py` (defaults).
"""

from planner.engine.moments import ALL, IN_MODEL
from planner.engine.term import Factor, Term

BUCKET_ELEMENTS = 500_000_000
LIVE_ELEMENTS = 1_000_000_000
SUB_GROUP_ELEMENTS = 1_000_000_000
BUCKET = "DeepSpeed, reduce_bucket_size: 5e8 elements in the dtype of the weights, allocated whole"
LIVE = "DeepSpeed, stage3_max_live_parameters: 1e9 parameters stay gathered at most"
FLAT = "DeepSpeed, stage_1_and_2.py: step: averaged gradients are flattened, then cast to the updated copy's dtype"
SUB_GROUP = "DeepSpeed, sub_group_size: 1e9 elements of this rank are updated at a time"


def zero_terms(
    stage: int, ranks: int, parameters: int, trained: int, compute_bytes: int, updated_bytes: int
) -> tuple[Term, ...]:
    """Buffers of ZeRO `stage` over `ranks`; `trained` of the `parameters` have gradients. All counts are elements.

    Gathered weights are written into the flat buffer they are views of, so that stages 1 and 2 need no further
    buffer for them. At the step, gradients take the dtype of what the optimizer updates (`updated_bytes` wide): where
    that is not the master copy in fp32, the flat gradients are used as they are.
    """
    bucket = (Factor("elements", BUCKET_ELEMENTS), Factor("bytes", compute_bytes))
    own = Factor("elements of this rank", -(-trained // ranks), f"{trained} / {ranks} ranks")
    step = ("optimizer_step",)
    if stage < 3:
        flat = (
            Term("temporaries", "reduce bucket", bucket, ("backward",), BUCKET),
            Term("temporaries", "flat gradients of this rank", (own, Factor("bytes", compute_bytes)), step, FLAT),
        )
        if updated_bytes <= compute_bytes:
            return flat
        return (*flat, Term("temporaries", "their fp32 copy", (own, Factor("bytes", updated_bytes)), step, FLAT))
    live = Factor("parameters", min(LIVE_ELEMENTS, parameters), f"the smaller of {LIVE_ELEMENTS} and the model's")
    updated = min(SUB_GROUP_ELEMENTS, int(own.value))
    group = Factor("elements", updated, f"the smaller of {SUB_GROUP_ELEMENTS} and this rank's {own.value}")
    return (
        Term("temporaries", "reduce bucket", bucket, ALL, BUCKET),
        Term("weights", "gathered weights", (live, Factor("bytes", compute_bytes)), IN_MODEL, LIVE),
        Term("temporaries", "flat gradients of a sub-group", (group, Factor("bytes", updated_bytes)), step, SUB_GROUP),
    )
