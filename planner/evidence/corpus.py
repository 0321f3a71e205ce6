"""The corpus file format: cases, each a scenario and what was measured or traced when it ran."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from planner.errors import PlannerError
from planner.resources import resource

CORPUS_FORMAT = "vram-planner/corpus"
CORPUS_VERSION = 1


class EvidenceError(PlannerError):
    """A corpus file that cannot be read."""


class Expectation(BaseModel):
    """One figure of the plan, by its dotted path, and the value it should have."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    path: str
    value: int | float | str


class Case(BaseModel):
    """One run. Further fields (`confidence`, `assumed`, …) are kept to be shown, and never judged."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    source: str
    scenario: dict[str, Any]
    expect: tuple[Expectation, ...]

    @property
    def further_fields(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Unreadable(BaseModel):
    """A case that does not have the form of one; the others of its corpus are scored all the same."""

    model_config = ConfigDict(frozen=True)

    id: str
    failure: str


class Corpus(BaseModel):
    """A named set of cases."""

    model_config = ConfigDict(frozen=True)

    format: Literal["vram-planner/corpus"] = "vram-planner/corpus"
    version: Literal[1] = 1
    name: str
    cases: tuple[Case | Unreadable, ...]


def load_corpus(path: Path) -> Corpus:
    """Read a corpus file. Raises `EvidenceError` when it is none; a broken case becomes `Unreadable`."""
    content = _read_json(path)
    if not isinstance(content, dict) or content.get("format") != CORPUS_FORMAT:
        raise EvidenceError(f'{path} is not a corpus: its "format" must be "{CORPUS_FORMAT}".')
    if content.get("version") != CORPUS_VERSION:
        raise EvidenceError(
            f"{path} is a corpus of version {content.get('version')!r}; this program reads version {CORPUS_VERSION}."
        )
    cases = content.get("cases")
    if not isinstance(cases, list):
        raise EvidenceError(f'{path} has no list of "cases".')
    return Corpus(
        name=str(content.get("name") or path.stem),
        cases=tuple(_case(case, number) for number, case in enumerate(cases, start=1)),
    )


def shipped_corpora() -> tuple[Path, ...]:
    """The corpora that come with the program."""
    return tuple(sorted(resource("evidence").glob("*.json")))


def _case(content: Any, number: int) -> Case | Unreadable:
    try:
        return Case.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        named = content.get("id") if isinstance(content, dict) else None
        failure = f"{where}: {first['msg']}" if where else str(first["msg"])
        return Unreadable(id=named if isinstance(named, str) else f"case {number}", failure=failure)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise EvidenceError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path} is not a text file, so it cannot be a corpus.") from error
    except RecursionError as error:
        raise EvidenceError(f"{path} is nested too deeply to be a corpus.") from error
    except ValueError as error:
        raise EvidenceError(f"{path} is not valid JSON: {error}.") from error
