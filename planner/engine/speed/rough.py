"""Rough speed of one phase: a lower bound on time from peak rates, which no software reaches.

It is worked out only when somebody asks; no estimate of memory depends on it.
"""

from planner.catalog import Catalog
from planner.engine.plan import PhaseName
from planner.engine.speed.forward import evaluation_speed
from planner.engine.speed.layout import Step
from planner.engine.speed.rates import rates_of
from planner.engine.speed.serving import serving_speed
from planner.engine.speed.serving_work import Served
from planner.engine.speed.speed import Speed
from planner.engine.speed.training import training_speed
from planner.model import resolve_model
from planner.scenario import Scenario
from planner.scenario.hardware import Hardware
from planner.scenario.phases import Evaluation
from planner.scenario.preprocessing import Preprocessing
from planner.scenario.serving import Serving
from planner.scenario.step import TrainingStep


def rough_speed(scenario: Scenario, phase: PhaseName, catalog: Catalog, gpu: str | None = None) -> Speed | None:
    """How fast a planned phase is at best on `gpu`, or on the GPU that judges.

    None for what is not planned, for trials and preparation, and for what makes images. Raises `PlannerError` for a
    model or a GPU that nobody knows.
    """
    fields = getattr(scenario.phases, phase)
    if not isinstance(fields, TrainingStep | Evaluation | Serving):
        return None
    spec = resolve_model(scenario.model, catalog.presets)
    if spec.task == "diffusion":
        return None
    hardware = judged_by(scenario.hardware, gpu)
    judge = hardware.judged_by
    entry = dict(zip(hardware.keys, hardware.gpus, strict=True))[judge]
    chosen = catalog.hardware.resolve(entry, total_bytes=hardware.gpu_total_bytes)
    rates = rates_of(chosen, hardware, catalog.hardware)
    if isinstance(fields, TrainingStep):
        prepared = _prepared(scenario.phases.preprocessing)
        return training_speed(phase, judge, Step(fields, spec, rates), hardware, prepared)
    if isinstance(fields, Evaluation):
        return evaluation_speed(judge, fields, spec, rates, hardware)
    return serving_speed(judge, Served(fields, spec, rates, chosen.gpu), hardware)


def judged_by(hardware: Hardware, gpu: str | None) -> Hardware:
    """The hardware with another judge, whose price is that of its own entry: the one stated is the first judge's."""
    if gpu is None or gpu == hardware.judged_by:
        return hardware
    entries = hardware.gpus if gpu in hardware.keys else (*hardware.gpus, gpu)
    return hardware.replaced("price_per_gpu_hour", None).replaced("gpus", entries).replaced("judge", gpu)


def _prepared(planned: Preprocessing | None) -> int | None:
    """Tokens of all prepared samples, once each."""
    if planned is None or not planned.tokens_per_sample:
        return None
    return planned.samples * planned.tokens_per_sample
