"""Figures of a report as text, the same in every format that is read by people."""

from planner.engine.term import Term
from planner.report.parts import PhasePart, Report, Value
from planner.units import SizeUnit, format_size

GROUP = "\u202f"
_DIGITS = 3
ALWAYS = "every moment"


def size(size_bytes: int | None, unit: SizeUnit) -> str:
    """`11.712`, in a table whose head names the unit; a dash for what is not known."""
    if size_bytes is None:
        return "–"
    sign = "−" if size_bytes < 0 else ""
    return sign + format_size(abs(size_bytes), unit, _DIGITS, with_unit=False) if size_bytes else "0"


def cell_text(value: Value, unit: SizeUnit) -> str:
    """A cell of a section."""
    return value if isinstance(value, str) else size(value, unit)


def whole(number: int) -> str:
    """`34 359 738 368`, with narrow spaces that do not break."""
    return f"{number:,}".replace(",", GROUP).replace("-", "−")


def plain(name: str) -> str:
    """A name of the engine, such as `optimizer_step`, as people read it."""
    return name.replace("_", " ")


def moments(term: Term) -> str:
    return ", ".join(plain(name) for name in term.alive)


def held_in(term: Term, part: PhasePart) -> str:
    """When a term is alive, in a word where that is always."""
    if len(part.moments) > 1 and len(term.alive) >= len(part.moments):
        return ALWAYS
    return moments(term)


def derived(term: Term) -> str:
    """How its derived factors came about: `parameters = 8030261248 over 8 ranks`."""
    return "; ".join(f"{factor.name} = {factor.how}" for factor in term.factors if factor.how)


def unit_text(report: Report) -> str:
    """How large the model is, and what the figures mean."""
    model = report.model
    meaning = "2³⁰" if report.unit == "GiB" else "10⁹"
    return (
        f"{whole(model.parameters)} parameters, of which {whole(model.active_parameters)} are active per token. "
        f"{report.unit} is {meaning} bytes; all VRAM figures are per GPU, of the fullest rank."
    )


def source_numbers(report: Report) -> dict[str, int]:
    """By which number each source is cited."""
    return {source: number for number, source in enumerate(report.sources, 1)}
