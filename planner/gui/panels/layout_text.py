"""What there is to say of a layout over GPUs: the stages of a pipeline and the roles of reinforcement tuning."""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.chart.names import ROLE_NAMES
from planner.engine.plan import PhaseName, PhasePlan, VerdictKind

Rows = list[tuple[str, int]]
STEPS: tuple[PhaseName, ...] = ("training", "fine_tuning")


JUDGED: Mapping[VerdictKind, str] = {"fits": "", "tight": ": tight", "oom": ": too large", "unknown": ": unknown"}


def layout_tables(phase: PhaseName, plan: PhasePlan, judge: str) -> Iterator[tuple[str, Rows]]:
    """A heading and its rows, each with bytes; nothing for a step on one kind of rank.

    What is on GPUs of its own says where it does not fit the one with the id `judge`.
    """
    if phase not in STEPS:
        return
    stages, roles = plan.details.get("stages"), plan.details.get("roles")
    if roles:
        yield "Roles, at the peak of their GPUs", [_role(role, plan, judge) for role in roles]
    if stages:
        shown = plan.details["reported_stage"]
        yield (
            "Pipeline stages, tensors alive",
            [_stage(stage, len(stages), stage["stage"] == shown) for stage in stages],
        )


def _role(role: Mapping[str, Any], plan: PhasePlan, judge: str) -> tuple[str, int]:
    group = plan.groups.get(role["role"])
    verdict = None if group is None else group.verdicts.get(judge)
    said = JUDGED[verdict.verdict] if verdict else ""
    size = role["allocated_bytes"] if group is None else group.peak.process_bytes
    trained = ", trained" if role["trained"] else ""
    return f"{ROLE_NAMES[role['role']]}{trained}: {role['place']}{said}", size


def _stage(stage: Mapping[str, Any], count: int, shown: bool) -> tuple[str, int]:
    flight = stage["micro_batches_in_flight"]
    waiting = sum(flight) if isinstance(flight, list) else flight
    words = [f"{stage['layers']} layers"]
    words += [name for name, there in (("token table", stage["embeddings"]), ("head", stage["head"])) if there]
    words.append(f"{waiting} in flight")
    mark = " (shown)" if shown else ""
    return f"{stage['stage'] + 1} of {count}{mark}: {', '.join(words)}", stage["allocated_bytes"]
