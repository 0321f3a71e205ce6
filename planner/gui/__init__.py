"""The window: forms, views, panels and dialogs around one session.

What does not need Qt is imported here, before it: once PySide6 is loaded, it reads the source of every module that is
imported later (in search of `from __feature__ import`), which makes the start a third slower.
"""

# ruff: noqa: F401
import planner.catalog
import planner.chart.build
import planner.chart.captions
import planner.chart.table
import planner.engine.estimate
import planner.scenario.starting
