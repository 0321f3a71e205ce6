"""What a fleet of GPUs would have to be: the smallest legal layout of each phase on each GPU type."""

from planner.engine.fleet.layouts import Layout
from planner.engine.fleet.programme import Row, find_fleet
from planner.engine.fleet.search import Answer, CalledOffError, Found, scenario_with, search

__all__ = ["Answer", "CalledOffError", "Found", "Layout", "Row", "find_fleet", "scenario_with", "search"]
