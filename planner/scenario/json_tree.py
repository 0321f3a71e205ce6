"""Plain JSON values: what may stand in a file that the planner reads."""

from math import isnan
from typing import Any

MAX_DEPTH = 64


def flaw_of(tree: Any) -> str | None:
    """What is wrong with a tree of JSON values, in words; None if nothing is. Never recurses.

    Infinity passes: configurations of Mamba models hold it (`time_step_limit`). Declared numbers refuse it themselves.
    """
    pending = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            return f"It is nested more than {MAX_DEPTH} levels deep."
        match node:
            case dict():
                if not all(isinstance(key, str) for key in node):
                    return "It has names that are not text."
                pending += [(part, depth + 1) for pair in node.items() for part in pair]
            case list():
                pending += [(item, depth + 1) for item in node]
            case str():
                if not node.isascii() and any("\ud800" <= letter <= "\udfff" for letter in node):
                    return "It holds text with half a character (a lone surrogate)."
            case float() if isnan(node):
                return "It holds NaN, which is not a number that can be planned with."
            case int() if abs(node) >= 2**127:
                return "It holds a whole number of more than 38 digits."
            case int() | float() | None:
                pass
            case _:
                return f"It holds a value of type {type(node).__name__}, which JSON does not know."
    return None
