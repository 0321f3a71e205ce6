"""Contradictions and unwise combinations, field by field."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from planner.errors import Issue
from planner.scenario.hardware import Hardware
from planner.scenario.parallelism import Parallelism
from planner.scenario.phases import Phases
from planner.scenario.rules.applicability import applicability_rules, applies, lapsed
from planner.scenario.rules.facts import ListedGpu, ModelFacts, ModelLike, PhaseFacts, Rule, facts_of
from planner.scenario.rules.hardware import GPU_RULES, hardware_issues, listed_gpus
from planner.scenario.rules.layout import LAYOUT_RULES, sequence_rules
from planner.scenario.rules.model import model_issues
from planner.scenario.rules.serving import SERVING_RULES
from planner.scenario.rules.serving import SIZE_RULES as SERVING_SIZE_RULES
from planner.scenario.rules.step import STEP_RULES, length_rules
from planner.scenario.scenario import Scenario

if TYPE_CHECKING:
    from planner.hardware import HardwareCatalog

STEP_SIZE_RULES: tuple[Rule, ...] = (length_rules, sequence_rules)
"""Rules of steps that refuse a length for its own sake."""
ALWAYS: tuple[Rule, ...] = (applicability_rules, *GPU_RULES)


def validate(scenario: Scenario, spec: ModelLike | None, hardware: "HardwareCatalog | None") -> tuple[Issue, ...]:
    """Everything wrong or doubtful in a scenario whose single values are all allowed.

    Rules that need the model's structure or the catalogue are left out where these are None.
    """
    gpus = listed_gpus(scenario.hardware, hardware)
    model = facts_of(spec) if spec is not None and spec.stacks else None
    return (
        *model_issues(scenario.model),
        *hardware_issues(scenario.hardware, gpus, hardware),
        *_phase_issues(scenario, model, gpus),
    )


def field_applies(scenario: Scenario, phase: str, field: str, spec: ModelLike | None = None) -> bool:
    """Whether a field such as `lora.rank` of a planned phase means anything while the others are as they are."""
    facts = _facts(scenario, phase, facts_of(spec) if spec else None, ())
    return facts is None or applies(facts, field)


def lapsed_fields(scenario: Scenario, phase: str) -> tuple[str, ...]:
    """Stated fields of a phase that mean nothing while its other fields are as they are."""
    facts = _facts(scenario, phase, None, ())
    return () if facts is None else tuple(item.field for item in lapsed(facts))


def gpu_errors(scenario: Scenario, phase: str, hardware: "HardwareCatalog") -> tuple[Issue, ...]:
    """What a phase asks for and the judging GPU cannot do."""
    return tuple(issue for issue in gpu_issues(scenario, phase, hardware) if issue.severity == "error")


def gpu_issues(scenario: Scenario, phase: str, hardware: "HardwareCatalog") -> tuple[Issue, ...]:
    """What a phase asks for and GPUs of the plan cannot do, or only imitate."""
    facts = _facts(scenario, phase, None, listed_gpus(scenario.hardware, hardware))
    return () if facts is None else tuple(issue for rule in GPU_RULES for issue in rule(facts))


def refused_sizes(
    scenario: Scenario, phase: str, field: str, values: tuple[int, ...], spec: ModelLike | None
) -> tuple[bool, ...]:
    """Which sizes, such as sequence lengths, a rule refuses and not others of these; other fields are as they are."""
    facts = _facts(scenario, phase, facts_of(spec) if spec is not None and spec.stacks else None, ())
    if facts is None or "parallelism" not in facts.kind.model_fields:
        return (False,) * len(values)
    if phase != "serving":
        # No rule of steps minds a batch.
        mind = field == "sequence_length"
        return refused_lengths(facts.model, facts.phase.parallelism, values) if mind else (False,) * len(values)
    changed = (replace(facts, phase=facts.phase.model_copy(update={field: value})) for value in values)
    return _apart([_errors(SERVING_SIZE_RULES, one) for one in changed])


@dataclass(frozen=True, slots=True)
class Length:
    """All that the rules of lengths look at in a step."""

    sequence_length: int
    parallelism: Parallelism


@lru_cache(maxsize=256)
def refused_lengths(model: ModelFacts | None, layout: Parallelism, values: tuple[int, ...]) -> tuple[bool, ...]:
    """Which lengths a rule refuses under a layout, and not others of these."""
    hardware = Hardware()
    found = (PhaseFacts("training", Length(value, layout), model, (), hardware) for value in values)
    return _apart([_errors(STEP_SIZE_RULES, one) for one in found])


def _errors(rules: Iterable[Rule], facts: PhaseFacts) -> frozenset[tuple[str, str]]:
    found = (issue for rule in rules for issue in rule(facts) if issue.severity == "error")
    return frozenset((issue.code, issue.path) for issue in found)


def _apart(found: Sequence[frozenset[tuple[str, str]]]) -> tuple[bool, ...]:
    """Which of them have an error that not all have."""
    common = frozenset.intersection(*found)
    return tuple(bool(own - common) for own in found)


def _phase_issues(scenario: Scenario, model: ModelFacts | None, gpus: tuple[ListedGpu, ...]) -> Iterator[Issue]:
    planned = [facts for name in Phases.model_fields if (facts := _facts(scenario, name, model, gpus))]
    if not planned:
        yield Issue("nothing_planned", "phases", "warning")
    for facts in planned:
        for rule in _rules_for(facts):
            yield from rule(facts)


def _facts(scenario: Scenario, name: str, model: ModelFacts | None, gpus: tuple[ListedGpu, ...]) -> PhaseFacts | None:
    phase = getattr(scenario.phases, name)
    return None if phase is None else PhaseFacts(name, phase, model, gpus, scenario.hardware)


def _rules_for(facts: PhaseFacts) -> tuple[Rule, ...]:
    own = SERVING_RULES if facts.name == "serving" else STEP_RULES
    return (*ALWAYS, *own, *(LAYOUT_RULES if "parallelism" in facts.kind.model_fields else ()))
