"""Checkpoints: what one holds, how many lie on disk, and what writing them costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from planner.engine.optimizer import ParameterTensor, state_terms
from planner.engine.storage.weights import STORAGE
from planner.engine.term import Component, Factor, Term
from planner.units import GB

SAVED_SOURCE = "torch.save of model and optimizer state_dict: tensors in their own width; measured on real files"
MASTER_SOURCE = (
    "DeepSpeed, Megatron Core: fp32 master weights are saved with the optimizer, so 14 bytes per parameter for AdamW "
    "(NVIDIA-NeMo/Speech#9967)"
)


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """How checkpoints of one run are written."""

    resumable: bool = True
    kept: int = 1
    milestones: int = 0
    writers: int = 1
    """Servers that write at the same time."""
    minutes_between: float | None = None
    write_gb_per_s: float | None = None

    @property
    def on_disk(self) -> int:
        """Those kept, and the one that is written before an old one goes (transformers Trainer: rotate_checkpoints)."""
        return self.kept + 1 + self.milestones

    @property
    def how(self) -> str:
        milestones = f", {self.milestones} for good" if self.milestones else ""
        return f"{self.kept} kept, one being written{milestones}"


@lru_cache(maxsize=256)
def checkpoint_terms(
    tensors: Sequence[ParameterTensor],
    optimizer: str,
    implementation: str | None,
    plan: CheckpointPlan,
    *,
    master_weights: bool = False,
    state_bytes: float | None = None,
) -> tuple[Term, ...]:
    """Checkpoints of the trained weights; those from which training can go on hold master weights and states too.

    Mixed precision with AdamW: 2 + 4 + 8 = 14 bytes per parameter. `state_bytes` is as in `optimizer.state_terms`.
    """
    parameters = sum(tensor.elements * tensor.multiplicity for tensor in tensors)
    weights = sum(tensor.elements * tensor.multiplicity * tensor.dtype_bytes for tensor in tensors)
    copies = Factor("checkpoints", plan.on_disk, plan.how)
    parts: list[tuple[Component, str, tuple[Factor, ...], str]] = [
        ("weights", "weights in checkpoints", (copies, Factor("bytes", weights, f"{parameters} parameters")),
         SAVED_SOURCE),
    ]  # fmt: skip
    if plan.resumable:
        width = 4 if master_weights and state_bytes is None else state_bytes
        states = sum(
            int(item.bytes) for item in state_terms(optimizer, implementation, tensors, STORAGE, state_bytes=width)
        )
        if master_weights:
            master = (copies, Factor("parameters", parameters), Factor("bytes", 4))
            parts.append(("optimizer_states", "master weights in checkpoints", master, MASTER_SOURCE))
        parts.append(
            ("optimizer_states", "optimizer states in checkpoints",
             (copies, Factor("bytes", states, "as the optimizer keeps them")), SAVED_SOURCE)
        )  # fmt: skip
    return tuple(Term(component, name, factors, STORAGE, source) for component, name, factors, source in parts)


def written(terms: Sequence[Term], plan: CheckpointPlan) -> dict[str, Any]:
    """One checkpoint's bytes and, where the disk's speed is known, how long it takes and what share of time that is."""
    size = sum(int(item.bytes) for item in terms) // plan.on_disk
    seconds = None if plan.write_gb_per_s is None else size / (plan.write_gb_per_s * GB * plan.writers)
    told: dict[str, Any] = {"bytes": size, "on_disk": plan.on_disk, "writers": plan.writers}
    if seconds is not None:
        told["write_seconds"] = round(seconds, 3)
        if plan.minutes_between is not None:
            told["share_of_training"] = round(seconds / (seconds + 60 * plan.minutes_between), 6)
    return told
