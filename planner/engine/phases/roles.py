"""The models beside the policy in preference and reinforcement tuning: where each is, and when it holds what.

Sources: TRL `trainer/dpo_trainer.py` (both answers of a pair in one batch; the reference runs while the policy's
activations are kept), `experimental/ppo/ppo_trainer.py` (`PolicyAndValueWrapper`: policy and value run forward before
either runs backward; answers, reference log-probabilities and scores are made before the first update, without
gradients), `trainer/grpo_trainer.py` (no value model; rewards are mostly functions; `vllm_mode` places the rollout
engine, `vllm_enable_sleep_mode` lets it sleep); OpenRLHF `cli/train_ppo_ray.py` (`colocate_actor_ref`,
`colocate_critic_reward`, `colocate_all`, `ds.enable_sleep`).
"""

from dataclasses import dataclass
from functools import lru_cache

from planner.engine.activations.lower import PRECISIONS
from planner.engine.activations.tape import BYTES
from planner.engine.moments import ALL, IN_MODEL
from planner.engine.phases.gradients import accumulates_in_fp32, gradients_from_start
from planner.engine.phases.role_models import (
    TRL,
    beside,
    forward_working_set,
    frozen_weights,
    named,
    role_dtype,
    role_spec,
    stage_part,
    stands,
    trains_together,
    value_phase,
)
from planner.engine.phases.role_outputs import held_outputs
from planner.engine.phases.standing import StateChoices, has_master_weights, recipe_precision, standing
from planner.engine.pipeline import Stage
from planner.engine.quantization import weight_terms
from planner.engine.sharding import Shards, divided
from planner.engine.term import Factor, Number, Term
from planner.model.counts import kv_bytes_per_token, parameters
from planner.model.spec import ModelSpec
from planner.scenario.phases import FineTuning
from planner.scenario.roles import FrozenModel
from planner.scenario.step import TrainingStep

ROLLOUT = "TRL vllm_mode=colocate: the engine holds weights of its own and a KV cache beside the trainer's"
GENERATE = "TRL, models/utils.py: unwrap_model_for_generation: ZeRO-3 shards are gathered whole to generate"
HERE, APART, OFF = "on the policy's GPUs", "on other GPUs", "the policy with its adapters off"
ITSELF = "the policy itself"
PAIR = 2
"""DPO: the preferred and the rejected answer."""
BEFORE: tuple[str, ...] = ("rollout",)
"""PPO and GRPO: answers are generated and judged before the step."""


@dataclass(frozen=True, slots=True)
class Role:
    """One model of the layout, and what it adds to the policy's GPUs: through the step, and before it."""

    name: str
    place: str
    trained: bool
    parameters: int
    terms: tuple[Term, ...] = ()
    generation: tuple[Term, ...] = ()
    """While answers are written."""
    scoring: tuple[Term, ...] = ()
    """While answers are judged; models run one after the other."""


def sequences_per_sample(phase: TrainingStep) -> int:
    """Sequences that go through the model for each of the micro-batch."""
    return PAIR if isinstance(phase, FineTuning) and phase.objective == "dpo" else 1


def role_terms(
    phase: TrainingStep, spec: ModelSpec, stage: Stage | None, batch: Number, length: Number
) -> tuple[Term, ...]:
    """What all further roles add to the policy's GPUs through a step."""
    if not isinstance(phase, FineTuning) or phase.objective == "sft":
        return ()
    held = (item for role in further_roles(phase, spec, stage) for item in role.terms)
    outputs = held_outputs(phase, spec, stage, batch * sequences_per_sample(phase), length)
    return (*held, *_reference_pass(phase, spec, stage, batch, length), *outputs)


@lru_cache(maxsize=64)
def further_roles(phase: TrainingStep, spec: ModelSpec, stage: Stage | None = None) -> tuple[Role, ...]:
    """Every role but the policy; none for supervised tuning."""
    if not isinstance(phase, FineTuning) or phase.objective == "sft":
        return ()
    found = [_reference(phase, spec, stage)]
    if phase.objective == "ppo":
        found.append(_value(phase, spec, stage))
    if phase.objective in ("ppo", "grpo"):
        found += [_reward(phase, spec, stage), _rollout(phase, spec, stage)]
    return tuple(role for role in found if role is not None)


def reference_kind(phase: FineTuning) -> str:
    """`copy`, `adapters-off` or `none`."""
    if phase.roles.reference == "automatic":
        return "adapters-off" if phase.uses_adapters else "copy"
    return phase.roles.reference


def reward_is_here(phase: FineTuning) -> bool:
    chosen = phase.roles.reward_model
    return chosen == "colocated" or (chosen == "automatic" and phase.objective == "ppo")


def _reference(phase: FineTuning, spec: ModelSpec, stage: Stage | None) -> Role | None:
    kind = reference_kind(phase)
    if kind == "none":
        return None
    if kind == "adapters-off":
        runs = _judging(phase, phase.reference, spec, stage, "reference model")
        return Role("reference", OFF, False, parameters(spec), scoring=runs)
    own = role_spec(phase.reference, spec)
    if phase.roles.reference_model == "apart":
        return Role("reference", APART, False, parameters(own))
    return _frozen("reference", phase, phase.reference, own, stage, "reference model")


def _reward(phase: FineTuning, spec: ModelSpec, stage: Stage | None) -> Role:
    own = role_spec(phase.reward, spec, scores=True)
    if not reward_is_here(phase):
        return Role("reward", APART, False, parameters(own))
    return _frozen("reward", phase, phase.reward, own, stage, "reward model")


