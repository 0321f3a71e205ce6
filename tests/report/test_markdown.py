import re

from planner.report.markdown import escaped, markdown_report


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_each_table_has_as_many_cells_in_every_row(report):
    width = None
    for line in markdown_report(report).splitlines():
        if line.startswith("|"):
            width = width or len(cells(line))
            assert len(cells(line)) == width
        else:
            width = None


def test_terms_stand_there_with_formula_and_bytes(report):
    text = markdown_report(report)
    assert "| KV cache | KV cache | 32 sequences × 32 layers × 2 K and V × 8 kv heads" in text
    assert "34\u202f359\u202f738\u202f368" in text


def test_hostile_names_come_out_as_text(hostile_report):
    text = markdown_report(hostile_report).split("```json")[0]
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert r"\`x\` \*\*b\*\*" in text
    assert "שלום 🚀" in text


def test_a_line_break_in_a_name_starts_nothing():
    assert escaped("a\n# b\r\n- c") == r"a \# b - c"
