"""VRAM Planner: how much GPU memory each phase of a model's life needs."""

__version__ = "0.1.0"
