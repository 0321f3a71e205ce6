"""The chart in words."""

from collections.abc import Callable

from planner.chart.spec import ChartSpec
from planner.chart.table import chart_description, chart_table

Chart = Callable[..., ChartSpec]


def test_the_table_holds_every_number_of_the_chart(mockup: Chart) -> None:
    rows = [row.split("\t") for row in chart_table(mockup()).splitlines()]
    assert rows[0][:3] == ["Phase", "Weights (GiB)", "Gradients (GiB)"]
    assert rows[3] == [
        "Training", "15.0", "15.0", "11.2", "3.9", "11.7", "0", "2.3", "59.1", "56.1", "62.1",
        "out of memory by 14.7 GiB",
    ]  # fmt: skip
    assert rows[2][-1] == "host RAM only"
    assert rows[6][0] == "Serving (32 × 8k)"
    assert rows[-1] == ["H100", "79.1"]
    assert {len(row) for row in rows[:7]} == {12}


def test_the_description_reads_as_sentences(mockup: Chart) -> None:
    text = chart_description(mockup())
    assert text.startswith("Peak VRAM per GPU by lifecycle phase. Llama 3 8B · judged against L40S (44.4 GiB usable). ")
    assert "Fine-tuning (QLoRA): 21.5 GiB (Weights 5.6 GiB, " in text
    assert "Data preprocessing: host RAM only. " in text
    assert text.endswith("Usable memory: RTX 4090 · 23.5 GiB; L40S · 44.4 GiB; H100 · 79.1 GiB.")
