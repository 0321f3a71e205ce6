"""The answers of the fleet in words: short ones for pills, sentences for those who point at them."""

from planner.chart.names import PHASE_NAMES
from planner.engine.fleet import Answer, Row
from planner.engine.plan import PhaseName
from planner.hardware import Gpu
from planner.units import SizeUnit, format_size

NOT_YET = "…"


def pill_text(answer: Answer | None, *, known: bool = True) -> str:
    """The answer in short; `?` where it is not `known` how much of the GPU's memory is usable."""
    if answer is None:
        return NOT_YET
    return answer.short if known else "?"


def answer_sentence(gpu: Gpu, phase: PhaseName, answer: Answer | None, unit: SizeUnit) -> str:
    """`Training fits 4 × L40S: DP 4 · ZeRO-3, 3.1 GiB of each stay free.`"""
    name = PHASE_NAMES[phase]
    if answer is None:
        return f"{name} has not been looked at yet."
    if answer.best is None:
        return f"{name} does not fit {gpu.title}: {answer.why}"
    free = format_size(answer.best.headroom_bytes, unit)
    layout = answer.best.layout.text
    if answer.best.gpus == 1:
        with_what = "" if layout == "one GPU" else f" with {layout}"
        return f"{name} fits one {gpu.title}{with_what}: {free} stay free."
    return f"{name} fits {answer.best.gpus} × {gpu.title}: {layout}; {free} of each stay free."


def programme_sentence(row: Row, *, complete: bool, unit: SizeUnit) -> str:
    """`4 × L40S (192 GiB) run every phase; training needs most of them.`"""
    if not complete or row.binding is None:
        return "Not all phases have been looked at yet."
    name = PHASE_NAMES[row.binding]
    if row.gpus is None or row.total_bytes is None:
        return f"Not every phase fits {row.gpu.title}: {name.lower()} does not. {row.answers[row.binding].why}"
    bought = format_size(row.total_bytes, unit, digits=0)
    if row.gpus == 1:
        return f"One {row.gpu.title} ({bought}) runs every phase."
    return f"{row.gpus} × {row.gpu.title} ({bought}) run every phase; {name.lower()} needs most of them."
