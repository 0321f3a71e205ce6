"""How a report that takes long tells how far it is, and is called off."""

from collections.abc import Callable
from typing import TypeAlias

Proceed: TypeAlias = Callable[[int, int], None]
"""Told how many parts are done, of how many. Raises `CalledOffError` where nobody wants the rest."""


class CalledOffError(Exception):
    """Nobody wants the report any more; nothing was written."""


def unwatched(_done: int, _parts: int) -> None:
    """Goes on whatever happens."""
