"""Roughly, how long a training step takes at best."""

from dataclasses import replace

from planner.engine.phases.methods import updates_in_backward
from planner.engine.plan import PhaseName
from planner.engine.speed.costs import costs_of
from planner.engine.speed.layout import Step
from planner.engine.speed.speed import HOUR, Figure, Speed, shown, unknown_notes
from planner.engine.speed.training_compute import compute_works, layer_format, model_flops
from planner.engine.speed.training_traffic import step_traffic, update_traffic
from planner.engine.speed.work import Pass, worth_counting
from planner.model.spec import RecurrentMixer
from planner.scenario.hardware import Hardware
from planner.scenario.phases import FineTuning

MFU = "PaLM (arXiv:2204.02311), appendix B: FLOP of the model alone over the peak"


def training_speed(name: PhaseName, gpu: str, step: Step, hardware: Hardware, run_tokens: int | None) -> Speed:
    """The passes of a step, tokens (or images) per second, and model FLOPs utilization at most."""
    work = worth_counting((*compute_works(step), *step_traffic(step)))
    update = worth_counting(update_traffic(step))
    at_once = updates_in_backward(step.phase)
    passes = (Pass("forward and backward", (*work, *update)),) if at_once else (
        Pass("forward and backward", work), Pass("update", update),
    )  # fmt: skip
    layout = step.phase.parallelism
    images = step.spec.stack.image is not None
    batch = step.sequences * step.phase.gradient_accumulation_steps * layout.data
    made, unit = (batch, "images") if images or step.tokens is None else (batch * step.tokens, "tokens")
    speed = Speed(name, gpu, layout.ranks, "step", passes, (), (), _notes(step, passes), made=made)
    seconds = speed.seconds
    if step.tokens is None or not passes[0].is_told:
        return speed
    figures = [
        Figure(f"{unit} per second", made / seconds, f"{unit}/s", f"{shown(made)} / {shown(seconds)} s"),
        Figure(f"{unit} per second and GPU", made / seconds / layout.ranks, f"{unit}/s",
               f"{shown(made)} / {shown(seconds)} s / {layout.ranks} GPUs"),
        *_utilization(step, seconds),
    ]  # fmt: skip
    total = None if images else step.phase.run_tokens or run_tokens
    if total is not None:
        hours = total / made * seconds / HOUR
        figures.append(Figure("hours of the run", hours, "h", f"{shown(total)} / {shown(made)} × {shown(seconds)} s"))
    costs = costs_of(hardware, layout.ranks, seconds, "step", made, unit, total)
    return replace(speed, figures=tuple(figures), costs=costs)


def _utilization(step: Step, seconds: float) -> tuple[Figure, ...]:
    flops, peak = model_flops(step), step.rates.products.get(layer_format(step.phase.precision))
    if not flops or peak is None:
        return ()
    how = f"{flops:.4g} FLOP / ({float(peak.value):.4g} FLOP/s × {shown(seconds)} s)"
    return (Figure("model FLOPs utilization", flops / (float(peak.value) * seconds) * 100, "%", how, MFU),)


def _notes(step: Step, passes: tuple[Pass, ...]) -> tuple[str, ...]:
    phase, spec = step.phase, step.spec
    objective = isinstance(phase, FineTuning) and phase.objective != "sft"
    found = {
        "The arithmetic of these layers is not known: weights and traffic alone are counted.": not compute_works(step),
        "The tower that reads images is not counted.": any(stack.image is not None for stack in spec.stacks[1:]),
        "The arithmetic of recurrent states is not counted.": any(
            isinstance(group.mixer, RecurrentMixer) for group in spec.stack.groups
        ),
        "Answers of the rollout and passes of further models are not counted.": objective,
    }
    return (*(text for text, applies in found.items() if applies), *unknown_notes(passes))
