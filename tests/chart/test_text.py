"""Shortening and wrapping, with a measure of ten pixels a character."""

from hypothesis import given
from hypothesis import strategies as st

from planner.chart.text import elide, one_line, wrap, wraps_whole


def measure(text: str, size: float, bold: bool) -> float:  # noqa: ARG001
    return 10.0 * len(text)


def wrapped(text: str, width: float, lines: int) -> tuple[str, ...]:
    return wrap(text, width, lines, 12, False, measure)


def test_a_text_that_fits_is_left_alone() -> None:
    assert elide("L40S", 40, 12, False, measure) == "L40S"


def test_a_long_text_keeps_its_beginning() -> None:
    assert elide("NVIDIA L40S", 80, 12, False, measure) == "NVIDIA…"


def test_where_nothing_fits_nothing_is_shown() -> None:
    assert elide("L40S", 5, 12, False, measure) == ""


def test_an_accent_or_a_joined_emoji_is_not_torn_off() -> None:
    assert elide("abe\u0301xyz", 40, 12, False, measure) == "ab…"
    assert elide("ab\U0001f469\u200d\U0001f680xyz", 50, 12, False, measure) == "ab…"


def test_lines_break_at_spaces() -> None:
    assert wrapped("Design & validation", 100, 2) == ("Design &", "validation")


def test_a_soft_hyphen_shows_only_where_the_line_breaks() -> None:
    assert wrapped("Data pre\u00adprocessing", 100, 2) == ("Data pre-", "processing")
    assert wrapped("Data pre\u00adprocessing", 200, 2) == ("Data preprocessing",)


def test_chinese_breaks_between_characters() -> None:
    assert wrapped("低秩适配四比特量化", 50, 2) == ("低秩适配四", "比特量化")


def test_a_model_path_breaks_after_its_marks() -> None:
    assert wrapped("meta-llama/Llama-3.1-8B", 130, 2) == ("meta-llama/", "Llama-3.1-8B")


def test_what_does_not_fit_the_last_line_is_elided() -> None:
    assert wrapped("one two three four", 70, 2) == ("one two", "three…")


def test_a_broken_word_is_told_from_a_whole_one() -> None:
    assert wraps_whole("Fine-tuning", 70, 2, 12, False, measure)
    assert not wraps_whole("Evaluation", 70, 2, 12, False, measure)


@given(st.text(max_size=80), st.floats(min_value=0, max_value=400), st.integers(min_value=1, max_value=4))
def test_no_line_is_wider_than_allowed(text: str, width: float, lines: int) -> None:
    result = wrapped(one_line(text), width, lines)
    assert len(result) <= lines
    assert all(measure(line, 12, False) <= width for line in result)


@given(st.text())
def test_one_line_leaves_nothing_that_xml_refuses(text: str) -> None:
    from xml.etree.ElementTree import fromstring
    from xml.sax.saxutils import escape

    fromstring(f"<t>{escape(one_line(text))}</t>")
