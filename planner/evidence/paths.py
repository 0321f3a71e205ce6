"""Dotted paths into a plan, such as `phases.training.verdicts.rtx-4090.verdict`."""

from typing import Any


def value_at(tree: Any, path: str) -> Any:
    """What stands at `path`, or None when the plan does not hold it.

    A key may itself contain dots (`phases.serving.verdicts.my.card.verdict`): every way to cut the path is tried,
    the shortest key first. List items are named by their index.
    """
    if isinstance(tree, dict):
        if path in tree:
            return tree[path]
        keys = sorted((key for key in tree if path.startswith(f"{key}.")), key=len)
        found = (value_at(tree[key], path[len(key) + 1 :]) for key in keys)
        return next((value for value in found if value is not None), None)
    if isinstance(tree, list):
        index, _, rest = path.partition(".")
        if index.isdecimal() and int(index) < len(tree):
            return value_at(tree[int(index)], rest) if rest else tree[int(index)]
    return None
