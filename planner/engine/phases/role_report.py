"""The moment before a step of reinforcement tuning, and every role with its place and what it holds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.engine.phases.roles import BEFORE, HERE, Role, further_roles
from planner.engine.pipeline import Stage
from planner.engine.plan import Moment
from planner.engine.term import Component, Term
from planner.engine.traced import SettledPhase
from planner.model.counts import parameters
from planner.model.spec import ModelSpec
from planner.scenario.phases import FineTuning
from planner.scenario.step import TrainingStep

PREFIXES: Mapping[str, tuple[str, ...]] = {
    "reference": ("reference model: ",),
    "reward": ("reward model: ",),
    "value": ("value model: ",),
    "rollout": ("rollout engine: ", "rollout: "),
}
"""How the names of a role's terms begin."""


@dataclass(frozen=True)
class Between:
    """What is held between two steps of the policy: the moment, and its terms beyond those that stand anyway."""

    moment: Moment
    terms: tuple[Term, ...]
    keeps_states: bool = True

    def told(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        """All terms of the phase: what stands at the start of a step is there before it, too."""
        when = (self.moment.name,)
        return (*(replace(item, alive=(*when, *item.alive)) if self._stands(item) else item for item in terms),
                *self.terms)  # fmt: skip

    def _stands(self, term: Term) -> bool:
        return "start_of_step" in term.alive and (self.keeps_states or term.component != "optimizer_states")


def before_step(phase: TrainingStep, spec: ModelSpec, stage: Stage | None, settled: SettledPhase) -> Between | None:
    """PPO and GRPO: the fuller of writing answers and judging them. None where a step begins with given answers."""
    if not isinstance(phase, FineTuning) or phase.objective not in ("ppo", "grpo"):
        return None
    roles = further_roles(phase, spec, stage)
    writing = tuple(item for role in roles for item in role.generation)
    judging = [role.scoring for role in roles]
    instants = {"generation": writing, "scoring": max(judging, key=_bytes, default=())}
    instant = max(instants, key=lambda name: _bytes(instants[name]))
    held: dict[Component, int] = dict(settled.moments["start_of_step"].components)
    if phase.roles.policy_sleeps:
        held["optimizer_states"] = 0
    for item in instants[instant]:
        held[item.component] += int(item.bytes)
    moment = Moment(BEFORE[0], instant, sum(held.values()), held)
    return Between(moment, instants[instant], not phase.roles.policy_sleeps)


def _bytes(terms: Iterable[Term]) -> int:
    return sum(int(item.bytes) for item in terms)


def role_details(
    phase: TrainingStep, spec: ModelSpec, stage: Stage | None, moment: Moment, terms: Iterable[Term]
) -> dict[str, Any]:
    """Every role with its place and what it holds at the fullest moment; the policy holds what the others do not.

    `terms` are those of the whole phase.
    """
    others = further_roles(phase, spec, stage)
    if not others:
        return {}
    alive = [item for item in terms if moment.name in item.alive]
    held = {role.name: _bytes(item for item in alive if item.name.startswith(PREFIXES[role.name])) for role in others}
    held["policy"] = moment.allocated_bytes - sum(held.values())
    policy = Role("policy", HERE, True, parameters(spec))
    return {
        "roles": [
            {
                "role": role.name,
                "place": role.place,
                "trained": role.trained,
                "parameters": role.parameters,
                "allocated_bytes": held[role.name],
            }
            for role in (policy, *others)
        ]
    }
