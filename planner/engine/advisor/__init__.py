"""Advice by search: changes of a scenario that make a phase fit, each estimated anew."""

from planner.engine.advisor.advise import Advice, Outcome, Purchase, Suggestion, advise, changes_for
from planner.engine.advisor.change import LEVELS, Change, Level

__all__ = ["LEVELS", "Advice", "Change", "Level", "Outcome", "Purchase", "Suggestion", "advise", "changes_for"]
