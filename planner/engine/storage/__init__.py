"""Disk that each phase needs for the whole job: checkpoints, exported weights, data sets. Terms live in `storage`."""

from planner.engine.storage.checkpoints import CheckpointPlan, checkpoint_terms, written
from planner.engine.storage.data import data_terms
from planner.engine.storage.weights import STORAGE, USABLE_SHARE, required_capacity, weight_file_terms

__all__ = [
    "STORAGE",
    "USABLE_SHARE",
    "CheckpointPlan",
    "checkpoint_terms",
    "data_terms",
    "required_capacity",
    "weight_file_terms",
    "written",
]
