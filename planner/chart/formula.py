"""The formula of a term as people read it."""

import numpy as np

from planner.engine.term import Factor, Term

GROUP = "\u202f"


def formula(term: Term) -> str:
    """`32 layers × 2 K and V × 8 kv heads`."""
    return " × ".join(f"{number(factor)} {factor.name}" for factor in term.factors)


def number(factor: Factor) -> str:
    """A factor's value: whole numbers grouped, fractions as they are."""
    value = factor.value
    if isinstance(value, np.ndarray):
        raise TypeError("a formula on screen has plain numbers")
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.6g}"
    return f"{int(value):,}".replace(",", GROUP)
