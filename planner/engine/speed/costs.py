"""What GPUs cost while a phase runs at its best. Prices are what the scenario states; none is built in."""

from collections.abc import Iterator

from planner.engine.speed.speed import HOUR, MILLION, Figure, shown
from planner.scenario.hardware import Hardware


def costs_of(
    hardware: Hardware, gpus: int, seconds: float, what: str, made: float, unit: str, total: float | None = None
) -> tuple[Figure, ...]:
    """Cost of one `what`, of a million of what it makes, and of `total` of these; none without a price."""
    return tuple(_costs(hardware, gpus, seconds, what, made, unit, total))


def _costs(
    hardware: Hardware, gpus: int, seconds: float, what: str, made: float, unit: str, total: float | None
) -> Iterator[Figure]:
    if hardware.price is None:
        return
    each = seconds / HOUR * gpus * hardware.price
    how = f"{shown(seconds)} s / 3600 × {gpus} GPUs × {hardware.price:g}"
    yield Figure(f"cost per {what}", each, hardware.currency, how)
    yield Figure(f"cost per million {unit}", each / made * MILLION, hardware.currency,
                 f"{shown(each)} / {shown(made)} {unit} × 1,000,000")  # fmt: skip
    if total is not None:
        yield Figure("cost of the run", each / made * total, hardware.currency,
                     f"{shown(each)} / {shown(made)} × {shown(total)} {unit}")  # fmt: skip
