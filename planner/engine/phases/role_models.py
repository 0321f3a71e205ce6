"""What the further models of preference and reinforcement tuning are, and what each holds on a rank.

Sources: TRL `trainer/utils.py: prepare_deepspeed, prepare_fsdp` (frozen models are divided as the policy's weights
are), `experimental/ppo/ppo_trainer.py` (reward and value models end in one score); OpenRLHF `cli/train_ppo_ray.py`
(`--ref.offload`, `--vllm.enable_sleep`).
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from planner.engine.activations.lower import PRECISIONS
from planner.engine.gathered import expert_ranks, gathered_weights
from planner.engine.moments import ALL
from planner.engine.phases.inference import plan_forward
from planner.engine.phases.standing import Standing, recipe_precision
from planner.engine.pipeline import Stage, layer_count, stage_layers
from planner.engine.quantization import weight_terms
from planner.engine.sharding import Shards, divided
from planner.engine.term import Factor, Number, Term
from planner.model.resolve import resolve_model
from planner.model.spec import Head, ModelSpec
from planner.scenario.model_source import ConfigModel, PresetModel, SizeModel
from planner.scenario.phases import Evaluation, FineTuning
from planner.scenario.roles import FurtherModel

TRL = "TRL, trainer/dpo_trainer.py, grpo_trainer.py and experimental/ppo/ppo_trainer.py"
ONE_OPTIMIZER = "TRL, experimental/ppo/ppo_trainer.py: one optimizer over PolicyAndValueWrapper"


@lru_cache(maxsize=64)
def role_spec(role: FurtherModel, policy: ModelSpec, *, scores: bool = False) -> ModelSpec:
    """The structure of a role's model. `scores`: it ends in one number instead of logits over tokens."""
    spec = policy
    if role.preset is not None:
        spec = resolve_model(PresetModel(preset=role.preset))
    elif role.config_json is not None:
        spec = resolve_model(ConfigModel(config=json.loads(role.config_json)))
    elif role.parameters is not None:
        task = "sequence-classification" if scores else "causal-lm"
        spec = resolve_model(SizeModel(parameters=role.parameters, task=task))
    if not scores or spec.head is None or spec.head.kind != "vocabulary":
        return spec
    return replace(spec, task="sequence-classification", head=Head(1, kind="classification", name="score"))


def role_dtype(role: FurtherModel, phase: FineTuning) -> str:
    """The number format of its weights: stated, or that of the policy's."""
    return role.dtype or PRECISIONS[recipe_precision(phase)][0]


def value_phase(phase: FineTuning) -> FineTuning:
    """The step as the value model sees it: the policy's, in a number format of its own where one is stated."""
    return phase if phase.value.dtype is None else phase.model_copy(update={"precision": phase.value.dtype})


def trains_together(phase: FineTuning) -> bool:
    """Whether policy and value model are on the same GPUs and updated in one step."""
    if phase.objective != "ppo" or phase.roles.value_model == "apart":
        return False
    chosen = phase.roles.value_update
    return chosen == "together" or (chosen == "automatic" and phase.parallelism.pipeline == 1)


def beside(added: Standing, first: Standing) -> tuple[Term, ...]:
    """What a second trained model adds to the standing terms of a first, where one optimizer updates both at once.

    TRL wraps policy and value model into one module with one optimizer, so that what an update makes over all
    parameters is made over both. A bucket, a tensor at a time or weights gathered in turn are one for both: only what
    the second model's are larger by is added.
    """
    over_all = tuple(item for item in added.terms if not _in_turn(item))
    further = _update_in_turn(added) - _update_in_turn(first)
    if further <= 0:
        return over_all
    larger = (Factor("bytes", further, "beyond what the policy's update makes"),)
    return (*over_all, Term("temporaries", "larger tensors of the update", larger, ("optimizer_step",), ONE_OPTIMIZER))


def _in_turn(item: Term) -> bool:
    """Whether a term is a buffer of the software's own, or is made for some of the parameters at a time."""
    if item.component == "temporaries":
        return item.alive != ("optimizer_step",) or any(factor.name == "elements" for factor in item.factors)
    return item.component == "weights" and item.alive != ALL


def _update_in_turn(states: Standing) -> int:
    return sum(int(item.bytes) for item in states.terms if _in_turn(item) and item.alive == ("optimizer_step",))


def stands(item: Term) -> bool:
    """Whether a term of a trained model is there between its steps, too."""
    return item.component in ("weights", "optimizer_states") and item.alive == ALL


def stage_part(spec: ModelSpec, stage: Stage | None) -> ModelSpec:
    """What of a model stands on a stage of the pipeline."""
    return spec if stage is None else stage_layers(spec, stage)


def frozen_weights(
    phase: FineTuning, spec: ModelSpec, stage: Stage | None, dtype: str, name: str, alive: tuple[str, ...]
) -> tuple[Term, ...]:
    """The weights of a model that only runs forward, divided as the policy's are."""
    spread, shards = phase.parallelism, Shards.of(phase.parallelism).weights
    held = weight_terms(
        stage_part(spec, stage), dtype, spread.tensor, alive,
        expert_parallel=expert_ranks(spread, shards), ends=None if stage is None else stage.ends,
    )  # fmt: skip
    return named(name, divided(held, shards))


def forward_working_set(
    phase: FineTuning,
    role: FurtherModel,
    spec: ModelSpec,
    stage: Stage | None,
    name: str,
    alive: tuple[str, ...],
    *,
    batch: Number,
    length: Number,
) -> tuple[Term, ...]:
    """What a forward pass without gradients works with, beside the weights that stand, and what it gathers of them.

    Only the last stage of a pipeline computes logits.
    """
    part = stage_part(spec, stage)
    if stage is not None and not layer_count(part):
        return ()
    dtype = role_dtype(role, phase)
    whole = stage is None or stage.is_last
    trial = Evaluation(
        precision=phase.precision if role.dtype is None else role.dtype,
        attention_implementation=phase.attention_implementation,
        framework_version=phase.framework_version,
        parallelism=phase.parallelism.model_copy(update={"pipeline": 1, "pipeline_interleave": 1}),
    )
    scored = "all" if whole else "last"
    ran = plan_forward(
        trial, part, batch=batch, sequence=length, logits=scored,
        computes_loss=whole and spec.task == "causal-lm", loss="log_probabilities",
    )  # fmt: skip
    working = ran.peak_bytes() - sum(int(item.bytes) for item in ran.standing)
    factors = (Factor("bytes", working, "the fullest instant of a forward pass"),)
    terms = (Term("temporaries", "forward pass", factors, alive, TRL),)
    gathered = gathered_weights(
        phase.parallelism, part, dtype, alive, autocast=phase.precision.startswith("amp-")
    )  # fmt: skip
    return named(name, (*terms, *gathered))


def named(name: str, terms: Iterable[Term]) -> tuple[Term, ...]:
    """The same terms, each under the name of its role."""
    return tuple(replace(item, name=f"{name}: {item.name}") for item in terms)
