"""A fleet for programs: the public format `vram-planner/fleet`, version 1."""

from collections.abc import Iterable
from typing import Any

from planner.engine.fleet import Answer, Found, Row, scenario_with
from planner.scenario import Scenario


def fleet_json(rows: Iterable[Row], scenario: Scenario) -> dict[str, Any]:
    """Rows in the order given. `scenario` is the plan with the phase laid out so; null where nothing fits."""
    return {"format": "vram-planner/fleet", "version": 1, "gpus": [_row(row, scenario) for row in rows]}


def _row(row: Row, scenario: Scenario) -> dict[str, Any]:
    return {
        "gpu": row.gpu.id,
        "name": row.gpu.full_title,
        "gpus": row.gpus,
        "memory_bytes": row.total_bytes,
        "binding_phase": row.binding,
        "phases": {phase: _answer(answer, scenario) for phase, answer in row.answers.items()},
    }


def _answer(answer: Answer, scenario: Scenario) -> dict[str, Any]:
    return {
        "best": None if answer.best is None else _found(answer, answer.best, scenario),
        "front": [_found(answer, found, scenario) for found in answer.front],
        "why": answer.why or None,
        "refused_by": None if answer.refusal is None else answer.refusal.code,
        "gpus_per_node": answer.per_server,
    }


def _found(answer: Answer, found: Found, scenario: Scenario) -> dict[str, Any]:
    layout = found.layout
    return {
        "gpus": found.gpus,
        "layout": layout.text,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "data": layout.data,
        "context": layout.context,
        "expert": layout.expert,
        "process_bytes": found.process_bytes,
        "headroom_bytes": found.headroom_bytes,
        "scenario": scenario_with(scenario, answer.gpu, found.edits, found.gpus, answer.per_server).to_document(),
    }
