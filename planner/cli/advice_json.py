"""Advice for programs: the public format `vram-planner/advice`, version 1."""

from collections.abc import Iterable
from typing import Any

from planner.engine.advisor import Advice, Outcome, Suggestion
from planner.engine.limits import Limit


def advice_json(found: Iterable[tuple[Advice, tuple[Limit, ...]]]) -> dict[str, Any]:
    """Advice and limits by phase. Edits are paths of the scenario with their new values; null means the default."""
    return {
        "format": "vram-planner/advice",
        "version": 1,
        "phases": {advice.phase: _phase(advice, limits) for advice, limits in found},
    }


def _phase(advice: Advice, limits: tuple[Limit, ...]) -> dict[str, Any]:
    bought = advice.purchase
    return {
        "gpu": advice.gpu,
        "before": _outcome(advice.before),
        "suggestions": [_suggestion(item) for item in advice.suggestions],
        "nearly": [_suggestion(item) for item in advice.nearly],
        "purchase": None
        if bought is None
        else {
            "gpu_as_it_is": bought.as_it_is,
            "smallest": None if bought.smallest is None else _suggestion(bought.smallest),
            "gpu_with_smallest": bought.with_smallest,
        },
        "tried": advice.tried,
        "limits": [_limit(item) for item in limits],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    verdict = outcome.verdict
    return {
        "process_bytes": outcome.process_bytes,
        "high_bytes": outcome.high_bytes,
        "verdict": verdict.verdict,
        "capacity_bytes": verdict.capacity_bytes,
        "headroom_bytes": verdict.headroom_bytes,
        "gpus": outcome.gpus,
        "host_ram_bytes": outcome.host_ram_bytes,
        "speed": None if outcome.speed is None else outcome.speed.summary(),
    }


def _suggestion(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "title": suggestion.title,
        "level": suggestion.level,
        "changes": [
            {
                "id": change.id,
                "title": change.title,
                "level": change.level,
                "costs": change.costs,
                "source": change.source,
            }
            for change in suggestion.changes
        ],
        "edits": [{"path": ".".join(map(str, path)), "value": value} for path, value in suggestion.edits],
        "after": _outcome(suggestion.after),
    }


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "field": limit.field,
        "largest": limit.largest,
        "bound": limit.bound,
        "next_value": limit.next_value,
        "need_bytes": limit.need_bytes,
        "headroom_bytes": limit.headroom_bytes,
    }
