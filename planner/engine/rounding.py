"""Integer steps that work alike on one number and on arrays over a sweep."""

from typing import Any

import numpy as np

from planner.engine.term import Number


def ceil_div(value: Number, divisor: Number) -> Any:
    """`value / divisor`, rounded up; exact for ints."""
    return -(-value // divisor)


def round_up(value: Number, step: Number) -> Any:
    """The next multiple of `step` that is not below `value`."""
    return ceil_div(value, step) * step


def smaller(first: Number, second: Number) -> Any:
    """The smaller of two, element by element; ints stay ints."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.minimum(first, second)
    return min(first, second)


def larger(first: Number, second: Number) -> Any:
    """The larger of two, element by element; ints stay ints."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.maximum(first, second)
    return max(first, second)
