"""What was measured or is usual on hosts and disks, from `resources/host/host.json`, and where terms are alive."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from planner.engine.term import Factor
from planner.resources import resource

HOST = ("host_ram",)
"""Where a term is alive that a process or the driver holds: without room for it the kernel kills somebody."""
CACHED = ("page_cache",)
"""Where a term is alive that the kernel keeps while there is room, and reads from disk again otherwise."""


@dataclass(frozen=True, slots=True)
class Amount:
    """One figure with where it comes from."""

    value: float
    source: str

    def factor(self, name: str) -> Factor:
        return Factor(name, int(self.value) if float(self.value).is_integer() else self.value)


@cache
def amounts() -> Mapping[str, Amount]:
    record = json.loads(resource("host", "host.json").read_text("utf-8"))
    return {name: Amount(**entry) for name, entry in record["amounts"].items()}
