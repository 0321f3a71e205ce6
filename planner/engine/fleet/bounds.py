"""What a layout needs at least: states are divided by no more than its degrees, so that many need no estimate."""

from dataclasses import dataclass, field

from planner.engine.case import Case
from planner.engine.fleet.layouts import Layout, edits_of, sequences_of
from planner.engine.sharding import WHOLE_TENSORS
from planner.scenario.serving import Serving
from planner.scenario.step import TrainingStep


@dataclass(frozen=True)
class States:
    """Weights, gradients and optimizer states at a phase's last moment, which all ranks together hold at least once.

    In which formats they are held depends on the software that divides them, so each ZeRO stage is asked for on its
    own; what stands of gradients also depends on whether they are accumulated, which layouts change.
    """

    base: Case
    known: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def least(self, layout: Layout) -> int:
        """Bytes that the fullest rank cannot do without: stages and tensor-parallel ranks hold as much on average."""
        if not isinstance(self.base.fields, TrainingStep | Serving):
            return 0
        stage = layout.zero_stage or 0
        if stage not in self.known:
            self.known[stage] = self._held(stage)
        weights, gradients, optimizer = self.known[stage]
        copy = layout.tensor * layout.pipeline * layout.expert
        ranks = layout.data * layout.context
        shares = ((weights, stage == 3), (gradients, stage >= 2), (optimizer, stage >= 1))
        return sum(whole // (copy * (ranks if divided else 1)) for whole, divided in shares)

    def _held(self, stage: int) -> tuple[int, int, int]:
        """Of one copy of the model, by the shares of two ranks; nothing where those cannot be told."""
        ranks = 2 if stage else 1
        fields = self.base.fields
        sizes: set[int | None] = {None}
        layout = Layout(data=ranks)
        if isinstance(fields, TrainingStep):
            layout = Layout(data=ranks, zero_stage=stage, checkpointing=fields.activation_checkpointing)
            sizes = {1, max(1, sequences_of(fields) // ranks)}  # with accumulation, and without
        shared = [self.base.changed(edits_of(self.base, layout, size)) for size in sizes]
        if any(case.errors for case in shared):
            return 0, 0, 0
        held = [list(case.plan.moments.values())[-1].components for case in shared]
        weights, gradients, optimizer = (
            min(own.get(name, 0) for own in held) for name in ("weights", "gradients", "optimizer_states")
        )
        if stage and shared[0].fields.parallelism.backend == WHOLE_TENSORS:
            optimizer = 0  # the fuller of two shares may be far more than half
        return weights * (ranks if stage == 3 else 1), gradients * (ranks if stage >= 2 else 1), optimizer * ranks
