"""One scenario, one pure function: what every planned phase needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from planner.catalog import Catalog
from planner.engine.activations.families import OTHER_SOFTWARE
from planner.engine.activations.versions import UNSTATED_LITGPT, is_unstated_litgpt
from planner.engine.assemble import Context, Need, assemble, no_vram
from planner.engine.band import case_class
from planner.engine.layout import training_gpus_needed
from planner.engine.phases.expert_adapters import uncounted_adapters
from planner.engine.phases.inference import plan_forward
from planner.engine.phases.preprocessing import plan_preprocessing
from planner.engine.phases.role_groups import group_phases
from planner.engine.phases.role_report import role_details
from planner.engine.phases.serving_need import serving_phase
from planner.engine.phases.stage_report import settled_step
from planner.engine.phases.step import plan_step
from planner.engine.phases.surroundings import (
    design_surroundings,
    evaluation_surroundings,
    training_surroundings,
)
from planner.engine.phases.trial import reduced, trial_step
from planner.engine.plan import PHASES, ModelSummary, PhaseName, PhasePlan, Plan, Surroundings
from planner.engine.room import room_of
from planner.engine.streams import idle_terms
from planner.engine.tensor_plans import plan_warnings
from planner.engine.traced import SettledPhase
from planner.engine.workspaces import workspace_terms
from planner.errors import PlannerError
from planner.model import counts, resolve_model
from planner.model.spec import ModelSpec
from planner.scenario import Scenario
from planner.scenario.declaration import Declared
from planner.scenario.hardware import Hardware
from planner.scenario.parallelism import Parallelism
from planner.scenario.phases import Design, Evaluation
from planner.scenario.preprocessing import Preprocessing
from planner.scenario.serving import Serving
from planner.scenario.step import TrainingStep

ROUGH_PREPARATION = (
    "Buffers of libraries that prepare data on a GPU are counted by the sizes of their batches; pools are not known."
)


@dataclass(frozen=True, slots=True)
class Job:
    """What a phase is planned with, beside its own fields."""

    name: PhaseName
    spec: ModelSpec
    context: Context
    hardware: Hardware

    def case_class(self, parallelism: Parallelism, profile: str, settled: SettledPhase) -> str:
        lowered = settled.phase.lowered
        rough = self.spec.approximate is not None or bool(lowered.approximations)
        quantized = lowered.recipe.quantized_base
        return case_class(self.name, ranks=parallelism.ranks, profile=profile, approximate=rough, quantized=quantized)


def estimate(scenario: Scenario, catalog: Catalog) -> Plan:
    """The plan of a validated scenario. No state and no I/O: equal arguments give equal plans.

    Raises `PlannerError` for a model or a GPU that cannot be resolved.
    """
    spec = resolve_model(scenario.model, catalog.presets)
    phases: dict[PhaseName, PhasePlan] = {}
    for name in PHASES:
        phase = getattr(scenario.phases, name)
        if phase is not None:
            phases[name] = _planned(name, phase, spec, scenario.hardware, catalog)
    return Plan(scenario.name, summarize(spec), phases)


@lru_cache(maxsize=64)
def _planned(name: PhaseName, phase: Declared, spec: ModelSpec, hardware: Hardware, catalog: Catalog) -> PhasePlan:
    """The plan of one phase, remembered: an edit of one phase leaves the others as they were."""
    return PLANNERS[name](Job(name, spec, _context(hardware, catalog), hardware), phase)


@lru_cache(maxsize=64)
def _context(hardware: Hardware, catalog: Catalog) -> Context:
    gpus = tuple(catalog.hardware.resolve(entry, total_bytes=hardware.gpu_total_bytes) for entry in hardware.gpus)
    if not gpus:
        raise PlannerError("The plan names no GPU. Add at least one to compare with.")
    judge = next((gpu for gpu in gpus if gpu.id == hardware.judge), gpus[0])
    return Context(gpus, judge, catalog.hardware, hardware.headroom_percent, room_of(hardware, catalog.hardware))


@lru_cache(maxsize=64)
def summarize(spec: ModelSpec) -> ModelSummary:
    """The exact counts of a model; `weight_bytes` at 16 bits."""
    return ModelSummary(
        parameters=counts.parameters(spec),
        active_parameters=counts.active_parameters(spec),
        embedding_parameters=counts.embedding_parameters(spec),
        kv_bytes_per_token=counts.kv_bytes_per_token(spec),
        linear_4bit_parameters=counts.linear_4bit_parameters(spec),
        weight_bytes=counts.weight_bytes(spec),
    )


def _step(job: Job, phase: TrainingStep) -> PhasePlan:
    gpu, overheads = job.context.judge.gpu, job.context.hardware.overheads
    found, stages = settled_step(phase, job.spec, workspace_terms(phase.activation_profile, job.spec, gpu, overheads))
    settled = found.settled
    need = Need(
        moments=found.moments,
        terms=found.terms,
        case_class=job.case_class(phase.parallelism, phase.activation_profile, settled),
        ranks=phase.parallelism.ranks,
        training=True,
        backward=True,
        managed_terms=settled.managed_terms(),
        expandable_segments=phase.expandable_segments,
        idle_terms=lambda moment: idle_terms(phase, settled, moment),
        layer_activation_bytes=settled.layer_activation_bytes,
        surround=lambda: training_surroundings(
            phase, job.spec, job.hardware, saved_activation_bytes=_offloaded_activation_bytes(phase, job.spec)
        ),
        warnings=(
            *settled.phase.lowered.approximations,
            *_undivided(phase, job.spec),
            *_not_counted(phase, settled),
            *uncounted_adapters(phase, job.spec),
        ),
        describe=lambda: stages | role_details(phase, job.spec, found.stage, found.fullest, found.terms()),
        groups={
            group.role: PLANNERS[group.kind](replace(job, name=group.kind, spec=group.spec), group.phase)
            for group in group_phases(phase, job.spec)
        },
        find_gpus=lambda gpu: training_gpus_needed(phase, job.spec, gpu, job.context),
    )
    return assemble(need, job.context)


def _offloaded_activation_bytes(phase: TrainingStep, spec: ModelSpec) -> int:
    """What the layers of one GPU save, if it waits in host RAM until backward."""
    if phase.offload.activations == "none":
        return 0
    stays = phase.model_copy(update={"offload": phase.offload.model_copy(update={"activations": "none"})})
    return plan_step(stays, spec).settle().layer_activation_bytes()


def _undivided(phase: TrainingStep | Design | Evaluation, spec: ModelSpec) -> tuple[str, ...]:
    return plan_warnings(spec.model_type, phase.parallelism.tensor, phase.activation_profile)


def _not_counted(phase: TrainingStep, settled: SettledPhase) -> tuple[str, ...]:
    """What was asked for and is not told apart by the engine, or not for this architecture."""
    profile = phase.activation_profile

    def untold(word: str) -> bool:
        return not any(word in tensor.name for tensor in settled.phase.trace.tensors)

    found = {
        "This architecture's feed-forward is counted whole, not in tiles.": phase.tiled_mlp
        and profile == "hf-transformers"
        and untold("tiles"),
        "fp8 products of this architecture are counted as bf16.": phase.precision == "fp8" and untold("float8"),
        "fp8 products of Megatron Core's experts are counted as bf16.": phase.precision == "fp8"
        and profile == "megatron-core"
        and not untold("mlp.experts"),
        "torch.compile is not counted: it usually needs less.": phase.compile,
        UNSTATED_LITGPT: profile == "litgpt" and is_unstated_litgpt(phase.framework_version),
        f"The profile {profile} is counted as hf-transformers.": profile != "hf-transformers"
        and profile not in OTHER_SOFTWARE,
    }
    return tuple(text for text, applies in found.items() if applies)


def _other_software(phase: Design | Evaluation) -> tuple[str, ...]:
    """Trials and evaluation are told of one implementation."""
    profile = phase.activation_profile
    if profile == "hf-transformers":
        return ()
    return (f"This phase is counted as Hugging Face transformers runs it, not as {profile}.",)


def _design(job: Job, phase: Design) -> PhasePlan:
    def around() -> Surroundings:
        return design_surroundings(phase, job.spec, job.hardware)

    if phase.smoke_test in ("construct", "shapes"):
        return no_vram(job.context, "construct", Need({}, tuple, "inference", surround=around))
    job = replace(job, spec=reduced(job.spec, phase.trial_layers))
    if phase.smoke_test == "forward":
        settled = plan_forward(
            phase,
            job.spec,
            batch=phase.micro_batch_size,
            sequence=phase.sequence_length,
            logits="all",
            computes_loss=True,
        ).settle()
    else:
        settled = plan_step(trial_step(phase), job.spec).settle()
    need = Need(
        moments=settled.moments,
        terms=settled.terms,
        case_class=job.case_class(phase.parallelism, phase.activation_profile, settled),
        ranks=phase.parallelism.ranks,
        training=True,
        backward=phase.smoke_test == "forward_backward",
        layer_activation_bytes=settled.layer_activation_bytes,
        surround=around,
        warnings=(*settled.phase.lowered.approximations, *_undivided(phase, job.spec), *_other_software(phase)),
    )
    return assemble(need, job.context)


def _evaluation(job: Job, phase: Evaluation) -> PhasePlan:
    settled = plan_forward(
        phase,
        job.spec,
        batch=phase.batch_size,
        sequence=phase.sequence_length,
        logits=phase.logits,
        computes_loss=phase.computes_loss,
    ).settle()
    need = Need(
        moments=settled.moments,
        terms=settled.terms,
        case_class=job.case_class(phase.parallelism, phase.activation_profile, settled),
        ranks=phase.parallelism.ranks,
        surround=lambda: evaluation_surroundings(phase, job.spec, job.hardware),
        warnings=(*settled.phase.lowered.approximations, *_undivided(phase, job.spec), *_other_software(phase)),
    )
    return assemble(need, job.context)


def _preprocessing(job: Job, phase: Preprocessing) -> PhasePlan:
    def around() -> Surroundings:
        planned = plan_preprocessing(phase)
        return Surroundings(planned.host_terms, planned.storage_terms)

    ledger = plan_preprocessing(phase).ledger
    if not ledger.terms:
        return no_vram(job.context, "process", Need({}, tuple, job.name, surround=around))
    moments, tell = ledger.settle()
    return assemble(Need(moments, tell, "rough", surround=around, warnings=(ROUGH_PREPARATION,)), job.context)


def _serving(job: Job, phase: Serving) -> PhasePlan:
    return serving_phase(phase, job.spec, job.context, job.hardware)


PLANNERS: Mapping[PhaseName, Callable[..., PhasePlan]] = {
    "design": _design,
    "preprocessing": _preprocessing,
    "training": _step,
    "fine_tuning": _step,
    "evaluation": _evaluation,
    "serving": _serving,
}
