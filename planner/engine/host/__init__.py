"""Host RAM that each phase needs on one node: every term with its factors and the source of its rule.

A phase's RAM is that of its fuller moment: loading the checkpoint, or running.
"""

from planner.engine.host.amounts import CACHED, HOST, Amount, amounts
from planner.engine.host.loader import Samples, loader_terms, token_sample_bytes, worker_terms
from planner.engine.host.loading import Checkpoint, built_term, loading_terms, sharding_copies_term
from planner.engine.host.logits import accumulated_logits_terms, gathered_logits_terms
from planner.engine.host.offload import activation_offload_terms, fsdp_offload_terms, nvme_buffer_terms, offload_terms
from planner.engine.host.share import NodeShare, fuller, runtime_terms

__all__ = [
    "CACHED",
    "HOST",
    "Amount",
    "Checkpoint",
    "NodeShare",
    "Samples",
    "accumulated_logits_terms",
    "activation_offload_terms",
    "amounts",
    "built_term",
    "fsdp_offload_terms",
    "fuller",
    "gathered_logits_terms",
    "loader_terms",
    "loading_terms",
    "nvme_buffer_terms",
    "offload_terms",
    "runtime_terms",
    "sharding_copies_term",
    "token_sample_bytes",
    "worker_terms",
]
