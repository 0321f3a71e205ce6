import csv
from io import StringIO

from planner.report.csv import HEAD, csv_report


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text, newline="")))


def test_each_row_has_every_column(report):
    found = list(csv.reader(StringIO(csv_report(report), newline="")))
    assert tuple(found[0]) == HEAD
    assert {len(row) for row in found} == {len(HEAD)}


def test_terms_at_the_peak_sum_to_the_whole_process(report):
    found = rows(csv_report(report))
    for part in report.phases:
        held = [row for row in found if row["Section"] == "Term at the peak" and row["Phase"] == part.title]
        assert sum(int(row["Value"]) for row in held) == part.peak.process_bytes


def test_no_text_is_taken_for_a_formula(hostile_report):
    for row in csv.reader(StringIO(csv_report(hostile_report), newline="")):
        for cell in row:
            number = cell.lstrip("-").isdigit()
            assert number or not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_hostile_names_keep_their_letters(hostile_report, hostile):
    (name,) = [row["Value"] for row in rows(csv_report(hostile_report)) if row["Item"] == "Name"]
    assert name == f"'{hostile}"
