"""What a picture on paper says of itself: the model, what was assumed, the date, and whose figures these are."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from planner import __version__
from planner.chart.names import PHASE_NAMES
from planner.chart.spec import ChartSpec
from planner.engine.plan import PHASES, PhaseName, Plan
from planner.report.assumptions import SEPARATOR, assumptions
from planner.report.catalogue import catalogue_date
from planner.report.parts import Assumption
from planner.scenario import Scenario
from planner.units import format_count

ALWAYS_SAID = frozenset(
    {
        "precision", "optimizer", "micro_batch_size", "sequence_length", "activation_checkpointing", "method",
        "batch_size", "engine", "weights", "kv_cache_dtype", "concurrent_sequences", "context_length", "samples",
    }
)  # fmt: skip
"""The settings that decide most, said even where they are defaults; of others only what is stated."""
_KEY = re.compile(r" \([\w.+-]+\)$")
"""What a choice is called in files, behind its label."""
_LEFT_OUT = ("parallelism.pipeline_interleave", "framework_version")


def imprint(scenario: Scenario, plan: Plan, charts: Iterable[ChartSpec], created: datetime) -> tuple[str, ...]:
    """Lines for below the charts: one for the model, one for each phase that is drawn, and one for the date."""
    drawn = {bar.phase for chart in charts for bar in chart.bars}
    rows = assumptions(scenario)
    model = plan.model
    active = "" if model.active_parameters == model.parameters else f", {format_count(model.active_parameters)} active"
    return (
        f"Plan: {plan.name or 'without a name'} · {format_count(model.parameters)} parameters{active}",
        *(f"{PHASE_NAMES[name]}: {', '.join(_said(rows, name))}" for name in PHASES if name in drawn),
        f"{created:%Y-%m-%d} · VRAM Planner {__version__} · hardware catalogue of {catalogue_date()}",
    )


def _said(rows: Iterable[Assumption], phase: PhaseName) -> Iterator[str]:
    """`micro-batch 1 sequences`, and of flags only those that are set."""
    start = f"phases.{phase}."
    for row in rows:
        name = row.path.removeprefix(start)
        if not row.path.startswith(start) or name in _LEFT_OUT:
            continue
        usual = row.value in ("no", "1", "0", "none", "automatic") and name not in ALWAYS_SAID
        if (row.stated and not usual) or name in ALWAYS_SAID:
            inner = row.where.split(SEPARATOR)[2:]
            label = " ".join((*inner, row.label))
            value = _KEY.sub("", row.value)
            text = label if value == "yes" else f"{label} {value} {row.unit}".rstrip()
            yield text[:1].lower() + text[1:] if not text.split()[0].isupper() else text
