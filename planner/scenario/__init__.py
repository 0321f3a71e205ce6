"""What is asked: a validated, immutable scenario, its files, and what is wrong or doubtful in it."""

from planner.errors import Issue, ScenarioError
from planner.scenario.declaration import Choices, Declared, FieldDeclaration
from planner.scenario.edits import declaration_at, edited, undo_text
from planner.scenario.files import load_scenario, save_scenario, scenario_from_json, scenario_to_json
from planner.scenario.issues import field_applies, validate
from planner.scenario.scenario import FieldPath, Scenario
from planner.scenario.texts import issue_line, issue_text

__all__ = [
    "Choices",
    "Declared",
    "FieldDeclaration",
    "FieldPath",
    "Issue",
    "Scenario",
    "ScenarioError",
    "declaration_at",
    "edited",
    "field_applies",
    "issue_line",
    "issue_text",
    "load_scenario",
    "save_scenario",
    "scenario_from_json",
    "scenario_to_json",
    "undo_text",
    "validate",
]
