"""The chart in words: a table for copying, and a description for screen readers and picture files."""

from planner.chart.numbers import size_text
from planner.chart.spec import Bar, ChartSpec


def chart_table(spec: ChartSpec) -> str:
    """The chart as a table, columns divided by tabs, as spreadsheets and documents paste it.

    One row per phase with its components, total, band and verdict; then one row per GPU with its usable memory.
    """
    unit = spec.axis.unit
    components = [entry.component for entry in spec.legend]
    head = ["Phase", *(f"{entry.name} ({unit})" for entry in spec.legend)]
    rows = [[*head, f"Peak ({unit})", f"Low ({unit})", f"High ({unit})", "Verdict"]]
    for bar in spec.bars:
        sizes = {segment.component: segment.size_bytes for segment in bar.segments}
        numbers = [*(sizes.get(component, 0) for component in components), bar.total_bytes, bar.low_bytes]
        rows.append(
            [
                _full_name(bar),
                *(size_text(number, unit) for number in (*numbers, bar.high_bytes)),
                bar.note or bar.verdict,
            ]
        )
    if spec.capacities:
        rows += [[], ["GPU", f"Usable ({unit})"]]
        rows += [[line.name, size_text(line.capacity_bytes, unit)] for line in spec.capacities]
    return "\n".join("\t".join(row) for row in rows) + "\n"


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
        verdict = f"; {bar.verdict}" if bar.verdict else ""
        sentences.append(f"{_full_name(bar)}: {bar.total_label} {unit} ({parts}){verdict}.")
    if spec.capacities:
        sentences.append("Usable memory: " + "; ".join(line.label for line in spec.capacities) + ".")
    return " ".join(sentences)


def _full_name(bar: Bar) -> str:
    return f"{bar.name} ({bar.caption})" if bar.caption else bar.name
