"""Where the tensor parallelism of transformers divides less of a model than the engine counts."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from planner.resources import resource

PROFILE = "hf-transformers"
TEXTS = {
    "without": "transformers has no tensor-parallel plan for the layers of this architecture, so that every GPU would "
    "hold them whole. They are counted as divided as those of Llama are.",
    "whole_attention": "transformers leaves the attention of this architecture whole on every GPU. It is counted as "
    "divided, so that a GPU needs more than this.",
    "gathered": "transformers gathers the outputs of some divided projections of this architecture whole on every GPU. "
    "They are counted as divided, so that a GPU needs more than this.",
}


def plan_warnings(model_type: str, tensor_parallel: int, profile: str) -> tuple[str, ...]:
    """What the published plan of an architecture leaves undivided (transformers 5.24, `base_model_tp_plan`)."""
    if tensor_parallel == 1 or profile != PROFILE:
        return ()
    plans = _plans()
    return tuple(text for name, text in TEXTS.items() if {model_type, f"{model_type}_text"} & set(plans[name]))


@cache
def _plans() -> Mapping[str, Any]:
    record: Mapping[str, Any] = json.loads(resource("parallelism", "tensor_plans.json").read_text("utf-8"))
    return record
