"""Which layers adapters attach to, as a field of several phases."""

from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, Tag

from planner.scenario.choices import LORA_TARGETS, LoraTargets

ROLE_NAME = r"^[A-Za-z_][A-Za-z0-9_.]*$"


def _unwrapped(value: object) -> object:
    """`["all-linear"]` means what `"all-linear"` does."""
    one = value[0] if isinstance(value, list | tuple) and len(value) == 1 else None
    return one if isinstance(one, str) and one in LORA_TARGETS else value


def _targets_tag(value: object) -> str:
    return "<list>" if isinstance(value, list | tuple) else "<one>"


RoleName = Annotated[str, Field(pattern=ROLE_NAME, max_length=100)]
RoleNames = Annotated[tuple[RoleName, ...], Field(min_length=1, max_length=64, strict=False)]
LoraTargetModules = Annotated[
    Annotated[LoraTargets, Tag("<one>")] | Annotated[RoleNames, Tag("<list>")],
    Discriminator(_targets_tag),
    BeforeValidator(_unwrapped),
]
