"""What a serving plan answers beside its peak: how the engine divides the GPU, and what the load makes of that."""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.engine.plan import PhasePlan
from planner.units import SizeUnit, format_size

Rows = list[tuple[str, str]]
DIVISION = (
    ("weights_bytes", "Weights"),
    ("activation_bytes", "Working memory of a step"),
    ("non_torch_bytes", "Context and libraries"),
    ("cuda_graph_bytes", "CUDA graphs"),
    ("kv_cache_bytes", "Room for the cache"),
    ("state_bytes", "Recurrent states"),
)
"""Parts of `engine_budget` in the order in which an engine takes them."""
ANSWERS = (
    ("largest_context", "Longest single request", "none fits"),
    ("smallest_tensor_parallel", "GPUs for one copy", "no node"),
    ("replicas", "Copies for all requests", "none fits"),
)
"""Answers of `kv`, what they are called, and what is said where there is none."""
GROUP = "\u202f"


def serving_tables(plan: PhasePlan, judge: str | None, unit: SizeUnit) -> Iterator[tuple[str, Rows]]:
    """Headings with rows of names and finished texts, for the GPU that judges."""
    details = plan.details
    budget = details.get("engine_budget", {}).get(judge)
    if budget is not None:
        yield "Taken by the engine", _division(budget, unit)
    kv = details.get("kv")
    if kv is not None:
        rows = _answers(kv, details["weights"]["bits_per_weight"], judge)
        if rows:
            yield "What it serves", rows


def _division(budget: Mapping[str, int | None], unit: SizeUnit) -> Rows:
    """The engine's own parts, its share of the GPU, and what its process holds once it runs."""
    rows = [(label, _size(budget[name], unit)) for name, label in DIVISION if budget.get(name)]
    reserved, share = budget.get("reserved_bytes"), budget.get("budget_bytes")
    if share is not None and share != budget.get("total_bytes"):
        rows.append(("Its share of the GPU", _size(share, unit)))
    if reserved is not None:
        rows.append(("Reserved once it runs", _size(reserved, unit)))
    return rows


def _answers(kv: Mapping[str, Any], bits: float | None, judge: str | None) -> Rows:
    """Tokens, requests, and GPUs; an answer that is not known is left out, one that does not exist is said."""
    rows: Rows = []
    if bits is not None:
        rows.append(("Bits per weight", f"{bits:g}"))
    if kv["bytes_per_token"]:
        rows.append(("Bytes per token", _number(kv["bytes_per_token"])))
    available = kv["tokens_available"].get(judge)
    if available:
        rows.append(("Tokens that fit", _number(available)))
        rows.append(("Tokens asked for", _number(kv["tokens_needed"])))
        rows.append(("Requests of full length", f"{kv['max_concurrency'][judge]:g}"))
    if kv.get("blocks_available", {}).get(judge) is not None:
        rows.append(("Blocks of the cache", _number(kv["blocks_available"][judge])))
    for name, label, none in ANSWERS:
        value = kv.get(name, {}).get(judge)
        if value is not None:
            rows.append((label, _number(value)))
        elif available is not None:
            rows.append((label, none))
    return rows


def _size(size_bytes: int | None, unit: SizeUnit) -> str:
    return "unknown" if size_bytes is None else format_size(int(size_bytes), unit)


def _number(value: int) -> str:
    return f"{value:,}".replace(",", GROUP)
