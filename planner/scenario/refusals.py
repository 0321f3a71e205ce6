"""Values that a declaration does not allow, as issues: where, what is wrong, and what would be right."""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import floor, isfinite, log10
from typing import Any

from pydantic import ValidationError

from planner.errors import Issue, ScenarioError
from planner.scenario.declaration import Declared, FieldDeclaration, declaration, parts_of
from planner.scenario.texts import issue_line

WANTED: Mapping[str, str] = {
    "int_type": "int",
    "float_type": "float",
    "bool_type": "bool",
    "string_type": "text",
    "string_unicode": "text",
    "tuple_type": "list",
    "list_type": "list",
    "dict_type": "object",
    "mapping_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
}
RANGES = ("greater_than_equal", "less_than_equal", "int_parsing_size")
LENGTHS: Mapping[str, tuple[str, str]] = {
    "string_too_long": ("text_too_long", "max_length"),
    "too_long": ("too_many", "max_length"),
    "too_short": ("too_few", "min_length"),
}


def refusal(issues: tuple[Issue, ...]) -> ScenarioError:
    """The error that carries these issues."""
    return ScenarioError("\n".join(map(issue_line, issues)), issues)


def issues_of(error: ValidationError, part: type[Declared], above: Iterable[str | int] = ()) -> tuple[Issue, ...]:
    """What pydantic found in a `part`, which stands at the path `above`, in our own terms."""
    issues: list[Issue] = []
    for found in error.errors(include_url=False):
        issue = _issue(dict(found), part, tuple(above))
        if issue not in issues:
            issues.append(issue)
    # A list with a wrong entry is also reported as too short, because pydantic leaves the entry out.
    return tuple(issue for issue in issues if issue.code != "too_few" or not _has_deeper(issue, issues))


def unknown_field(part: object, step: str | int, above: Iterable[str | int]) -> Issue:
    """The issue of a step that leads nowhere from `part`, which stands at the path `above`."""
    known = type(part).model_fields if isinstance(part, Declared) else ()
    return Issue("unknown_field", ".".join(map(str, (*above, step))), "error", _unknown(str(step), known))


def _unknown(name: str, known: Iterable[str]) -> dict[str, Any]:
    return {"name": name, **_nearest(name, known)}


def _has_deeper(issue: Issue, issues: Iterable[Issue]) -> bool:
    return any(other.path.startswith(f"{issue.path}.") for other in issues)


def _issue(found: dict[str, Any], part: type[Declared], above: tuple[str | int, ...]) -> Issue:
    location: tuple[str | int, ...] = found["loc"]
    path = ".".join(str(step) for step in (*above, *location) if not _is_tag(step))
    code, parameters = _finding(found, *_place(part, location))
    return Issue(code, path, "error", parameters)


def _is_tag(step: str | int) -> bool:
    return isinstance(step, str) and step.startswith("<")


def _place(part: type[Declared], location: Iterable[str | int]) -> tuple[type[Declared], FieldDeclaration | None, str]:
    """The part that a location lies in, the declaration it ends at, and the last name in it."""
    held, field, name = part, None, ""
    inner: tuple[type[Declared], ...] = (part,)
    for step in location:
        if isinstance(step, int):
            continue
        if _is_tag(step):
            inner = tuple(kind for kind in inner if f"<{kind.__name__}>" == step)
            continue
        held = inner[0] if inner else held
        name = step
        if step not in held.model_fields:
            return held, None, name
        field = declaration(held, step)
        inner = parts_of(held, step)
    return held, field, name


def _finding(
    found: dict[str, Any], held: type[Declared], field: FieldDeclaration | None, name: str
) -> tuple[str, dict[str, Any]]:
    kind, value, context = str(found["type"]), found.get("input"), found.get("ctx", {})
    if kind == "extra_forbidden":
        return "unknown_field", _unknown(name, held.model_fields)
    if kind == "missing":
        return "missing", {"label": field.label if field else name}
    if kind == "finite_number":
        return "not_finite", {}
    if kind in RANGES or (kind == "float_type" and type(value) is int):
        limits = {"minimum": field.minimum, "maximum": field.maximum, "unit": field.unit} if field else {}
        return "out_of_range", {"value": shown(value), **limits}
    if kind in WANTED:
        return "wrong_type", {"wanted": WANTED[kind], "value": shown(value)}
    if kind == "literal_error":
        return "not_a_choice", _not_a_choice(value, field, str(context.get("expected", "")))
    if kind == "string_pattern_mismatch":
        return "bad_text", {"value": shown(value), "help": field.help if field else ""}
    if kind in LENGTHS:
        code, limit = LENGTHS[kind]
        return code, {"limit": context.get(limit)}
    return kind, dict(context)


def _not_a_choice(value: Any, field: FieldDeclaration | None, expected: str) -> dict[str, Any]:
    choices = [choice for choice, _ in field.choices] if field and field.choices else [expected.strip("'")]
    return {"value": shown(value), "legal": choices, **_nearest(value, choices)}


def _nearest(name: Any, known: Iterable[str]) -> dict[str, Any]:
    """The known name that was probably meant: the same in other letters, one with more words, else the most similar."""
    if not isinstance(name, str):
        return {}
    wanted, names = name.lower()[:100], list(known)
    akin = sorted((other for other in names if _is_akin(wanted, other)), key=len)
    near = akin[:1] or get_close_matches(wanted, names, n=1, cutoff=0.6)
    return {"suggestion": near[0]} if near else {}


def _is_akin(name: str, other: str) -> bool:
    """Whether two names are the same, or one is the other with further words: `tensor_parallel` and `tensor`."""
    long, short = (name, other) if len(name) > len(other) else (other, name)
    return long == short or long.startswith(f"{short}_") or long.endswith(f"_{short}")


def shown(value: Any) -> str:
    """A refused value for a message: as JSON would write it, and short."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int():
            return str(value) if abs(value) < 10**18 else f"about 10^{floor(log10(abs(value)))}"
        case float():
            return f"{value:g}" if isfinite(value) else json.dumps(value)
        case str():
            return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}…"'
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return type(value).__name__
