"""The scenario in a file of slides: a part of custom XML, which PowerPoint keeps when it saves."""

from typing import Any
from xml.sax.saxutils import escape

from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI

from planner.report.opening_pptx import PART, SPACE


def embed(deck: Any, scenario_json: str) -> None:
    text = f'<?xml version="1.0" encoding="UTF-8"?><scenario xmlns="{SPACE}">{escape(scenario_json)}</scenario>'
    part = Part(PackURI(f"/{PART}"), "application/xml", deck.part.package, text.encode())
    deck.part.relate_to(part, RELATIONSHIP_TYPE.CUSTOM_XML)
