import json
import re

import html5lib
import pytest

from planner.report.html import SCENARIO_ID, html_report

SPACE = {"h": "http://www.w3.org/1999/xhtml"}


@pytest.fixture(scope="module")
def page(report) -> str:
    return html_report(report)


def parsed(text: str):
    """Raises for whatever the HTML standard calls a parse error."""
    return html5lib.HTMLParser(strict=True, tree=html5lib.getTreeBuilder("lxml")).parse(text)


def words(tree, xpath: str) -> list[str]:
    return ["".join(found.itertext()).strip() for found in tree.xpath(xpath, namespaces=SPACE)]


def test_the_page_is_valid_html(page):
    tree = parsed(page)
    assert words(tree, "//h:title") == ["Llama 3.1 8B on one node: VRAM report"]
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names))


def test_nothing_is_loaded_from_elsewhere(page):
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert [link for link in links if not link.startswith(("data:", "#"))] == []
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_the_charts_are_drawings_with_real_text(page):
    tree = parsed(page)
    drawings = tree.xpath("//h:figure/*[local-name()='svg']", namespaces=SPACE)
    assert len(drawings) == 3
    texts = ["".join(found.itertext()) for found in drawings[0].iter() if str(found.tag).endswith("}text")]
    assert any("Peak VRAM per GPU" in text for text in texts)
    assert "49.2" in texts


def test_every_term_stands_there_with_its_bytes_and_source(page, report):
    tree = parsed(page)
    told = " ".join(words(tree, "//h:td"))
    sources = words(tree, "//h:li[starts-with(@id, 'source-')]")
    for part in report.phases:
        for term in (*part.terms, *part.host_terms, *part.storage_terms):
            assert f"{int(term.bytes):,}".replace(",", "\u202f") in told
            number = report.sources.index(term.source) + 1
            assert f"[{number}]" in told
            assert sources[number - 1] == term.source.strip()
    assert "32 sequences × 32 layers × 2 K and V × 8 kv heads × 128 head dim × 8\u202f192 tokens × 2 bytes" in told


def test_the_embedded_scenario_is_the_one_that_was_planned(page, report):
    (embedded,) = parsed(page).xpath(f"//h:script[@id='{SCENARIO_ID}']", namespaces=SPACE)
    assert json.loads(embedded.text) == json.loads(report.scenario_json)


def test_hostile_names_come_out_as_text(hostile_report, hostile):
    page = html_report(hostile_report)
    tree = parsed(page)
    assert words(tree, "//h:h1") == [hostile]
    assert [script.get("type") for script in tree.xpath("//h:script", namespaces=SPACE)] == ["application/json"]
    assert words(tree, "//h:dd")[:2] == [hostile, hostile]


def test_a_template_block_left_empty_leaves_no_empty_rows(page):
    assert words(parsed(page), "//h:dl") == []
