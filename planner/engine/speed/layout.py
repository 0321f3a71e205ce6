"""What one GPU of a training step works on: its part of the model, of the tokens, and its neighbours."""

from dataclasses import dataclass
from functools import cached_property

from planner.engine.activations.lower import PRECISIONS
from planner.engine.activations.tape import BYTES
from planner.engine.phases.gradients import accumulates_in_fp32
from planner.engine.phases.roles import sequences_per_sample
from planner.engine.phases.standing import StateChoices, recipe_precision, standing
from planner.engine.phases.step import plan_step
from planner.engine.sharding import Shards, gathers_are_recorded
from planner.engine.speed.collectives import Group
from planner.engine.speed.rates import Rates
from planner.engine.speed.tokens import stack_tokens
from planner.engine.speed.weights_read import read_bytes
from planner.engine.term import Factor
from planner.model.spec import ModelSpec
from planner.scenario.phases import FineTuning
from planner.scenario.step import TrainingStep

BUBBLE = (
    "Narayanan et al. (arXiv:2104.04473), section 2.2: (p - 1) / m of the ideal time, over v chunks (p - 1) / (v m)"
)


@dataclass(frozen=True)
class Step:
    """A training step of a model on GPUs of these rates."""

    phase: TrainingStep
    spec: ModelSpec
    rates: Rates

    @property
    def method(self) -> str:
        return self.phase.method if isinstance(self.phase, FineTuning) else "full"

    @property
    def sequences(self) -> int:
        """Of one micro-batch, all of which go through the model."""
        return self.phase.micro_batch_size * sequences_per_sample(self.phase)

    @cached_property
    def tokens(self) -> int | None:
        """Of one sequence, in the main stack."""
        return stack_tokens(
            self.spec, self.phase.sequence_length, self.phase.decoder_sequence_length, self.phase.image_size
        )

    @property
    def micro_batches(self) -> Factor:
        return Factor("micro-batches", self.phase.gradient_accumulation_steps)

    @property
    def bubble(self) -> tuple[Factor, ...]:
        """How much longer stages work and wait than they work; none without a pipeline."""
        layout = self.phase.parallelism
        stages, chunks, batches = layout.pipeline, layout.pipeline_interleave, self.phase.gradient_accumulation_steps
        if stages == 1:
            return ()
        how = f"1 + ({stages} - 1) / ({chunks} × {batches})"
        return (Factor("work and pipeline bubble", 1 + (stages - 1) / (chunks * batches), how),)

    @property
    def shared(self) -> Factor:
        """The part of a model and of a sequence that is one GPU's."""
        layout = self.phase.parallelism
        ranks = layout.tensor * layout.pipeline * layout.context
        return Factor("share of a GPU", 1 / ranks, f"1 / {ranks}")

    @property
    def compute_bytes(self) -> int:
        """Width of what is computed with and exchanged."""
        weight, autocast = PRECISIONS[self.phase.precision]
        return BYTES[autocast or weight]

    @property
    def gradient_bytes(self) -> int:
        if accumulates_in_fp32(self.phase):
            return BYTES["fp32"]
        return BYTES[PRECISIONS[recipe_precision(self.phase)][0]]

    @property
    def reduced_bytes(self) -> int:
        """Width in which gradients are exchanged: FSDP casts them to the type of the gathered weights."""
        if gathers_are_recorded(self.phase.parallelism):
            stated = self.phase.parallelism.fsdp_reduce_dtype
            return self.compute_bytes if stated is None else BYTES[stated]
        return self.gradient_bytes

    @cached_property
    def saved_bytes(self) -> int:
        """What the layers of one micro-batch save for backward, where it waits elsewhere; 0 where stages differ."""
        offload = self.phase.offload
        if offload.activations == "none" or self.phase.parallelism.pipeline > 1:
            return 0
        stays = self.phase.model_copy(update={"offload": offload.model_copy(update={"activations": "none"})})
        return int(plan_step(stays, self.spec).settle().layer_activation_bytes())

    @property
    def shards(self) -> Shards:
        return Shards.of(self.phase.parallelism)

    @cached_property
    def trained_elements(self) -> int:
        """Weights of this GPU's part of the model whose gradients are computed, before data-parallel ranks divide."""
        return standing(self.spec, StateChoices.of(self.phase)).trained_elements

    @cached_property
    def state_bytes(self) -> int:
        """Optimizer states that this GPU holds."""
        terms = standing(self.spec, StateChoices.of(self.phase)).terms
        return sum(int(term.bytes) for term in terms if term.component == "optimizer_states")

    @cached_property
    def held_bytes(self) -> int:
        """Weights of this GPU's part of the model as they are computed with, whole; token tables are only looked up."""
        layout = self.phase.parallelism
        frozen = self.phase.frozen_format if isinstance(self.phase, FineTuning) else None
        known = {4: "fp32", 2: "bf16"}[self.compute_bytes]
        return read_bytes(self.spec, frozen or known, layout.tensor, layout.pipeline, layout.expert_share)

    @property
    def tensor_group(self) -> Group:
        return Group(self.phase.parallelism.tensor)

    @property
    def context_group(self) -> Group:
        return Group(self.phase.parallelism.context, self.phase.parallelism.tensor)

    @property
    def expert_group(self) -> Group:
        return Group(self.phase.parallelism.expert, self.phase.parallelism.ranks_per_expert)

    @property
    def data_group(self) -> Group:
        """Ranks that reduce gradients together."""
        layout = self.phase.parallelism
        return Group(layout.data * layout.context, layout.tensor)

    @property
    def shard_group(self) -> Group:
        """Ranks that share the states of one copy."""
        layout = self.phase.parallelism
        ranks = layout.shard_ranks
        return Group(ranks, layout.tensor * (1 if ranks > layout.data else layout.context))

    @property
    def stage_group(self) -> Group:
        """A stage and the next."""
        layout = self.phase.parallelism
        return Group(min(2, layout.pipeline), layout.tensor * layout.context * layout.data)
