"""One declaration per field: type, range, unit, default, label, help. Everything that shows a field reads it here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticUndefined, core_schema

Kind = Literal["int", "float", "bool", "choice", "text", "list", "model"]


class Choices(Mapping[str, str]):
    """A closed list: value to short label, in the order in which it is offered. Used as `Annotated[str, CHOICES]`."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = dict(labels)

    def __getitem__(self, value: str) -> str:
        return self._labels[value]

    def __iter__(self) -> Any:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __hash__(self) -> int:
        return hash(tuple(self._labels))

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema(list(self._labels))


class Declared(BaseModel):
    """A part of a scenario: frozen, without unknown fields."""

    __slots__ = ("_hash",)

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, ser_json_inf_nan="constants"
    )

    form_order: ClassVar[tuple[str, ...]] = ()
    """Fields that a form shows first, in this order; the others follow as they are declared."""

    def __hash__(self) -> int:
        """Worked out once: what the engine remembers is looked up by the parts of a scenario, many times in a plan."""
        try:
            return cast(int, object.__getattribute__(self, "_hash"))
        except AttributeError:
            values = hash((type(self), *(self.__dict__[name] for name in type(self).__pydantic_fields__)))
            object.__setattr__(self, "_hash", values)
            return values

    def states(self, field: str) -> bool:
        """Whether the scenario itself says this, rather than leaving it to the default."""
        return field in self.model_fields_set

    def replaced(self, field: str, value: Any) -> Self:
        """The same part with one value replaced and checked; what was left to defaults stays so.

        None takes back what was stated, where that is possible.
        """
        stated = {name: getattr(self, name) for name in self.model_fields_set if name != field}
        if value is None and field in type(self).model_fields and not type(self).model_fields[field].is_required():
            return type(self).model_validate(stated)
        return type(self).model_validate({**stated, field: value})

    @classmethod
    def declarations(cls) -> tuple["FieldDeclaration", ...]:
        """The fields in the order of a form."""
        first = [name for name in cls.form_order if name in cls.model_fields]
        names = [*first, *(name for name in cls.model_fields if name not in cls.form_order)]
        return tuple(declaration(cls, name) for name in names)


def declare(
    default: Any,
    label: str,
    help: str,
    *,
    unit: str = "",
    ge: float | None = None,
    le: float | None = None,
    step: float | None = None,
    advanced: bool = False,
    pattern: str | None = None,
    max_length: int | None = None,
) -> Any:
    """Declare a field of a `Declared` part; `default` is `...` for one that must be given.

    Numbers, flags and texts are taken strictly: no `"4096"` for 4096, no 1 for true, no NaN or infinity.
    """
    limits: dict[str, Any] = {"ge": ge, "le": le, "pattern": pattern, "max_length": max_length}
    if ge is not None:
        limits["allow_inf_nan"] = False
    shown: dict[str, Any] = {"unit": unit, "step": step, "advanced": advanced}
    return Field(
        default,
        title=label,
        description=help,
        json_schema_extra={key: value for key, value in shown.items() if value},
        **{key: value for key, value in limits.items() if value is not None},
    )


def declare_part(part: type[Declared], label: str, help: str, *, advanced: bool = False) -> Any:
    """Declare a part that is there with its own defaults when a scenario does not state it."""
    extra: dict[str, Any] = {"advanced": True} if advanced else {}
    return Field(default_factory=part, title=label, description=help, json_schema_extra=extra)


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """What a form row, a command, a schema or a message needs to know of one field."""

    name: str
    label: str
    help: str
    kind: Kind
    default: Any
    unit: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    advanced: bool = False
    nullable: bool = False
    required: bool = False
    part: type[Declared] | None = None
    """The class of a nested part, where `kind` is `model`."""


@cache
def declaration(part: type[Declared], name: str) -> FieldDeclaration:
    """The declaration of one field of a part, read from its types once."""
    field = part.model_fields[name]
    members, annotations = _unfold(field.annotation, field.metadata)
    shown = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    inner = next(iter(parts_of(part, name)), None)
    return FieldDeclaration(
        name=name,
        label=field.title or name,
        help=field.description or "",
        kind=_kind(members, annotations, inner),
        default=_default(field),
        unit=str(shown.get("unit", "")),
        choices=tuple(pair for item in annotations if isinstance(item, Choices) for pair in item.items()),
        minimum=_limit(annotations, "ge"),
        maximum=_limit(annotations, "le"),
        step=_limit((shown,), "step"),
        advanced=bool(shown.get("advanced", False)),
        nullable=NoneType in members,
        required=field.is_required(),
        part=inner,
    )


def parts_of(part: type[Declared], name: str) -> tuple[type[Declared], ...]:
    """The classes that a field may hold, where it holds parts."""
    return tuple(item for item in _flat(part.model_fields[name].annotation) if issubclass(item, Declared))


def _flat(annotation: Any) -> Iterable[type]:
    """All classes that an annotation names, at any depth."""
    arguments = get_args(annotation)
    if isinstance(annotation, type) and not arguments:
        yield annotation
    for argument in arguments:
        yield from _flat(argument)


def _unfold(annotation: Any, metadata: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The member types of an annotation without its unions, and all that is annotated on them."""
    if get_origin(annotation) is Annotated:
        inner, *extra = get_args(annotation)
        return _unfold(inner, [*metadata, *extra])
    if get_origin(annotation) in (Union, UnionType):
        parts = [_unfold(argument, ()) for argument in get_args(annotation)]
        return [m for members, _ in parts for m in members], [*metadata, *(a for _, found in parts for a in found)]
    return [annotation], list(metadata)


def _kind(members: list[Any], annotations: list[Any], inner: type[Declared] | None) -> Kind:
    if any(get_origin(member) is tuple for member in members):
        return "list"
    if inner is not None:
        return "model"
    if any(isinstance(item, Choices) for item in annotations):
        return "choice"
    scalars: dict[Any, Kind] = {bool: "bool", int: "int", float: "float"}
    return next((scalars[member] for member in members if member in scalars), "text")


def _limit(sources: Iterable[Any], name: str) -> float | None:
    for source in sources:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if isinstance(value, int | float):
            return value
    return None


def _default(field: FieldInfo) -> Any:
    value = field.get_default(call_default_factory=True, validated_data={})
    return None if value is PydanticUndefined else value
