"""The parts at the sides of the window: model, phases, GPUs, and why."""
