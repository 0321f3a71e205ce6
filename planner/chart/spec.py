"""A chart as plain data: what is drawn, in bytes and finished texts, before anybody knows about pixels.

Everything that shows a chart reads a `ChartSpec` and nothing else: the painter of pictures, the plot in the window,
the table for copying. The texts in it are final (unit, digits, wording), so that all of them say the same.
"""

from dataclasses import dataclass
from typing import Final, Literal

from planner.engine.plan import PhaseName
from planner.engine.term import Component
from planner.units import SizeUnit

ChipKind = Literal["oom", "tight", "unknown"]
Resource = Literal["vram", "host_ram", "storage"]
"""What a chart is about: memory of a GPU, RAM of a server, or disks."""
WHOLE: Final = "programme"
BarName = PhaseName | Literal["programme"]
"""A phase, or all of them together."""
Kind = Literal["bars", "steps", "curve"]
"""Whether columns are things apart, follow in time and so touch, or are points of a curve."""
Pattern = Literal["solid", "diagonal", "horizontal", "back_diagonal", "cross", "vertical", "grid", "dense_diagonal"]


@dataclass(frozen=True, slots=True)
class Segment:
    """One component's part of a bar, from `start_bytes` upwards."""

    component: Component
    name: str
    start_bytes: int
    size_bytes: int
    label: str
    """The size as text with its unit, for tooltips and tables."""

    @property
    def end_bytes(self) -> int:
        return self.start_bytes + self.size_bytes


@dataclass(frozen=True, slots=True)
class Chip:
    """A verdict worth flagging above a bar, such as `OOM +14.7`. A phase that fits has none."""

    kind: ChipKind
    text: str
    short_text: str
    """For a bar too narrow for `text`."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One phase, a group of GPUs that works for it, or all phases: its segments upwards, and what is said of them."""

    phase: BarName
    name: str
    label: str
    """The name with soft hyphens where `planner.chart.text.wrap` may break it."""
    short_name: str
    """One word, for a narrow column."""
    caption: str
    """A second line under the name, such as `QLoRA` or `32 × 8k`; may be empty."""
    segments: tuple[Segment, ...]
    total_bytes: int
    total_label: str
    """The total as a number without its unit, which the axis names."""
    low_bytes: int
    high_bytes: int
    note: str
    """Said in place of a bar of no height, such as `host RAM only`; empty otherwise."""
    chip: Chip | None
    verdict: str
    """The judge's verdict as a sentence without a full stop; empty if there is no judge."""
    limit_bytes: int | None
    """What the judge gives this phase. A serving engine's budget is lower than the GPU's capacity line."""
    group: str = ""
    """The role whose own GPUs this bar is for; empty for the GPUs that run the phase itself."""
    whisker_label: str = ""
    """Such as `+ 15.0`, where the whisker is an amount of its own instead of an uncertainty."""
    moment: str = ""
    """The moment of the phase that this column is, such as `backward`, or the value of a swept field as text."""
    peak: bool = False
    """Whether this moment is the one at which most is needed."""

    @property
    def key(self) -> str:
        """What tells it from the other bars of its chart."""
        return self.moment or self.phase

    @property
    def overflow(self) -> tuple[int, int] | None:
        """The part of the bar above what the judge gives, to be hatched."""
        if self.limit_bytes is None or self.total_bytes <= self.limit_bytes:
            return None
        return self.limit_bytes, self.total_bytes

    @property
    def label_above(self) -> str:
        """What stands above the bar."""
        if self.peak:
            return f"peak {self.total_label}"
        return f"{self.total_label} {self.whisker_label}" if self.whisker_label else self.total_label

    @property
    def has_band(self) -> bool:
        """Whether a whisker from `low_bytes` to `high_bytes` says anything."""
        return self.total_bytes > 0 and self.high_bytes > self.low_bytes

    @property
    def top_bytes(self) -> int:
        """The highest thing drawn in this bar: its end or its whisker's."""
        return max(self.total_bytes, self.high_bytes if self.has_band else 0)


@dataclass(frozen=True, slots=True)
class CapacityLine:
    """The usable memory of one GPU, or what a server offers, as a horizontal line."""

    gpu: str
    """The catalogue id, as in `Plan.phases[...].verdicts`; for servers, what of them the line is."""
    name: str
    """Short, such as `L40S`."""
    size_label: str
    """Such as `44.4 GiB`."""
    capacity_bytes: int
    judge: bool
    note: str = ""
    """Where the figure is not measured: how it was arrived at."""
    beyond: bool = False
    """So far above every bar that it is drawn at the upper end of the axis, and marked as lying beyond it."""

    @property
    def size_text(self) -> str:
        """The size as the line's label has it."""
        return f"{self.size_label} ↑" if self.beyond else self.size_label

    @property
    def label(self) -> str:
        """Such as `L40S · 44.4 GiB`."""
        return f"{self.name} · {self.size_text}"


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where a curve meets a capacity: the key of the last point that fits, and what is said of it."""

    key: str
    capacity_bytes: int
    label: str
    """Such as `max 6 on H100`."""


@dataclass(frozen=True, slots=True)
class Tick:
    value_bytes: int
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The vertical axis, from zero to `maximum_bytes`; `label` is plain text with the unit in it."""

    label: str
    unit: SizeUnit
    ticks: tuple[Tick, ...]
    maximum_bytes: int


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A component that occurs in the chart, in the order of the stack from the axis upwards."""

    component: Component
    name: str
    colour: str
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """Stacked bars against what the chosen GPUs or servers offer.

    One per phase and per further group of GPUs; or, as steps that touch, one per moment of a phase; or points of a
    curve, one per value of a swept field, without segments.
    """

    title: str
    subtitle: str
    bars: tuple[Bar, ...]
    capacities: tuple[CapacityLine, ...]
    """From the smallest to the largest."""
    axis: Axis
    legend: tuple[LegendEntry, ...]
    footnote: str = ""
    resource: Resource = "vram"
    kind: Kind = "bars"
    crossings: tuple[Crossing, ...] = ()
    """Of a curve."""
    current: str = ""
    """The key of the point of a curve that is the plan as it is."""

    @property
    def judge(self) -> CapacityLine | None:
        return next((line for line in self.capacities if line.judge), None)
