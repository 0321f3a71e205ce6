"""How a job lies on nodes, and the processes that it runs there."""

from collections.abc import Iterable
from dataclasses import dataclass

from planner.engine.host.amounts import HOST, amounts
from planner.engine.kv_cache import total_bytes
from planner.engine.rounding import ceil_div, smaller
from planner.engine.term import Factor, Number, Term


@dataclass(frozen=True, slots=True)
class NodeShare:
    """How many processes run on a node, and over how many nodes the job spreads."""

    ranks: Number
    nodes: Number

    @classmethod
    def of(cls, ranks: Number, gpus_per_node: Number) -> "NodeShare":
        return cls(smaller(ranks, gpus_per_node), ceil_div(ranks, gpus_per_node))


def fuller(loading: Iterable[Term], running: Iterable[Term]) -> tuple[Term, ...]:
    """The terms of whichever of two moments needs more; with arrays, of the one that needs more somewhere.

    What the kernel may drop does not decide.
    """
    first, second = tuple(loading), tuple(running)
    return first if _most(first) > _most(second) else second


def _most(terms: Iterable[Term]) -> int:
    size = total_bytes(item for item in terms if item.alive == HOST)
    return int(size) if isinstance(size, int | float) else int(size.max())


def runtime_terms(share: NodeShare) -> tuple[Term, ...]:
    """One process per GPU of the node, with the framework's libraries."""
    runtime = amounts()["runtime"]
    factors = (Factor("processes", share.ranks), runtime.factor("bytes"))
    return (Term("overhead", "processes", factors, HOST, runtime.source),)
