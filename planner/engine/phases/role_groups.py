"""Roles that are on GPUs of their own, each as a phase by itself: a frozen model evaluates, a value model trains, a
rollout engine serves.

Sources: OpenRLHF `cli/train_ppo_ray.py`: one placement group per role that is not colocated;
`utils/deepspeed/deepspeed.py: get_ds_eval_config`: stage 3 for frozen models where the policy has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.engine.phases.role_models import role_dtype, role_spec, value_phase
from planner.engine.phases.roles import APART, further_roles
from planner.engine.plan import PhaseName
from planner.engine.sharding import Shards
from planner.model.spec import ModelSpec
from planner.scenario.parallelism import ServingParallelism
from planner.scenario.phases import Evaluation, FineTuning
from planner.scenario.roles import FurtherModel
from planner.scenario.serving import Serving
from planner.scenario.step import TrainingStep

WHOLE = {"zero_stage": 0, "sharding_backend": None}


@dataclass(frozen=True, slots=True)
class GroupPhase:
    """What the GPUs of one role do."""

    role: str
    kind: PhaseName
    phase: Evaluation | FineTuning | Serving
    spec: ModelSpec


def group_phases(phase: TrainingStep, spec: ModelSpec) -> Iterator[GroupPhase]:
    """One for each role that is apart from the policy."""
    if not isinstance(phase, FineTuning):
        return
    for role in further_roles(phase, spec):
        if role.place != APART:
            continue
        if role.name == "rollout":
            yield GroupPhase(role.name, "serving", _engine(phase), spec)
        elif role.name == "value":
            own = role_spec(phase.value, spec, scores=True)
            trained = value_phase(phase).model_copy(update={"objective": "sft"})
            yield GroupPhase(role.name, "fine_tuning", trained, own)
        else:
            chosen = phase.reward if role.name == "reward" else phase.reference
            own = role_spec(chosen, spec, scores=role.name == "reward")
            yield GroupPhase(role.name, "evaluation", _judge(phase, chosen), own)


def _judge(phase: FineTuning, chosen: FurtherModel) -> Evaluation:
    """A frozen model reads whole answers, both of a pair for DPO.

    Its weights are divided over the ranks where the policy's are; there is nothing else to divide.
    """
    divides = Shards.of(phase.parallelism).weights > 1
    return Evaluation(
        precision=role_dtype(chosen, phase),
        batch_size=phase.micro_batch_size * (2 if phase.objective == "dpo" else 1),
        sequence_length=phase.sequence_length,
        attention_implementation=phase.attention_implementation,
        framework_version=phase.framework_version,
        parallelism=phase.parallelism if divides else phase.parallelism.model_copy(update=WHOLE),
    )


def _engine(phase: FineTuning) -> Serving:
    dtype = phase.rollout.dtype or "bf16"
    return Serving(
        engine=phase.rollout.engine,
        weights=dtype,
        kv_cache_dtype=dtype,
        concurrent_sequences=phase.roles.rollout_sequences,
        context_length=phase.sequence_length,
        parallelism=ServingParallelism(tensor=phase.rollout.tensor or phase.parallelism.tensor),
    )
