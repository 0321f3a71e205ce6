"""Model types whose peak differs from that of their class, run on a small scale, for a reason that is not known yet."""

from collections.abc import Callable
from dataclasses import dataclass

from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Setting
from planner.model.spec import ModelSpec

NOTE = (
    "In runs of this model's class on a small scale the peak differed by {size} from what is counted here, and the "
    "reason is not known."
)
Case = Callable[[Recipe, Setting], bool]


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much, for which model types of transformers 5.24, and in which steps."""

    size: str
    model_types: frozenset[str]
    concerns: Case


def _evaluated(recipe: Recipe, _: Setting) -> bool:
    return not recipe.training


def _evaluated_step_by_step(recipe: Recipe, setting: Setting) -> bool:
    return not recipe.training and setting.attention == "eager"


def _checkpointed_step_by_step(recipe: Recipe, setting: Setting) -> bool:
    return recipe.training and recipe.checkpointing != "none" and setting.attention == "eager"


DIFFERENCES = (
    Difference(
        "3 to 5 %",
        frozenset({"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"}),
        _checkpointed_step_by_step,
    ),
    Difference("5 to 11 %", frozenset({"gpt_neo", "cohere2", "mpnet"}), _evaluated),
    Difference("3 to 7 %", frozenset({"ministral", "modernbert"}), _evaluated_step_by_step),
)


def known_to_differ(spec: ModelSpec, recipe: Recipe, setting: Setting) -> tuple[str, ...]:
    """What such runs showed of this kind of step."""
    return tuple(
        NOTE.format(size=item.size)
        for item in DIFFERENCES
        if spec.model_type in item.model_types and item.concerns(recipe, setting)
    )