def _frozen(role: str, phase: FineTuning, chosen: FrozenModel, spec: ModelSpec, stage: Stage | None, name: str) -> Role:
    """A frozen model on the policy's GPUs: through the whole step, or only while it runs."""
    dtype = role_dtype(chosen, phase)
    when: tuple[str, ...] = ALL
    if chosen.offloaded:
        when = ("end_of_forward",) if phase.objective == "dpo" else BEFORE
    held = frozen_weights(phase, spec, stage, dtype, name, when)
    runs = _judging(phase, chosen, spec, stage, name)
    if when == BEFORE:
        return Role(role, HERE, False, parameters(spec), scoring=(*held, *runs))
    return Role(role, HERE, False, parameters(spec), held, scoring=runs)


def _judging(
    phase: FineTuning, chosen: FrozenModel, spec: ModelSpec, stage: Stage | None, name: str
) -> tuple[Term, ...]:
    """The forward pass over finished answers, before the step."""
    if phase.objective == "dpo":
        return ()
    return forward_working_set(
        phase, chosen, spec, stage, name, BEFORE, batch=phase.micro_batch_size, length=phase.sequence_length
    )


def _reference_pass(
    phase: FineTuning, spec: ModelSpec, stage: Stage | None, batch: Number, length: Number
) -> tuple[Term, ...]:
    """DPO: the reference's forward pass, while the policy's activations wait for backward."""
    kind = reference_kind(phase)
    apart = kind == "copy" and phase.roles.reference_model == "apart"
    if phase.objective != "dpo" or kind == "none" or apart:
        return ()
    own = role_spec(phase.reference, spec) if kind == "copy" else spec
    name, when = "reference model", ("end_of_forward",)
    return forward_working_set(phase, phase.reference, own, stage, name, when, batch=PAIR * batch, length=length)


def _value(phase: FineTuning, spec: ModelSpec, stage: Stage | None) -> Role:
    """Trained as the policy is: weights, states and gradients of its own."""
    own = role_spec(phase.value, spec, scores=True)
    if phase.roles.value_model == "apart":
        return Role("value", APART, True, parameters(own))
    step, ends = value_phase(phase), None if stage is None else stage.ends
    states = standing(stage_part(own, stage), StateChoices.of(step, ends))
    together = trains_together(phase)
    wide = has_master_weights(recipe_precision(step)) if together else accumulates_in_fp32(step)
    width = 4 if wide else BYTES[PRECISIONS[recipe_precision(step)][0]]
    alive = ("backward", "optimizer_step") if together else ALL
    factors = (Factor("trained parameters", states.trained_elements), Factor("bytes", width))
    gradients = divided(
        (Term("gradients", "gradients", factors, alive, TRL),), Shards.of(phase.parallelism).gradients
    )  # fmt: skip
    if together:
        kept = (*beside(states, standing(stage_part(spec, stage), StateChoices.of(phase, ends))), *gradients)
    else:
        stay = gradients_from_start(step) == "step"
        kept = (*(item for item in states.terms if stands(item)), *(gradients if stay else ()))
    return Role("value", HERE, True, parameters(own), named("value model", kept))


def _rollout(phase: FineTuning, spec: ModelSpec, stage: Stage | None) -> Role:
    """An engine with a copy of the weights and a cache, or the policy, which needs the cache alone."""
    chosen, count = phase.roles.rollout_engine, parameters(spec)
    if chosen == "policy":
        return Role("rollout", ITSELF, False, count, generation=named("rollout", _generate(phase, spec, stage)))
    if chosen != "colocated":
        return Role("rollout", APART, False, count)
    tensor = phase.rollout.tensor or phase.parallelism.tensor
    when = BEFORE if phase.rollout.sleeps else ALL
    held = (*rollout_weights(phase, spec, when), _cache(phase, spec, tensor, when))
    terms = named("rollout engine", held)
    if phase.rollout.sleeps:
        return Role("rollout", HERE, False, count, generation=terms)
    return Role("rollout", HERE, False, count, terms)


def rollout_weights(phase: FineTuning, spec: ModelSpec, alive: tuple[str, ...]) -> tuple[Term, ...]:
    """The rollout engine's own copy of the policy on one GPU."""
    tensor = phase.rollout.tensor or phase.parallelism.tensor
    return weight_terms(spec, phase.rollout.dtype or "bf16", tensor, alive)


def _generate(phase: FineTuning, spec: ModelSpec, stage: Stage | None) -> tuple[Term, ...]:
    """The cache of this stage's layers, and whole weights where each rank holds a shard of them."""
    tensor, part = phase.parallelism.tensor, stage_part(spec, stage)
    cache = _cache(phase, part, tensor, BEFORE)
    if Shards.of(phase.parallelism).weights == 1:
        return (cache,)
    dtype = "bf16" if phase.precision.endswith("bf16") else PRECISIONS[phase.precision][0]
    whole = weight_terms(
        part, dtype, tensor, BEFORE,
        expert_parallel=phase.parallelism.expert_share, ends=None if stage is None else stage.ends,
    )  # fmt: skip
    gathered = sum(int(item.bytes) for item in whole)
    return (cache, Term("weights", "gathered weights", (Factor("bytes", gathered),), BEFORE, GENERATE))


def _cache(phase: FineTuning, spec: ModelSpec, tensor: int, alive: tuple[str, ...]) -> Term:
    factors = (
        Factor("sequences", phase.roles.rollout_sequences),
        Factor("tokens", phase.sequence_length),
        Factor("bytes per token", -(-kv_bytes_per_token(spec) // tensor)),
    )
    return Term("kv_cache", "KV cache", factors, alive, ROLLOUT)


def value_activations(count: int, kept: Number) -> Term:
    """What the value model keeps while the policy runs backward."""
    factors = (Factor("micro-batches", count), Factor("bytes kept by one", kept))
    return Term("activations", "value model: activations", factors, IN_MODEL, TRL)
