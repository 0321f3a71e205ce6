"""What a report is made of, as plain values: no format, no layout. All sizes are bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from planner.chart.spec import ChartSpec
from planner.engine.plan import ModelSummary, Moment, Peak, Programme, VerdictKind
from planner.engine.term import Component, Term
from planner.units import SizeUnit


@dataclass(frozen=True, slots=True)
class Template:
    """Who says this, and how far it has got; empty texts are left out of a report."""

    company: str = ""
    author: str = ""
    reviewer: str = ""
    status: str = ""
    notes: str = ""
    logo: Path | None = None
    """A PNG, JPEG or SVG picture."""

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Label and text of what is stated, the logo apart."""
        rows = (
            ("Company", self.company),
            ("Author", self.author),
            ("Reviewer", self.reviewer),
            ("Status", self.status),
            ("Notes", self.notes),
        )
        return tuple(row for row in rows if row[1])


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """Whether one phase fits one GPU, or one server's RAM or disks."""

    phase: str
    where: str
    """The GPU, or what of a server is meant."""
    judge: bool
    verdict: VerdictKind
    text: str
    need_bytes: int
    capacity_bytes: int | None
    headroom_bytes: int | None


@dataclass(frozen=True, slots=True)
class Assumption:
    """One field of the scenario."""

    path: str
    where: str
    """The labels of the parts that it stands in, such as `Training → Parallelism`."""
    label: str
    value: str
    unit: str
    stated: bool
    """False where the default holds."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """How far estimates of this class may be off, and how that is known."""

    case_class: str
    low: float
    high: float
    source: str

    @property
    def text(self) -> str:
        """`training: measured values are expected from −2 % to +15 % of the estimate`."""
        low, high = (f"{100 * (end - 1):+.1f}".replace("-", "−") for end in (self.low, self.high))
        return f"{self.case_class}: measured values are expected from {low}\u202f% to {high}\u202f% of the estimate"


@dataclass(frozen=True, slots=True)
class PhasePart:
    """One phase, or one further group of GPUs that works for it."""

    title: str
    caption: str
    group: str
    peak: Peak
    when: str
    """The moment of the peak in words."""
    components: Mapping[Component, int]
    moments: tuple[Moment, ...]
    terms: tuple[Term, ...]
    """All of them, those of the peak first, each time the largest first within its component."""
    rounding: Mapping[Component, int]
    """What the components at the peak hold beyond the sum of their terms."""
    host_terms: tuple[Term, ...]
    cache_terms: tuple[Term, ...]
    storage_terms: tuple[Term, ...]
    verdicts: tuple[VerdictRow, ...]
    warnings: tuple[str, ...]
    evidence: Evidence | None

    def at_peak(self, term: Term) -> bool:
        return self.peak.moment in term.alive


Value: TypeAlias = str | int
"""A cell of a section: a text, or bytes."""
SectionKind = Literal["fit", "fleet", "alike"]


@dataclass(frozen=True, slots=True)
class Section:
    """A table that stands beside those of the phases, with what is said before it."""

    title: str
    notes: tuple[str, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    kind: SectionKind
    sources: tuple[str, ...] = ()
    """Of rules that the rows cite."""


@dataclass(frozen=True, slots=True)
class Report:
    """A plan, ready to be written down."""

    name: str
    created: datetime
    version: str
    """Of the planner."""
    catalogue: str
    """When the hardware catalogue was compiled."""
    unit: SizeUnit
    template: Template
    model: ModelSummary
    summary: tuple[str, ...]
    """Sentences; the first says whether everything fits, and which phase decides."""
    binding: str
    """The title of the phase that decides."""
    charts: tuple[ChartSpec, ...]
    """The lifecycle first, then host RAM and storage."""
    phases: tuple[PhasePart, ...]
    programme: Programme
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]
    """Of the whole plan; those of a phase stand with it."""
    sources: tuple[str, ...]
    scenario_json: str
    reproduce: tuple[str, ...]
    """What to do to get the same figures again."""
    sections: tuple[Section, ...] = ()
    """What was searched for beside the plan."""
