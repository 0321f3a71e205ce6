"""Rough speed and cost: a roofline over the catalogue's peak rates, every number with its formula and source."""

from planner.engine.speed.rough import rough_speed
from planner.engine.speed.speed import Figure, Speed
from planner.engine.speed.work import Pass, Resource, Work

__all__ = ["Figure", "Pass", "Resource", "Speed", "Work", "rough_speed"]
