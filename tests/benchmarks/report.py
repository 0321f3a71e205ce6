"""A report as PDF, HTML and XLSX ÷ one estimate and one painted chart of the same six-phase plan, four GPUs."""

import itertools
import os
from datetime import UTC, datetime

from estimate import scenarios
from harness import Ratio, compare
from planner.catalog import load_catalog
from planner.chart.build import lifecycle_chart
from planner.engine.estimate import estimate
from planner.scenario import Scenario

GPUS = ("h100-sxm5-80gb", "l40s", "a100-sxm4-80gb", "h200-sxm-141gb")


def measure(rounds: int = 9) -> list[Ratio]:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from planner.chart.paint.export import chart_image
    from planner.report.html import html_report
    from planner.report.pdf import pdf_report
    from planner.report.tables import build_report
    from planner.report.xlsx import xlsx_report

    catalog = load_catalog()
    plans = [scenario.with_value(("hardware", "gpus"), GPUS) for scenario in scenarios()]
    gpus = [catalog.hardware.resolve(name) for name in GPUS]
    ours, theirs = itertools.cycle(plans), itertools.cycle(plans)

    def write(scenario: Scenario) -> None:
        report = build_report(scenario, estimate(scenario, catalog), catalog, created=datetime.now(UTC))
        for make in (pdf_report, html_report, xlsx_report):
            make(report)

    def look(scenario: Scenario) -> None:
        chart_image(lifecycle_chart(estimate(scenario, catalog), gpus=gpus, judge="l40s"))

    return [
        compare(
            "PDF, HTML and XLSX report ÷ estimate and chart",
            lambda: write(next(ours)),
            lambda: look(next(theirs)),
            limit=30,
            rounds=rounds,
            calls=(1, 5),
        )
    ]


if __name__ == "__main__":
    for ratio in measure():
        print(ratio.line())
