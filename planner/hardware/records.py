"""Reading catalogue files strictly: every field has its type, and a field nobody knows is an error that names it."""

import json
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

from planner.errors import CatalogueError
from planner.resources import resource


class Record:
    """One JSON object whose fields are taken one by one; `close` refuses what nobody took.

    The thousand records of the catalogue are read at every start, so the usual way is short and
    the place of a record is put into words only for an error.
    """

    __slots__ = ("_fields", "_parent", "_step")

    def __init__(self, value: object, step: str, parent: "Record | None" = None) -> None:
        self._step = step
        self._parent = parent
        if not isinstance(value, dict):
            raise CatalogueError(f"{self.where} must be an object, not {_kind(value)}.")
        self._fields: dict[str, Any] = dict(value)

    @property
    def where(self) -> str:
        """The place of this record, such as `gpus.json, gpus[3], memory`."""
        return f"{self._parent.where}, {self._step}" if self._parent else self._step

    def names(self) -> tuple[str, ...]:
        """The fields that nobody has taken yet."""
        return tuple(self._fields)

    def wrong(self, key: str, problem: str) -> CatalogueError:
        """The error to raise for a field of this record."""
        return CatalogueError(f"{self.where}: '{key}' {problem}.")

    def text(self, key: str, default: str | None = None) -> str:
        value = self._fields.pop(key, default)
        if type(value) is str and (value or default is not None):
            return value
        raise self.wrong(key, "is missing" if value is None else f"must be a text, not {_kind(value)}")

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in allowed:
            raise self.wrong(key, f"is '{value}'; it must be one of {', '.join(allowed)}")
        return value

    def number(self, key: str, *, minimum: float = 0.0) -> float:
        value = self._fields.pop(key, None)
        if type(value) not in (int, float) or not isfinite(value):
            raise self.wrong(key, "is missing" if value is None else f"must be a number, not {_kind(value)}")
        if value < minimum:
            raise self.wrong(key, f"is {value}; it must be at least {minimum:g}")
        number: float = value
        return number

    def optional_number(self, key: str) -> float | None:
        return self.number(key) if key in self._fields else None

    def whole(self, key: str, default: int | None = None) -> int:
        if default is not None and key not in self._fields:
            return default
        value = self.number(key)
        if not isinstance(value, int):
            raise self.wrong(key, f"is {value}; it must be a whole number")
        return value

    def optional_whole(self, key: str) -> int | None:
        return self.whole(key) if key in self._fields else None

    def flag(self, key: str, default: bool) -> bool:
        value = self._fields.pop(key, default)
        if type(value) is bool:
            return value
        raise self.wrong(key, f"must be true or false, not {_kind(value)}")

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty where the field is absent."""
        values = self._list(key)
        if any(type(value) is not str for value in values):
            raise self.wrong(key, "must be a list of texts")
        return tuple(values)

    def record(self, key: str) -> "Record":
        return Record(self._fields.pop(key, None), key, self)

    def optional_record(self, key: str) -> "Record | None":
        return self.record(key) if key in self._fields else None

    def records(self, key: str) -> Iterable["Record"]:
        """The objects of a list; none where the field is absent."""
        return [Record(value, f"{key}[{index}]", self) for index, value in enumerate(self._list(key))]

    def close(self) -> None:
        if self._fields:
            raise CatalogueError(f"{self.where}: unknown field {', '.join(repr(key) for key in self._fields)}.")

    def _list(self, key: str) -> list[Any]:
        values = self._fields.pop(key, None)
        if values is None:
            return []
        if not isinstance(values, list):
            raise self.wrong(key, f"must be a list, not {_kind(values)}")
        return values


def read_catalogue_file(name: str, format_name: str, version: int = 1) -> Record:
    """The content of one file of `resources/hardware/`, after a look at its format and version.

    Its `about` is meant for those who edit the file, and is not kept.
    """
    path = resource("hardware", name)
    content = Record(_parse(path), name)
    found = (content.text("format"), content.whole("version"))
    if found != (format_name, version):
        raise CatalogueError(
            f"{name} is '{found[0]}' version {found[1]}, but this program reads '{format_name}' version {version}."
        )
    content.text("about")
    return content


def _parse(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CatalogueError(f"The hardware catalogue {path} cannot be read: {error}") from error


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "an object")
