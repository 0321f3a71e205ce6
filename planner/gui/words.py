"""Words and sizes as people read them."""

from html import escape

from planner.engine.plan import PhasePlan
from planner.units import BYTES_PER_UNIT, SizeUnit

PLAN_SUFFIX = ".vramplan"
MODEL_SUFFIXES = (".json", ".safetensors", ".gguf")
"""Files that may describe a model; which of them do, their content says."""


def band_text(plan: PhasePlan) -> str:
    """`Uncertainty ±6 %`, or the two ends where they are not alike."""
    peak = plan.peak
    if not peak.process_bytes:
        return ""
    below = 1 - peak.low_bytes / peak.process_bytes
    above = peak.high_bytes / peak.process_bytes - 1
    if abs(below - above) < 0.005:
        return f"Uncertainty ±{100 * above:.0f}\u202f%"
    return f"Uncertainty −{100 * below:.0f} to +{100 * above:.0f}\u202f%"


def fine_size(size_bytes: int, unit: SizeUnit) -> str:
    """A size with two decimals, in a smaller unit of the same family where it is small: `0.48 GiB`, `16.25 MiB`."""
    base = BYTES_PER_UNIT[unit]
    step = 1024 if unit == "GiB" else 1000
    for name in (unit, unit.replace("G", "M"), unit.replace("G", "K" if unit == "GiB" else "k")):
        if size_bytes >= base / 10:
            return f"{size_bytes / base:.2f} {name}"
        base //= step
    return f"{size_bytes} bytes"


def strong(text: str) -> str:
    """Rich text with emphasis, in the weight that the bundled typeface has."""
    return f'<span style="font-weight:600">{escape(text)}</span>'
