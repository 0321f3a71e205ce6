"""A report as a file; its suffix is the format. An existing file is replaced when all went well."""

from collections.abc import Callable
from pathlib import Path

from planner.errors import PlannerError
from planner.report.parts import Report
from planner.report.progress import Proceed, unwatched
from planner.scenario.files import write_atomically


def check_target(path: Path) -> None:
    """Raises `PlannerError` for a name that stands for no format, before anything is computed."""
    if path.suffix.lower() not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise PlannerError(f"A report cannot be saved as “{path.name}”: choose a name that ends in {known}.")


def write_report(report: Report, path: Path, proceed: Proceed = unwatched) -> None:
    """Write the whole report or nothing. Raises `PlannerError` with what is to be done, and `CalledOffError`."""
    check_target(path)
    write_atomically(path, _FORMATS[path.suffix.lower()](report, proceed))


def _html(report: Report, _proceed: Proceed) -> bytes:
    from planner.report.html import html_report

    return html_report(report).encode()


def _pdf(report: Report, proceed: Proceed) -> bytes:
    from planner.report.pdf import pdf_report

    return pdf_report(report, proceed)


def _markdown(report: Report, _proceed: Proceed) -> bytes:
    from planner.report.markdown import markdown_report

    return markdown_report(report).encode()


def _csv(report: Report, _proceed: Proceed) -> bytes:
    from planner.report.csv import csv_report

    return csv_report(report).encode("utf-8-sig")  # without the mark, Excel takes UTF-8 for something else


def _xlsx(report: Report, _proceed: Proceed) -> bytes:
    from planner.report.xlsx import xlsx_report

    return xlsx_report(report)


def _pptx(report: Report, proceed: Proceed) -> bytes:
    from planner.report.pptx import pptx_report

    return pptx_report(report, proceed)


_FORMATS: dict[str, Callable[[Report, Proceed], bytes]] = {
    ".html": _html,
    ".pdf": _pdf,
    ".md": _markdown,
    ".xlsx": _xlsx,
    ".pptx": _pptx,
    ".csv": _csv,
}
