"""Host RAM of what waits there between its turns in preference and reinforcement tuning, on one node.

Sources: vLLM, sleep mode: level 1 backs the weights up in host RAM, level 2 discards them (OpenRLHF
`trainer/ray/vllm_engine.py` asks for 1, TRL `generation/vllm_generation.py` for 2); OpenRLHF
`utils/deepspeed/deepspeed_utils.py`: `offload_deepspeed_states` moves the states of the optimizer to pinned memory,
`get_eval_ds_config` keeps the weights of an offloaded reference there.
"""

from collections.abc import Iterable, Iterator

from planner.engine import host
from planner.engine.phases.role_models import frozen_weights, role_dtype, role_spec, value_phase
from planner.engine.phases.roles import HERE, further_roles, rollout_weights
from planner.engine.phases.standing import StateChoices, standing
from planner.engine.rounding import ceil_div
from planner.engine.term import Component, Factor, Number, Term
from planner.model.spec import ModelSpec
from planner.scenario.phases import FineTuning
from planner.scenario.step import TrainingStep

SLEEP = "vLLM, sleep mode level 1: the weights are backed up in host RAM"
OFFLOADED = "OpenRLHF, utils/deepspeed/deepspeed_utils.py: get_eval_ds_config, offload_param"
STATES = "OpenRLHF, utils/deepspeed/deepspeed_utils.py: offload_deepspeed_states"


def waiting_terms(phase: TrainingStep, spec: ModelSpec, share: host.NodeShare) -> tuple[Term, ...]:
    """Weights of models and engines that are taken from the GPUs, and optimizer states while answers are written."""
    if not isinstance(phase, FineTuning) or phase.objective == "sft":
        return ()
    here = {role.name for role in further_roles(phase, spec) if role.place == HERE}
    return tuple(_waiting(phase, spec, here, share.ranks))


def _waiting(phase: FineTuning, spec: ModelSpec, here: set[str], ranks: Number) -> Iterator[Term]:
    for role, chosen in (("reference", phase.reference), ("reward", phase.reward)):
        if role in here and chosen.offloaded:
            own = role_spec(chosen, spec, scores=role == "reward")
            held = frozen_weights(phase, own, None, role_dtype(chosen, phase), role, ())
            size = ceil_div(_bytes(held), phase.parallelism.pipeline)
            yield _term("weights", f"{role} model: weights that wait", ranks, size, OFFLOADED)
    if "rollout" in here and phase.rollout.sleeps and phase.rollout.sleep_level == 1:
        held = rollout_weights(phase, spec, ())
        yield _term("weights", "rollout engine: weights that wait", ranks, _bytes(held), SLEEP)
    if phase.roles.policy_sleeps and phase.objective in ("ppo", "grpo"):
        states = standing(spec, StateChoices.of(phase)).terms
        yield _term("optimizer_states", "policy: states that wait", ranks, _states(states), STATES)
        if "value" in here:
            value = role_spec(phase.value, spec, scores=True)
            states = standing(value, StateChoices.of(value_phase(phase))).terms
            yield _term("optimizer_states", "value model: states that wait", ranks, _states(states), STATES)


def _bytes(terms: Iterable[Term]) -> int:
    return sum(int(item.bytes) for item in terms)


def _states(terms: Iterable[Term]) -> int:
    return _bytes(item for item in terms if item.component == "optimizer_states")


def _term(component: Component, name: str, ranks: Number, size: Number, source: str) -> Term:
    return Term(component, name, (Factor("processes", ranks), Factor("bytes of one", size)), host.HOST, source)
