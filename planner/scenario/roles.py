"""The models beside the one that is trained, in preference and reinforcement tuning: what they are, and where."""

import json
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from planner.scenario.choices import HalfDtype, Placement, Reference, Rollout, RolloutSoftware, ValueUpdate
from planner.scenario.declaration import Declared, declare
from planner.scenario.json_tree import flaw_of
from planner.scenario.model_source import MAX_PARAMETERS
from planner.scenario.parallelism import MAX_DEGREE

MAX_ROLLOUTS = 1_000_000
MAX_CONFIG = 1_000_000


def _readable(text: str) -> str:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        config = None
    flaw = flaw_of(config) if isinstance(config, dict) else "This is no JSON object."
    if flaw:
        raise PydanticCustomError("bad_config", "{flaw}", {"flaw": flaw})
    return text


ConfigText = Annotated[str, AfterValidator(_readable)]
"""A JSON object as the text that it is pasted as."""


class FurtherModel(Declared):
    """One of these models. What is left open is as in the policy."""

    preset: str | None = declare(
        None, "Model", "A model that comes with the planner, by its id. Automatic: the policy's.", max_length=300
    )
    config_json: ConfigText | None = declare(
        None,
        "Configuration",
        "The text of its config.json, for a model that is no preset. Automatic: the policy's.",
        max_length=MAX_CONFIG,
    )
    parameters: int | None = declare(
        None,
        "Parameters",
        "Number of weights, for a model that is neither. Automatic: as the model has them.",
        ge=1,
        le=MAX_PARAMETERS,
        step=10**9,
    )
    dtype: HalfDtype | None = declare(
        None, "Weight type", "Number format of its weights. Automatic: that of the policy's weights."
    )


class FrozenModel(FurtherModel):
    """One that only runs forward."""

    offloaded: bool = declare(
        False,
        "Waits in host RAM",
        "Its weights are on the GPU only while it runs (OpenRLHF `--ref.offload`, verl `param_offload`).",
    )


class RolloutEngine(Declared):
    """The engine that writes answers with a copy of the policy."""

    engine: RolloutSoftware = declare(
        "vllm",
        "Engine",
        "The software on GPUs of its own. Beside the policy, weights and cache count the same whatever it is.",
    )
    dtype: HalfDtype | None = declare(None, "Weight type", "Number format of its copy of the weights. Automatic: bf16.")
    tensor: int | None = declare(
        None,
        "Tensor parallel",
        "GPUs that share its layers. Automatic: as the policy.",
        unit="GPUs",
        ge=1,
        le=MAX_DEGREE,
    )
    sleeps: bool = declare(
        False,
        "Sleeps while training",
        "Between rollouts it gives back its cache and its weights (vLLM sleep mode).",
    )
    sleep_level: int = declare(
        1,
        "Sleep level",
        "1: its weights wait in host RAM (OpenRLHF). 2: they are given up, since the policy's new ones replace them "
        "anyway (TRL).",
        ge=1,
        le=2,
    )


class Roles(Declared):
    """Where the models beside the one that is trained are, in preference and reinforcement tuning."""

    reference: Reference = declare(
        "automatic",
        "Reference model",
        "The model that the policy must not stray from. Adapters can be switched off instead of keeping a copy.",
    )
    reference_model: Placement = declare(
        "automatic", "Reference's place", "Where a copy of the reference is kept. Automatic: beside the policy."
    )
    reward_model: Placement = declare(
        "automatic",
        "Reward model",
        "Where the frozen model that judges answers is kept. Automatic: beside the policy for PPO, apart for GRPO.",
    )
    value_model: Placement = declare(
        "automatic", "Value model", "Where PPO's trained value model is kept. Automatic: beside the policy."
    )
    value_update: ValueUpdate = declare(
        "automatic",
        "Value model is updated",
        "Beside the policy: both run forward before either runs backward, and one optimizer updates both (TRL), or the "
        "value model has a step of its own before the policy's (verl, OpenRLHF).",
    )
    rollout_engine: Rollout = declare(
        "automatic",
        "Rollout engine",
        "Where answers are generated. Automatic: on other GPUs.",
    )
    rollout_sequences: int = declare(
        16,
        "Rollouts at a time",
        "Sequences that one rollout engine generates together; each has its KV cache.",
        unit="sequences",
        ge=1,
        le=MAX_ROLLOUTS,
    )
    policy_sleeps: bool = declare(
        False,
        "Policy sleeps",
        "While answers are generated and judged, the optimizers' states wait in host RAM (OpenRLHF "
        "`--ds.enable_sleep`, verl `optimizer_offload`).",
    )
