"""What explanations are made of: formulas with their numbers, terms below their component, small tables."""

from collections.abc import Mapping
from html import escape

from planner.chart.formula import formula
from planner.chart.names import COMPONENT_NAMES
from planner.engine.term import Component, Term
from planner.gui.tokens import Tokens
from planner.gui.words import fine_size, strong
from planner.units import SizeUnit, format_size

LARGEST_TERMS = 6
"""So many terms of a component are listed with a phase; all of them, with their formulas, with the component."""
SHOWN_SHARE = 0.02
"""Terms with a smaller part of their component are summed up."""


def component_group(
    component: Component, total: int, terms: list[tuple[Term, int]], unit: SizeUnit, tokens: Tokens
) -> str:
    """One component as a small table; terms too small to matter are summed up."""
    link = f'style="color:{tokens.accent_ink};text-decoration:none;font-weight:600"'
    name = f'<a href="component:{component}" {link}>{escape(COMPONENT_NAMES[component])}</a>'
    rows = [table_row(name, strong(format_size(total, unit)), 0, tokens.label)]
    shown = [pair for pair in terms if pair[1] >= total * SHOWN_SHARE][:LARGEST_TERMS]
    rows += [table_row(escape(term.name), escape(format_size(size, unit)), 12, tokens.muted) for term, size in shown]
    if len(shown) < len(terms):
        rest = sum(size for _, size in terms) - sum(size for _, size in shown)
        count = len(terms) - len(shown)
        rows.append(
            table_row(
                f"{count} smaller {'one' if count == 1 else 'ones'}", escape(format_size(rest, unit)), 12, tokens.muted
            )
        )
    return table_of(rows)


def amounts_table(label: str, amounts: Mapping[str, int], unit: SizeUnit, tokens: Tokens) -> str:
    rows = sorted(amounts.items(), key=lambda row: -row[1])
    total = sum(size for _, size in rows)
    heading = f"{label}: {format_size(total, unit)}"
    return f'<p style="color:{tokens.label}">{strong(heading)}</p>{size_table(rows, unit, tokens)}'


def term_html(term: Term, unit: SizeUnit, tokens: Tokens) -> str:
    size = fine_size(int(term.bytes), unit)
    derived = "".join(
        f'<br><span style="color:{tokens.muted}">{escape(factor.name)} = {escape(factor.how)}</span>'
        for factor in term.factors
        if factor.how
    )
    return (
        f'<p style="margin-top:10px">{strong(term.name)}<br>{escape(formula(term))}'
        f"<br>= {strong(size)}{derived}"
        f'<br><span style="color:{tokens.muted}">{escape(term.source)}</span></p>'
    )


def size_table(rows: list[tuple[str, int]], unit: SizeUnit, tokens: Tokens) -> str:
    return table_of([table_row(escape(name), escape(format_size(size, unit)), 0, tokens.label) for name, size in rows])


def text_table(rows: list[tuple[str, str]], tokens: Tokens) -> str:
    return table_of([table_row(escape(name), escape(text), 0, tokens.label) for name, text in rows])


def table_of(rows: list[str]) -> str:
    return f'<table width="100%" cellspacing="0" cellpadding="1">{"".join(rows)}</table>'


def table_row(name: str, size: str, indent: int, colour: str) -> str:
    return (
        f'<tr><td style="color:{colour};padding-left:{indent}px">{name}</td>'
        f'<td align="right" style="padding-left:8px;white-space:nowrap">{size}</td></tr>'
    )


def paragraph(text: str, tokens: Tokens) -> str:
    return f'<p style="color:{tokens.muted}">{escape(text)}</p>'
