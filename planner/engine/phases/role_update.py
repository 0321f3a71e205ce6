"""PPO's value model beside the policy, with a step of its own while the policy waits.

Sources: verl `trainer/ppo/ray_trainer.py` (`_update_critic` is done before `_update_actor` begins), each with an
optimizer of its own (`workers/critic`, `workers/actor`); OpenRLHF `trainer/ppo_trainer.py: ppo_train` with
`--ds.enable_sleep`.
"""

from dataclasses import replace

from planner.engine.phases.role_models import named, role_spec, stands, trains_together, value_phase
from planner.engine.phases.role_report import Between
from planner.engine.phases.standing import MEGATRON_WORKSPACES
from planner.engine.phases.step import plan_pipeline
from planner.engine.plan import Moment
from planner.engine.term import Component, Term
from planner.engine.traced import SettledPhase
from planner.model.spec import ModelSpec
from planner.scenario.phases import FineTuning
from planner.scenario.step import TrainingStep

VALUE_UPDATE = "value_update"


def value_step(phase: TrainingStep, spec: ModelSpec, index: int, policy: SettledPhase) -> Between | None:
    """The fullest moment of the value model's step on a stage; None where it is trained together with the policy."""
    if not isinstance(phase, FineTuning) or phase.objective != "ppo" or phase.roles.value_model == "apart":
        return None
    if trains_together(phase):
        return None
    step = value_phase(phase).model_copy(update={"objective": "sft"})
    value = plan_pipeline(step, role_spec(phase.value, spec, scores=True))[index].settle()
    top = max(value.moments.values(), key=lambda moment: moment.allocated_bytes)
    further = (item for item in value.terms() if top.name in item.alive and not _is_there(item))
    terms = tuple(replace(item, alive=(VALUE_UPDATE,)) for item in named("value model", further))
    held: dict[Component, int] = dict(policy.moments["start_of_step"].components)
    for item in terms:
        held[item.component] += int(item.bytes)
    return Between(Moment(VALUE_UPDATE, top.instant, sum(held.values()), held), terms)


def _is_there(item: Term) -> bool:
    """Whether the policy's moments count it already: states, gradients that stay, workspaces that both use."""
    stays = item.component == "gradients" and "start_of_step" in item.alive
    return stands(item) or stays or item in MEGATRON_WORKSPACES
