"""The one error type of the product, and the finding that explains a single field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong (`error`) or doubtful (`warning`), and where.

    `path` is dotted, such as `phases.training.parallelism.tensor`. The words are made at the edge from `code` and
    `parameters` (`planner.scenario.issue_text`), so that a view may shorten, translate or group them.
    """

    code: str
    path: str
    severity: Severity = "error"
    parameters: Mapping[str, Any] = field(default_factory=dict)


class PlannerError(Exception):
    """Something a person can understand and mend: `message` says what happened, where, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ScenarioError(PlannerError):
    """A scenario, or the file that holds it, that cannot be used; `issues` says so field by field."""

    def __init__(self, message: str, issues: tuple[Issue, ...] = ()) -> None:
        super().__init__(message)
        self.issues = issues


class ModelError(PlannerError):
    """A model description that cannot be read, or is not understood yet."""


class CatalogueError(PlannerError):
    """A hardware entry that the catalogue does not hold, or a catalogue that cannot be read."""


class ResourceError(PlannerError):
    """An installation whose resources are missing or damaged."""
