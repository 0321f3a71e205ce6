"""Numbers for people on a chart: round axis ticks, and as many digits as tell something."""

from math import ceil, floor, log10

from planner.chart.spec import Tick
from planner.units import BYTES_PER_UNIT, SizeUnit

_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_WANTED_TICKS = 5


def size_text(size_bytes: float, unit: SizeUnit) -> str:
    """A size in `unit` without naming it: `0`, `0.034`, `14.7`, `10 240`, and `<0.001` for less than can be shown.

    From 1000 upwards there are no decimals and a narrow no-break space divides the thousands; below 0.1 two
    significant digits are kept, so that a tiny model on a huge GPU still has a number.
    """
    value = size_bytes / BYTES_PER_UNIT[unit]
    if value == 0:
        return "0"
    if value < 0:
        return "−" + size_text(-size_bytes, unit)
    if value >= 999.95:
        return f"{value:,.0f}".replace(",", "\u202f")
    if value >= 0.0995:
        return f"{value:.1f}"
    return f"{value:.2g}" if value >= 0.001 else "<0.001"


def axis_ticks(largest_bytes: float, unit: SizeUnit) -> tuple[Tick, ...]:
    """About five ticks from zero, at round numbers of `unit`, the last not beyond `largest_bytes`."""
    scale = BYTES_PER_UNIT[unit]
    largest = largest_bytes / scale
    magnitude = 10.0 ** floor(log10(largest / _WANTED_TICKS))
    step = next(factor * magnitude for factor in _ROUND_STEPS if factor * magnitude >= largest / _WANTED_TICKS * 0.999)
    digits = max(0, ceil(-log10(step)) + (1 if round(step / magnitude, 1) == 2.5 else 0))
    return tuple(
        Tick(round(index * step * scale), f"{index * step:,.{digits}f}".replace(",", "\u202f"))
        for index in range(floor(largest / step + 1e-9) + 1)
    )
