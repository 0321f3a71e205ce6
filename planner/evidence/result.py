"""One expectation of a case, and what the engine says."""

from dataclasses import dataclass

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Result:
    """`error` is relative and signed, for numbers only: +0.1 is an estimate 10 % too high."""

    path: str
    expected: Value
    estimated: Value | None
    error: float | None
