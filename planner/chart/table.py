"""The chart in words: a table for copying, and a description for screen readers and picture files."""

from html import escape

from planner.chart.numbers import size_text
from planner.chart.spec import Bar, ChartSpec, Kind, Resource

_TOTALS: dict[Resource, tuple[str, ...]] = {
    "vram": ("Peak", "Low", "High"),
    "host_ram": ("Held", "With page cache"),
    "storage": ("Stored",),
}
_HEADS: dict[Kind, str] = {"bars": "Phase", "steps": "Moment", "curve": "Value"}
_TOTALS_OF_MOMENTS = ("Total",)
_OFFERS: dict[Resource, tuple[str, str]] = {
    "vram": ("GPU", "Usable"),
    "host_ram": ("Server", "Offered"),
    "storage": ("Disks", "Offered"),
}
"""The head of the capacities in a table."""
_OFFERED: dict[Resource, str] = {"vram": "Usable memory", "host_ram": "Offered", "storage": "Offered"}


def chart_table(spec: ChartSpec) -> str:
    """The chart as a table, columns divided by tabs, as spreadsheets and documents paste it.

    One row per phase with its components, total, band and verdict, or per moment; then one row per capacity.
    """
    unit = spec.axis.unit
    components = [entry.component for entry in spec.legend]
    head = [_HEADS[spec.kind], *(f"{entry.name} ({unit})" for entry in spec.legend)]
    totals = _TOTALS_OF_MOMENTS if spec.kind == "steps" else _TOTALS[spec.resource]
    rows = [[*head, *(f"{name} ({unit})" for name in totals), "Verdict"]]
    for bar in spec.bars:
        sizes = {segment.component: segment.size_bytes for segment in bar.segments}
        numbers = [*(sizes.get(component, 0) for component in components), *_totals(spec, bar)]
        rows.append([_full_name(bar), *(size_text(number, unit) for number in numbers), bar.note or bar.verdict])
    if spec.capacities:
        what, offer = _OFFERS[spec.resource]
        rows += [[], [what, f"{offer} ({unit})"]]
        rows += [[line.name, size_text(line.capacity_bytes, unit)] for line in spec.capacities]
    return "\n".join("\t".join(row) for row in rows) + "\n"


def chart_html(spec: ChartSpec) -> str:
    """The same table as a piece of HTML, for documents that paste tables."""
    rows = (line.split("\t") for line in chart_table(spec).splitlines() if line)
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table border='1'>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def chart_description(spec: ChartSpec) -> str:
    """The chart in sentences."""
    unit = spec.axis.unit
    heading = ". ".join(text for text in (spec.title, spec.subtitle) if text)
    sentences = [f"{heading}."] if heading else []
    for bar in spec.bars:
        if bar.note:
            sentences.append(f"{_full_name(bar)}: {bar.note}.")
            continue
        parts = ", ".join(f"{segment.name} {segment.label}" for segment in bar.segments)
        held = f" ({parts})" if parts else ""
        verdict = f"; {bar.verdict}" if bar.verdict else ""
        sentences.append(f"{_full_name(bar)}: {bar.total_label} {unit}{held}{verdict}.")
    if spec.capacities:
        sentences.append(f"{_OFFERED[spec.resource]}: " + "; ".join(line.label for line in spec.capacities) + ".")
    return " ".join(sentences)


def _totals(spec: ChartSpec, bar: Bar) -> tuple[int, ...]:
    """What `_TOTALS` and `_TOTALS_OF_MOMENTS` name."""
    if spec.kind == "steps" or spec.resource == "storage":
        return (bar.total_bytes,)
    return (bar.total_bytes, bar.low_bytes, bar.high_bytes)[:: 2 if spec.resource == "host_ram" else 1]


def _full_name(bar: Bar) -> str:
    return f"{bar.name} ({bar.caption})" if bar.caption else bar.name
