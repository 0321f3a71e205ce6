"""What ranks exchange: bytes that each sends, by operation, and the link that they cross.

Factors are those by which nccl-tests turns the size of an operation into the traffic of the busiest link
(NVIDIA/nccl-tests, doc/PERFORMANCE.md): 2 (n - 1) / n of the whole for an all-reduce, (n - 1) / n for all-gather,
reduce-scatter and all-to-all. Switches that add up in the network (NVLink SHARP) take and give each byte of an
all-reduce once. Between servers, the network of one server carries what all groups of its ranks exchange.
"""

from dataclasses import dataclass
from typing import Literal

from planner.engine.speed.rates import Rates
from planner.engine.speed.work import Work
from planner.engine.term import Factor

Operation = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send"]
NCCL_TESTS = "NVIDIA/nccl-tests, doc/PERFORMANCE.md: bus bandwidth factors"


@dataclass(frozen=True, slots=True)
class Group:
    """`ranks` that exchange. Ranks of other kinds lie nearer together: `inner` GPUs from one of the group to the next.

    Megatron Core counts tensor-parallel ranks first, then context-, data- and pipeline-parallel ones
    (`megatron/core/parallel_state.py`, order `tp-cp-ep-dp-pp`).
    """

    ranks: int
    inner: int = 1

    def within(self, per_server: int) -> int:
        """How many of its ranks share a server."""
        return max(1, min(self.ranks, per_server // self.inner)) if self.inner <= per_server else 1


def exchanged(
    operation: Operation, name: str, size: tuple[Factor, ...], group: Group, rates: Rates, source: str = NCCL_TESTS
) -> tuple[Work, ...]:
    """The works of one operation on `size` bytes: none where a rank is alone."""
    if group.ranks == 1:
        return ()
    near = group.within(rates.per_server)
    works: list[Work] = []
    if near > 1:
        share = _share(operation, near, in_network=rates.adds_in_network)
        works.append(Work("interconnect", name, (*size, share), rates.link, source))
    servers = -(-group.ranks // near)
    if servers > 1:
        groups = Factor("groups in a server", min(group.inner, rates.per_server))
        if operation in ("all-to-all", "send"):
            groups = Factor("GPUs in a server", min(group.inner, rates.per_server) * near)
        across = _share(operation, servers, in_network=False)
        works.append(Work("network", f"{name}, between servers", (*size, across, groups), rates.network, source))
    return tuple(works)


def _share(operation: Operation, ranks: int, *, in_network: bool) -> Factor:
    """The part of the whole that crosses the busiest link."""
    name = f"sent in an {operation}" if operation[0] == "a" else f"sent in a {operation}"
    if operation == "send":
        return Factor(name, 1)
    if operation == "all-reduce":
        if in_network:
            return Factor(name, 1, "added up in the switch")
        return Factor(name, 2 * (ranks - 1) / ranks, f"2 × {ranks - 1} / {ranks}")
    return Factor(name, (ranks - 1) / ranks, f"{ranks - 1} / {ranks}")
