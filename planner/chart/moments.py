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
    return f"{where} ({plain})" if instant and instant != moment else where
