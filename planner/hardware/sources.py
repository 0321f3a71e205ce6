"""Where a figure comes from, and whether somebody else can look it up there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from planner.errors import CatalogueError
from planner.hardware.records import Record
from planner.units import GIB, MIB


@dataclass(frozen=True, slots=True)
class Source:
    """A document that states a figure. `verified` is false where nobody knows any more which document it was."""

    text: str
    verified: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """One size of memory as a tool printed it, with who reported it and under which condition.

    Tools print GiB with two decimals at most. Such a size is rounded down to whole MiB here, so it may still
    stand up to 5 MiB above the true one.
    """

    size_bytes: int
    condition: str
    sources: tuple[Source, ...]
    count: int
    """How many independent documents report it; documents that nobody can name share one source."""

    @property
    def verified(self) -> bool:
        return any(source.verified for source in self.sources)


def gib_to_bytes(size_gib: float) -> int:
    """A printed GiB figure in bytes, rounded down to whole MiB."""
    return int(size_gib * (GIB // MIB)) * MIB


def read_sources(content: Record) -> dict[str, Source]:
    """The table of sources at the head of a catalogue file."""
    table = content.record("sources")
    sources = {}
    for key in table.names():
        entry = table.record(key)
        sources[key] = Source(entry.text("text"), entry.flag("verified", True))
        entry.close()
    return sources


def cited(record: Record, sources: Mapping[str, Source]) -> tuple[Source, ...]:
    """The sources a record names; a record without any is an error."""
    keys = record.texts("sources")
    if not keys:
        raise CatalogueError(f"{record.where} has no source.")
    try:
        return tuple([sources[key] for key in keys])
    except KeyError as error:
        raise CatalogueError(f"{record.where} names the source {error}, which the file does not list.") from error


def read_report(record: Record, unit: str, sources: Mapping[str, Source]) -> Report:
    """A report whose size stands in the field `mib` or `gib`."""
    size = record.number(unit)
    if not size:
        raise record.wrong(unit, "is 0; a report needs a size")
    by = cited(record, sources)
    report = Report(
        size_bytes=int(size) * MIB if unit == "mib" else gib_to_bytes(size),
        condition=record.text("condition", ""),
        sources=by,
        count=record.whole("count", len(by)),
    )
    record.close()
    return report


def read_reports(records: Iterable[Record], unit: str, sources: Mapping[str, Source]) -> tuple[Report, ...]:
    """Reports from the smallest size to the largest."""
    reports = [read_report(record, unit, sources) for record in records]
    reports.sort(key=lambda report: report.size_bytes)
    return tuple(reports)
