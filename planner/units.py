"""Bytes inside, GiB outside: the only place where the two meet."""

from typing import Literal

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4
GB = 1000**3

SizeUnit = Literal["GiB", "GB"]
BYTES_PER_UNIT: dict[SizeUnit, int] = {"GiB": GIB, "GB": GB}


def in_unit(size_bytes: float, unit: SizeUnit = "GiB") -> float:
    """`size_bytes` expressed in `unit`; GiB is 2^30 bytes, GB is 10^9 bytes."""
    return size_bytes / BYTES_PER_UNIT[unit]


def format_size(size_bytes: float, unit: SizeUnit = "GiB", digits: int = 1, *, with_unit: bool = True) -> str:
    """A size for people, such as `59.1 GiB`. A size too small to show but not zero reads `<0.1`."""
    value = in_unit(size_bytes, unit)
    smallest = 10**-digits
    text = f"<{smallest:.{digits}f}" if 0 < value < smallest / 2 else f"{value:.{digits}f}"
    return f"{text} {unit}" if with_unit else text


def format_count(count: int) -> str:
    """A count for people, such as `8.03 B` parameters, in powers of ten."""
    for scale, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= scale:
            return f"{count / scale:.2f} {letter}"
    return str(count)
