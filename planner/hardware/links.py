"""The link between a GPU and its server, by architecture."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from planner.hardware.records import read_catalogue_file
from planner.hardware.sources import Source, cited, read_sources


@dataclass(frozen=True, slots=True)
class Link:
    """At best: the newest generation with sixteen lanes, one way, in decimal GB/s."""

    name: str
    gb_per_s: float
    sources: tuple[Source, ...]


@cache
def load_links() -> Mapping[str, Link]:
    """Read `resources/hardware/links.json`: links by architecture."""
    content = read_catalogue_file("links.json", "vram-planner/links")
    sources = read_sources(content)
    links: dict[str, Link] = {}
    for record in content.records("links"):
        architecture = record.text("architecture")
        if architecture in links:
            raise record.wrong("architecture", f"'{architecture}' is listed twice")
        links[architecture] = Link(record.text("name"), record.number("gb_per_s"), cited(record, sources))
        record.close()
    content.close()
    return MappingProxyType(links)
