"""How old the facts are that figures rest on."""

import json
from functools import cache

from planner.resources import resource


@cache
def catalogue_date() -> str:
    """When the hardware catalogue was compiled."""
    return str(json.loads(resource("hardware", "gpus.json").read_text("utf-8")).get("as_of", "unknown"))
