"""What a layout needs at least: states are divided by no more than its degrees, so that many need no estimate."""

from dataclasses import dataclass

from planner.engine.case import Case
from planner.engine.fleet.layouts import Layout, edits_of
from planner.scenario.step import TrainingStep


@dataclass(frozen=True, slots=True)
class States:
    """Bytes on one GPU when the optimizer runs; all ranks together hold them at least once."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0

    @classmethod
    def of(cls, base: Case) -> "States":
        """Those of a training step; nothing where there is no step, or none on one GPU."""
        if not isinstance(base.fields, TrainingStep):
            return cls()
        alone = base.changed(edits_of(base, Layout(checkpointing=base.fields.activation_checkpointing)))
        if alone.errors:
            return cls()
        held = list(alone.plan.moments.values())[-1].components
        return cls(held.get("weights", 0), held.get("gradients", 0), held.get("optimizer_states", 0))

    def least(self, layout: Layout) -> int:
        """Bytes that the fullest rank cannot do without: stages and tensor-parallel ranks hold as much on average."""
        copy = layout.tensor * layout.pipeline * layout.expert
        ranks, stage = layout.data * layout.context, layout.zero_stage or 0
        weights = self.weights // (copy * (ranks if stage == 3 else 1))
        gradients = self.gradients // (copy * (ranks if stage >= 2 else 1))
        return weights + gradients + self.optimizer // (copy * (ranks if stage else 1))
