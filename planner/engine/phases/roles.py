"""The models beside the policy in preference and reinforcement tuning, and where each of them is.

Sources: TRL `trainer/dpo_trainer.py` (both answers of a pair in one batch; the reference runs while the policy's
activations are kept), `trainer/ppo_trainer.py` (`PolicyAndValueWrapper`: policy and value run forward before either
runs backward; reference and reward are frozen), `trainer/grpo_trainer.py` (no value model; rewards are mostly
functions; `vllm_mode` places the rollout engine).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from planner.engine.activations.lower import PRECISIONS
from planner.engine.moments import ALL, IN_MODEL
from planner.engine.phases.inference import plan_forward
from planner.engine.phases.standing import StateChoices, recipe_precision, standing
from planner.engine.quantization import weight_terms
from planner.engine.sharding import Shards, divided
from planner.engine.term import Factor, Number, Term
from planner.model.counts import kv_bytes_per_token, parameters
from planner.model.spec import ModelSpec
from planner.scenario.phases import Evaluation, FineTuning
from planner.scenario.step import TrainingStep

TRL = "TRL, trainer/dpo_trainer.py, ppo_trainer.py and grpo_trainer.py"
ROLLOUT = "TRL vllm_mode=colocate: the engine holds weights of its own and a KV cache beside the trainer's"
HERE, APART, OFF = "on the policy's GPUs", "on other GPUs", "the policy with its adapters off"
PAIR = 2
"""DPO: the preferred and the rejected answer."""


@dataclass(frozen=True, slots=True)
class Role:
    """One model of the layout; `terms` is what it adds to the policy's GPUs."""

    name: str
    place: str
    trained: bool
    parameters: int
    terms: tuple[Term, ...] = ()


def sequences_per_sample(phase: TrainingStep) -> int:
    """Sequences that go through the model for each of the micro-batch."""
    return PAIR if isinstance(phase, FineTuning) and phase.objective == "dpo" else 1


def role_terms(phase: TrainingStep, spec: ModelSpec) -> tuple[Term, ...]:
    """What all further roles add to the policy's GPUs, without what depends on the workload."""
    return tuple(item for role in further_roles(phase, spec) for item in role.terms)


@lru_cache(maxsize=64)
def further_roles(phase: TrainingStep, spec: ModelSpec) -> tuple[Role, ...]:
    """Every role but the policy; none for supervised tuning."""
    if not isinstance(phase, FineTuning) or phase.objective == "sft":
        return ()
    found = [_reference(phase, spec)]
    if phase.objective == "ppo":
        found.append(_value(phase, spec))
    if phase.objective in ("ppo", "grpo"):
        found += [_reward(phase, spec), _rollout(phase, spec)]
    return tuple(role for role in found if role is not None)


def _reference(phase: FineTuning, spec: ModelSpec) -> Role | None:
    chosen = phase.roles.reference
    if chosen == "automatic":
        chosen = "adapters-off" if phase.uses_adapters else "copy"
    if chosen == "none":
        return None
    runs = _frozen_forward(phase, spec, "reference model") if phase.objective == "dpo" else ()
    if chosen == "adapters-off":
        return Role("reference", OFF, False, parameters(spec), runs)
    return Role("reference", HERE, False, parameters(spec), (*_frozen(phase, spec, "reference model"), *runs))


def _reward(phase: FineTuning, spec: ModelSpec) -> Role:
    """As large as the policy, where nothing else is known of it."""
    chosen = phase.roles.reward_model
    here = chosen == "colocated" or (chosen == "automatic" and phase.objective == "ppo")
    terms = _frozen(phase, spec, "reward model") if here else ()
    return Role("reward", HERE if here else APART, False, parameters(spec), terms)


def _value(phase: FineTuning, spec: ModelSpec) -> Role:
    """Trained as the policy is: weights, states and gradients of its own."""
    states = standing(spec, StateChoices.of(phase))
    width = 4 if recipe_precision(phase).endswith("-fp32-master") else _bytes(phase)
    gradients = Term(
        "gradients", "gradients", (Factor("trained parameters", states.trained_elements), Factor("bytes", width)),
        ("backward", "optimizer_step"), TRL,
    )  # fmt: skip
    kept = tuple(item for item in states.terms if item.component in ("weights", "optimizer_states"))
    terms = (*kept, *divided((gradients,), Shards.of(phase.parallelism).gradients))
    return Role("value", HERE, True, parameters(spec), _named("value model", terms))


def _rollout(phase: FineTuning, spec: ModelSpec) -> Role:
    if phase.roles.rollout_engine != "colocated":
        return Role("rollout", APART, False, parameters(spec))
    tensor = phase.parallelism.tensor
    cache = (
        Factor("sequences", phase.roles.rollout_sequences),
        Factor("tokens", phase.sequence_length),
        Factor("bytes per token", -(-kv_bytes_per_token(spec) // tensor)),
    )
    terms = (*weight_terms(spec, "bf16", tensor, ALL), Term("kv_cache", "KV cache", cache, ALL, ROLLOUT))
    return Role("rollout", HERE, False, parameters(spec), _named("rollout engine", terms))


def _frozen(phase: FineTuning, spec: ModelSpec, name: str) -> tuple[Term, ...]:
    """The weights of a model that only runs forward, divided as the policy's are."""
    spread = phase.parallelism
    held = weight_terms(
        spec, PRECISIONS[recipe_precision(phase)][0], spread.tensor, ALL, pipeline=spread.pipeline,
        expert_parallel=spread.expert,
    )  # fmt: skip
    return _named(name, divided(held, Shards.of(spread).weights))


def _frozen_forward(phase: FineTuning, spec: ModelSpec, name: str) -> tuple[Term, ...]:
    """What its forward pass works with, while the policy's activations wait for backward."""
    trial = Evaluation(
        precision=phase.precision,
        batch_size=PAIR * phase.micro_batch_size,
        sequence_length=phase.sequence_length,
        attention_implementation=phase.attention_implementation,
        framework_version=phase.framework_version,
        parallelism=phase.parallelism,
    )
    ran = plan_forward(
        trial, spec, batch=trial.batch_size, sequence=trial.sequence_length, logits="all", computes_loss=True
    )
    working = int(ran.peak_bytes()) - sum(int(item.bytes) for item in ran.standing)
    factors = (Factor("bytes", working, "the fullest instant of a forward pass"),)
    return (Term("temporaries", f"{name}: forward pass", factors, ("end_of_forward",), TRL),)


def value_activations(count: int, kept: Number) -> Term:
    """What the value model keeps while the policy runs backward."""
    factors = (Factor("micro-batches", count), Factor("bytes kept by one", kept))
    return Term("activations", "value model: activations", factors, IN_MODEL, TRL)


def _named(name: str, terms: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(replace(item, name=f"{name}: {item.name}") for item in terms)


def _bytes(phase: TrainingStep) -> int:
    return 4 if PRECISIONS[recipe_precision(phase)][0] == "fp32" else 2


def role_details(phase: TrainingStep, spec: ModelSpec, moment: str, allocated: int) -> dict[str, Any]:
    """Every role with its place and what it holds at the fullest moment; the policy holds what the others do not."""
    others = further_roles(phase, spec)
    if not others:
        return {}
    held = {role.name: sum(int(item.bytes) for item in role.terms if moment in item.alive) for role in others}
    policy = Role("policy", HERE, True, parameters(spec))
    held["policy"] = allocated - sum(held.values())
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
