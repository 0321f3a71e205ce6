"""Every issue has words, and every word has an issue."""

import re
from pathlib import Path

import planner.scenario
from planner.scenario import Issue, issue_text
from planner.scenario.texts import TEXTS

SOURCES = "".join(path.read_text("utf-8") for path in Path(planner.scenario.__file__).parent.rglob("*.py"))


def test_every_code_that_rules_use_has_a_text() -> None:
    used = set(re.findall(r'(?:Issue|\.issue|yield Issue)\(\s*"([a-z0-9_]+)"', SOURCES))
    assert used - {"out_of_range"} <= set(TEXTS)


def test_every_text_belongs_to_a_code_that_is_used() -> None:
    unused = [code for code in TEXTS if len(re.findall(rf'"{code}"', SOURCES)) < 2]
    assert unused == []


def test_a_code_without_words_still_says_something() -> None:
    assert issue_text(Issue("new", "model")) == "This value cannot be used."
