"""Scores that an evaluation loop keeps in host RAM."""

from planner.engine.host.amounts import HOST
from planner.engine.host.share import NodeShare
from planner.engine.term import Factor, Number, Term

BATCH_SOURCE = "transformers Trainer.evaluation_loop: gathered logits go to the CPU (huggingface/transformers#25313)"
KEPT_SOURCE = (
    "transformers trainer_pt_utils.py EvalLoopContainer: every process gathers the logits of all, in fp32 as numpy "
    "has no bf16 (huggingface/transformers#25313, #12878)"
)
JOINED_SOURCE = "transformers trainer_pt_utils.py nested_concat: the arrays so far and their successor are both alive"


def gathered_logits_terms(samples: Number, tokens: Number, vocabulary: int, share: NodeShare) -> tuple[Term, ...]:
    """Logits of one evaluation batch moved to the host; a loop that keeps all batches needs this for each of them."""
    factors = (
        Factor("processes", share.ranks), Factor("samples", samples), Factor("tokens", tokens),
        Factor("vocabulary", vocabulary), Factor("bytes", 4),
    )  # fmt: skip
    return (Term("logits", "logits of one batch", factors, HOST, BATCH_SOURCE),)


def accumulated_logits_terms(samples: Number, tokens: Number, vocabulary: int, share: NodeShare) -> tuple[Term, ...]:
    """Logits of `samples` samples of the whole job, kept in every process, and once more while they are joined."""
    factors = (
        Factor("processes", share.ranks), Factor("samples", samples), Factor("tokens", tokens),
        Factor("vocabulary", vocabulary), Factor("bytes", 4),
    )  # fmt: skip
    return (
        Term("logits", "logits kept", factors, HOST, KEPT_SOURCE),
        Term("temporaries", "logits being joined", factors, HOST, JOINED_SOURCE),
    )
