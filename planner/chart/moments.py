"""Moments of a phase in words."""

_MOMENTS = {
    "rollout": "before the step, while answers are written and judged",
    "value_update": "in the value model's step",
    "start_of_step": "at the start of a step",
    "forward": "in the forward pass",
    "end_of_forward": "at the end of the forward pass",
    "backward": "in the backward pass",
    "optimizer_step": "in the optimizer step",
    "load": "while loading",
    "prefill": "in prefill",
    "decode": "while decoding",
    "construct": "when the model is built",
    "process": "while processing",
}


def moment_text(moment: str, instant: str = "") -> str:
    """`in the backward pass (loss backward)`; the instant says which point of the moment needs most."""
    where = _MOMENTS.get(moment, f"at {moment.replace('_', ' ')}")
    plain = instant.replace("_", " ")
    return f"{where} ({plain})" if instant and plain != moment.replace("_", " ") else where


_NAMES = {
    "rollout": ("Rollout", "Rollout"),
    "value_update": ("Value model’s step", "Value"),
    "start_of_step": ("Start of step", "Start"),
    "forward": ("Forward", "Fwd"),
    "end_of_forward": ("End of forward", "End fwd"),
    "backward": ("Backward", "Bwd"),
    "optimizer_step": ("Optimizer step", "Optim."),
    "load": ("Load", "Load"),
    "prefill": ("Prefill", "Prefill"),
    "decode": ("Decode", "Decode"),
    "construct": ("Construct", "Build"),
    "process": ("Process", "Process"),
}


def moment_name(moment: str, *, short: bool = False) -> str:
    """`Optimizer step`, or `Optim.` for a narrow column."""
    plain = moment.replace("_", " ").capitalize()
    return _NAMES.get(moment, (plain, plain))[short]
