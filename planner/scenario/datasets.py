"""Typical data sets: what a preset fills into preprocessing, from the records in `resources/datasets/`."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from planner.errors import ResourceError
from planner.resources import resource
from planner.scenario.declaration import Choices
from planner.scenario.records import records

DATA_SETS = Choices({name: record.label for name, record in records("datasets").items()})
DataSet = Annotated[str, DATA_SETS]


@cache
def _fields() -> Mapping[str, Mapping[str, Any]]:
    try:
        found = (json.loads(path.read_text("utf-8")) for path in resource("datasets").glob("*.json"))
        return {str(record["id"]): dict(record["fields"]) for record in found}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResourceError(f"The planner's data sets cannot be read ({error}). Please install it again.") from error


def dataset_fields(name: str) -> Mapping[str, Any]:
    """The fields of preprocessing that a data set determines; nothing for a name that is not known."""
    return _fields().get(name, {})


def determined_fields() -> frozenset[str]:
    """Every field that some data set determines."""
    return frozenset(field for fields in _fields().values() for field in fields)
