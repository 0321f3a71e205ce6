"""Invariants of the roles of preference and reinforcement tuning, wherever they are."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.phases.role_report import PREFIXES
from planner.engine.plan import PhasePlan
from planner.scenario import Scenario

DIMENSIONS = {
    "layers": 8, "hidden_size": 256, "attention_heads": 8, "kv_heads": 8, "ffn_hidden_size": 512, "vocab_size": 4096,
    "max_positions": 4096,
}  # fmt: skip
PLACES = st.sampled_from(["automatic", "colocated", "apart"])
ORDER = ("oom", "unknown", "tight", "fits")

settings_of_roles = st.fixed_dictionaries(
    {
        "objective": st.sampled_from(["dpo", "ppo", "grpo"]),
        "method": st.sampled_from(["full", "lora"]),
        "precision": st.sampled_from(["bf16", "amp-bf16", "fp32"]),
        "micro_batch_size": st.integers(1, 4),
        "sequence_length": st.integers(2, 2048),
        "gradient_accumulation_steps": st.just(4),
        "parallelism": st.sampled_from(
            [
                {},
                {"pipeline": 2},
                {"pipeline": 4},
                {"data": 4, "zero_stage": 3},
                {"data": 2, "zero_stage": 3, "sharding_backend": "fsdp2"},
            ]
        ),
        "roles": st.fixed_dictionaries(
            {
                "reference": st.sampled_from(["automatic", "copy", "none"]),
                "reference_model": PLACES,
                "reward_model": PLACES,
                "value_model": PLACES,
                "value_update": st.sampled_from(["automatic", "in-turn"]),
                "rollout_engine": st.sampled_from(["automatic", "colocated", "apart", "policy"]),
                "rollout_sequences": st.sampled_from([1, 64]),
                "policy_sleeps": st.booleans(),
            }
        ),
        "reference_offloaded": st.booleans(),
        "sleeps": st.booleans(),
    }
)


def tuned(fields: dict[str, Any]) -> PhasePlan:
    given = dict(fields)
    given["reference"] = {"offloaded": given.pop("reference_offloaded")}
    given["rollout"] = {"sleeps": given.pop("sleeps")}
    content = {"model": {"dimensions": DIMENSIONS}, "phases": {"fine_tuning": given}}
    return estimate(Scenario.of(content), load_catalog()).phases["fine_tuning"]


def held_by_role(phase: PhasePlan) -> dict[str, int]:
    """The policy alone where it needs no other model."""
    told = phase.details.get("roles", [{"role": "policy", "allocated_bytes": phase.peak.allocated_bytes}])
    return {role["role"]: role["allocated_bytes"] for role in told}


def alive_bytes(phase: PhasePlan, prefixes: tuple[str, ...]) -> int:
    peak = phase.peak.moment
    return sum(int(item.bytes) for item in phase.terms if peak in item.alive and item.name.startswith(prefixes))


@given(fields=settings_of_roles)
@settings(max_examples=25, deadline=None)
def test_the_terms_of_a_role_sum_to_what_it_holds_and_the_roles_to_the_bar(fields: dict[str, Any]) -> None:
    phase = tuned(fields)
    held = held_by_role(phase)
    for role, prefixes in PREFIXES.items():
        if role in held:
            assert alive_bytes(phase, prefixes) == held[role]
    assert sum(held.values()) == phase.peak.allocated_bytes
    assert min(held.values()) >= 0


@given(fields=settings_of_roles)
@settings(max_examples=25, deadline=None)
def test_the_peak_is_the_fullest_moment_and_its_terms_are_all_of_it(fields: dict[str, Any]) -> None:
    phase = tuned(fields)
    moments = phase.moments
    assert phase.peak.allocated_bytes == max(moment.allocated_bytes for moment in moments.values())
    assert sum(phase.components.values()) == phase.peak.process_bytes
    for moment in moments.values():
        assert sum(moment.components.values()) == moment.allocated_bytes
        alive = [item for item in phase.terms if moment.name in item.alive and item.component != "overhead"]
        assert sum(int(item.bytes) for item in alive) >= moment.allocated_bytes - len(alive)


@given(fields=settings_of_roles)
@settings(max_examples=25, deadline=None)
def test_each_role_apart_has_a_group_and_the_phase_the_worst_of_their_verdicts(fields: dict[str, Any]) -> None:
    phase = tuned(fields)
    apart = {role["role"] for role in phase.details.get("roles", ()) if role["place"] == "on other GPUs"}
    assert set(phase.groups) == apart
    for gpu, verdict in phase.verdicts.items():
        each = [phase.own_verdicts[gpu], *(group.verdicts[gpu] for group in phase.groups.values())]
        assert verdict.verdict == min((one.verdict for one in each), key=ORDER.index)
    for group in phase.groups.values():
        assert sum(group.components.values()) == group.peak.process_bytes
