"""The families of the manual form: which dimensions each has, and which keys of a configuration these become."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.errors import ResourceError
from planner.resources import resource

CUSTOM = "custom"
"""No family: a transformer whose every switch is a dimension of its own."""


@dataclass(frozen=True, slots=True)
class Family:
    """One structure. A new one is a record in `resources/models/families.json`."""

    id: str
    label: str
    about: str
    model_type: str
    task: str
    """What it is used for when the form does not say."""
    gated: bool
    head_width: int | None
    """How many times the hidden size its heads are wide together, where their width is left open."""
    keys: Mapping[str, str]
    """Key of the configuration by dimension."""
    fixed: Mapping[str, Any]
    source: str


@cache
def families() -> Mapping[str, Family]:
    """Every family by its id, in the order of the form."""
    path = resource("models", "families.json")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["families"]
        return {item["id"]: Family(**item) for item in found}
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ResourceError(f"The list of families {path} is damaged; please install the planner again.") from problem


def has_dimension(family: str, field: str) -> bool:
    """Whether a dimension means anything in a family."""
    if field in ("family", "task"):
        return True
    if family == CUSTOM:
        return field not in ONLY_IN_FAMILIES
    return field in families()[family].keys


ONLY_IN_FAMILIES = (
    "value_head_dim",
    "rotary_head_dim",
    "kv_rank",
    "query_rank",
    "dense_layers",
    "shared_experts",
    "sliding_window",
    "global_every",
    "state_size",
    "image_size",
    "patch_size",
)
"""Dimensions that the general transformer has not."""
