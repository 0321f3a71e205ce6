"""The moments of a training step."""

ALL = ("start_of_step", "forward", "end_of_forward", "backward", "optimizer_step")
IN_MODEL = ("forward", "end_of_forward", "backward")
