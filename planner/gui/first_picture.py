"""The chart of the starting plan, remembered: a new window shows it before the engine is loaded.

`estimate` is a pure function of the plan, the code and the resources, so its chart stays right for as long as none of
these change. The fingerprint sees to that: it holds the size and time of every file of the program.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from planner.chart.spec import Axis, Bar, CapacityLine, ChartSpec, Chip, Crossing, LegendEntry, Segment, Tick
from planner.resources import resources_dir

_PACKAGE = Path(__file__).resolve().parent.parent


def remember(spec: ChartSpec, file: Path | None = None) -> None:
    """Keep the chart for the next start; a place that cannot be written is no harm."""
    path = file or _file()
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        content = json.dumps({"fingerprint": fingerprint(), "chart": asdict(spec)})
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(content, encoding="utf-8")
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def recall(file: Path | None = None) -> ChartSpec | None:
    """The remembered chart, if this very program made it."""
    try:
        content = json.loads((file or _file()).read_text(encoding="utf-8"))
        return _chart(content["chart"]) if content["fingerprint"] == fingerprint() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fingerprint() -> str:
    """Changes with every change of the program's code or resources."""
    seen = sha256()
    for folder in (_PACKAGE, resources_dir()):
        for name, size, changed in _files(str(folder)):
            seen.update(f"{name}\0{size}\0{changed}\n".encode())
    return seen.hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            else:
                stat = entry.stat()
                yield entry.path, stat.st_size, stat.st_mtime_ns


def _file() -> Path:
    """One file for each place the program is installed in."""
    from platformdirs import user_cache_path

    place = sha256(str(_PACKAGE).encode()).hexdigest()[:12]
    return user_cache_path("vram-planner", appauthor=False) / f"first-picture-{place}.json"


def _chart(values: dict[str, Any]) -> ChartSpec:
    return ChartSpec(
        **{
            **values,
            "bars": tuple(_bar(bar) for bar in values["bars"]),
            "capacities": tuple(CapacityLine(**line) for line in values["capacities"]),
            "axis": Axis(**{**values["axis"], "ticks": tuple(Tick(**tick) for tick in values["axis"]["ticks"])}),
            "crossings": tuple(Crossing(**crossing) for crossing in values["crossings"]),
            "legend": tuple(LegendEntry(**entry) for entry in values["legend"]),
        }
    )


def _bar(values: dict[str, Any]) -> Bar:
    segments = tuple(Segment(**segment) for segment in values["segments"])
    return Bar(**{**values, "segments": segments, "chip": Chip(**values["chip"]) if values["chip"] else None})
