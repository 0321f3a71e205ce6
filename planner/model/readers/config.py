"""A configuration whose values are checked as they are read: each error names file, key and what would be right."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from planner.errors import ModelError
from planner.resources import resource

LARGEST_SIZE = 2**31 - 1
Json = Mapping[str, Any]
_NO_TYPE: Json = {}


@cache
def class_defaults() -> Mapping[str, Json]:
    """What the configuration classes of transformers assume for absent keys, by model type."""
    with resource("models", "class-defaults.json").open(encoding="utf-8") as file:
        models: Mapping[str, Json] = json.load(file)["models"]
    return models


class Config:
    """The keys of one `config.json`, or of a part of it, over the defaults of its model type.

    `assumed` collects the keys that the file does not state and that had to be taken from the defaults.
    """

    def __init__(self, values: Json, model_type: str, where: str = "config.json") -> None:
        known = class_defaults().get(model_type, _NO_TYPE)
        self.model_type = model_type
        self.where = where
        self.assumed: list[str] = []
        self._aliases: Json = known.get("aliases", _NO_TYPE)
        self._parts: Json = known.get("parts", _NO_TYPE)
        self._defaults = {self._aliases.get(key, key): value for key, value in known.get("defaults", {}).items()}
        self._values = {self._aliases.get(key, key): value for key, value in values.items()}

    def raw(self, key: str, default: Any = None) -> Any:
        """The value stated for `key`, else the class default, else `default`. Null counts as absent."""
        own = self._aliases.get(key, key)
        value = self._values.get(own)
        if value is not None:
            return value
        if own not in self._values and self._defaults.get(own) is not None:
            self.assumed.append(own)
        # A null overrides the class default, as it does in transformers.
        value = None if own in self._values else self._defaults.get(own)
        return default if value is None else value

    def states(self, key: str) -> bool:
        """Whether the file itself gives a value for `key`."""
        return self._values.get(self._aliases.get(key, key)) is not None

    @property
    def stated(self) -> Json:
        """The keys that the file itself gives."""
        return self._values

    def with_values(self, **values: Any) -> "Config":
        """The same configuration with some values set."""
        changed = Config({**self._values, **values}, self.model_type, self.where)
        changed.assumed = self.assumed
        return changed

    def error(self, key: str, value: object, right: str) -> ModelError:
        shown = repr(value)
        shown = shown if len(shown) <= 40 else shown[:37] + "…"
        return ModelError(f"{self.where}: the key “{key}” is {shown}; it must be {right}.")

    def missing(self, key: str, right: str) -> ModelError:
        return ModelError(
            f"{self.where}: the key “{key}” is missing, which a model of type “{self.model_type}” needs; "
            f"it must be {right}."
        )

    def size(self, key: str, default: int | None = None, minimum: int = 1, maximum: int = LARGEST_SIZE) -> int:
        """A whole number of at least `minimum`."""
        right = f"a whole number from {minimum} to {maximum}"
        value = self.raw(key, default)
        if value is None:
            raise self.missing(key, right)
        return self._whole(key, value, right, minimum, maximum)

    def optional_size(self, key: str, default: int | None = None, minimum: int = 1) -> int | None:
        """A whole number, or None where the key is absent or null."""
        return None if self.raw(key, default) is None else self.size(key, default, minimum)

    def count(self, key: str, default: int | None = 0) -> int:
        """A whole number that may be zero."""
        return self.size(key, default, minimum=0)

    def sizes(self, key: str, length: int | None = None) -> tuple[int, ...]:
        """A list of whole numbers, of `length` entries if told."""
        right = "a list of whole numbers" + ("" if length is None else f", {length} of them")
        value = self.raw(key)
        if value is None:
            raise self.missing(key, right)
        if not isinstance(value, list | tuple) or not value or (length is not None and len(value) != length):
            raise self.error(key, value, right)
        return tuple(self._whole(key, item, right, 0, LARGEST_SIZE) for item in value)

    def texts(self, key: str, length: int | None = None) -> tuple[str, ...] | None:
        """A list of texts, of `length` entries if told; None where absent."""
        value = self.raw(key)
        if value is None:
            return None
        right = "a list of texts" + ("" if length is None else f", one for each of {length} layers")
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise self.error(key, value, right)
        if length is not None and len(value) != length:
            raise self.error(key, value, right)
        return tuple(value)

    def number(self, key: str, default: float | None = None, minimum: float = 0.0, maximum: float = 1e9) -> float:
        """A finite number within bounds."""
        right = f"a number from {minimum:g} to {maximum:g}"
        value = self.raw(key, default)
        if value is None:
            raise self.missing(key, right)
        if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
            raise self.error(key, value, right)
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.raw(key, default)
        if not isinstance(value, bool):
            raise self.error(key, value, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self.raw(key, default)
        if value is None:
            raise self.missing(key, "a text")
        if not isinstance(value, str):
            raise self.error(key, value, "a text")
        return value

    def part(self, key: str, model_type: str | None = None) -> "Config":
        """A nested configuration; absent, the defaults of its type. Its type: stated, else known by the class."""
        value = self.raw(key, {})
        if not isinstance(value, Mapping):
            raise self.error(key, value, "an object with the keys of a configuration")
        own = value.get("model_type") or model_type or self._parts.get(key)
        if not isinstance(own, str):
            raise self.error(f"{key}.model_type", own, "the name of a model type")
        return Config(value, own, f"{self.where}, “{key}”")

    def divisible(self, key: str, by: str) -> int:
        """The value of `key` divided by that of `by`, which must go without remainder."""
        whole, parts = self.size(key), self.size(by)
        if whole % parts:
            raise self.error(key, whole, f"a multiple of “{by}”, which is {parts}")
        return whole // parts

    def labels(self, usual: int = 2) -> int:
        """How many labels a classifier has: `num_labels`, else the entries of `id2label`, else the `usual` number."""
        names = self.raw("id2label")
        if isinstance(names, Mapping | list) and names and not self.states("num_labels"):
            return len(names)
        return self.size("num_labels", usual)

    def _whole(self, key: str, value: object, right: str, minimum: int, maximum: int) -> int:
        if isinstance(value, float) and value.is_integer() and abs(value) <= maximum:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise self.error(key, value, right)
        return value
