"""Roles of preference and reinforcement tuning, counted by hand from the sizes of Llama-3.1-8B."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.chart.build import lifecycle_chart
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan, Plan
from planner.errors import ScenarioError
from planner.scenario import Scenario, load_scenario

LLAMA = Path(__file__).parents[2] / "cli" / "data" / "llama.vramplan"
PARAMETERS = 8_030_261_248
WITHOUT_HEAD = PARAMETERS - 128_256 * 4_096
SCORING = WITHOUT_HEAD + 4_096
"""A model that ends in one number has a row of weights instead of the table of its vocabulary."""
ROTARY_BYTES = 2 * 64 * 4
"""Rotary frequencies of half a head in fp32, and the original ones (transformers keeps both)."""
CACHE_BYTES_PER_TOKEN = 2 * 32 * 8 * 128 * 2
FULL = {("method",): "full", ("base_quantization",): None, ("precision",): "bf16", ("sequence_length",): 2048}


def plan(**edits: Any) -> Plan:
    """`roles__value_model="apart"` sets `phases.fine_tuning.roles.value_model`."""
    scenario = load_scenario(LLAMA)
    for path, value in (*FULL.items(), *((tuple(name.split("__")), value) for name, value in edits.items())):
        scenario = scenario.with_value(("phases", "fine_tuning", *path), value)
    return estimate(scenario, load_catalog())


def tuned(**edits: Any) -> PhasePlan:
    return plan(**edits).phases["fine_tuning"]


def held(phase: PhasePlan) -> dict[str, int]:
    return {role["role"]: role["allocated_bytes"] for role in phase.details["roles"]}


def test_dpo_holds_a_second_copy_of_the_weights_in_16_bits() -> None:
    alone, pair = tuned(), tuned(objective="dpo")
    start = pair.moments["start_of_step"].allocated_bytes - alone.moments["start_of_step"].allocated_bytes
    further_ids_and_labels = 2 * 2048 * 8
    assert start == 2 * PARAMETERS + further_ids_and_labels


def test_a_value_model_is_trained_with_weights_gradients_two_states_and_lists_of_the_one_optimizer() -> None:
    assert held(tuned(objective="ppo"))["value"] == (2 + 2 + 2 + 2 + 2) * SCORING + ROTARY_BYTES


def test_a_fused_optimizer_over_policy_and_value_model_makes_no_lists() -> None:
    alone, both = (tuned(objective=name, optimizer_implementation="fused") for name in ("sft", "ppo"))
    step = "optimizer_step"
    assert both.moments[step].components["temporaries"] == alone.moments[step].components["temporaries"]


def test_a_loop_over_the_tensors_of_both_models_makes_temporaries_of_one_tensor_only() -> None:
    alone = tuned(optimizer_implementation="for-loop").moments["optimizer_step"].components["temporaries"]
    both = tuned(objective="ppo", optimizer_implementation="for-loop").moments["optimizer_step"].components
    assert both["temporaries"] == alone


def test_a_value_model_with_a_step_of_its_own_waits_with_weights_and_states_while_the_policy_trains() -> None:
    alone = tuned(objective="ppo", roles__value_model="apart")
    phase = tuned(objective="ppo", roles__value_update="in-turn")
    waits, trains = (2 + 2 + 2) * SCORING + ROTARY_BYTES, (2 + 2) * SCORING
    for name in ("start_of_step", "backward", "optimizer_step"):
        assert phase.moments[name].allocated_bytes == alone.moments[name].allocated_bytes + waits
    ids_and_labels = 2048 * 8 * 2
    own_step = phase.moments["start_of_step"].allocated_bytes + trains + ids_and_labels
    assert phase.moments["value_update"].allocated_bytes == own_step


def test_in_a_pipeline_the_value_model_has_a_step_of_its_own() -> None:
    spread = {"parallelism__pipeline": 2, "gradient_accumulation_steps": 4}
    automatic, stated = (
        tuned(objective="ppo", roles__value_update=name, **spread) for name in ("automatic", "in-turn")
    )
    assert automatic.moments == stated.moments
    assert "value_update" in stated.moments


def test_gradients_of_the_value_model_that_megatron_adds_up_in_fp32_stay_while_the_policy_trains() -> None:
    fields = {"objective": "ppo", "roles__value_update": "in-turn", "precision": "bf16-fp32-master"}
    value = [item for item in tuned(**fields).terms if item.name == "value model: gradients"]
    assert [int(item.bytes) for item in value] == [4 * SCORING]
    assert "start_of_step" in value[0].alive


def test_a_value_model_on_gpus_of_its_own_has_a_row_of_scores_instead_of_a_head() -> None:
    group = plan(objective="ppo", roles__value_model="apart").phases["fine_tuning"].groups["value"]
    assert group.moments["optimizer_step"].components["gradients"] == 2 * SCORING
    ids_labels_and_rotary = 2048 * 8 * 2 + ROTARY_BYTES
    assert group.peak.allocated_bytes == (2 + 2 + 2 + 2 + 2) * SCORING + ids_labels_and_rotary
    assert group.components["logits"] == 0


def test_the_last_stage_of_a_scoring_model_holds_no_gradient_of_the_token_table() -> None:
    apart = {"objective": "ppo", "roles__value_model": "apart", "parallelism__pipeline": 2}
    group = tuned(**apart, parallelism__reported_stage="last").groups["value"]
    layers = (WITHOUT_HEAD - 128_256 * 4_096 - 4_096) // 2
    assert group.moments["optimizer_step"].components["gradients"] == 2 * (layers + 4_096 + 4_096)


def test_a_reward_model_beside_the_policy_holds_its_weights_alone() -> None:
    assert held(tuned(objective="ppo"))["reward"] == 2 * SCORING


def test_a_colocated_engine_holds_the_weights_again_and_a_cache() -> None:
    phase = tuned(objective="grpo", roles__rollout_engine="colocated", roles__rollout_sequences=16)
    assert held(phase)["rollout"] == 2 * PARAMETERS + 16 * 2048 * CACHE_BYTES_PER_TOKEN


@pytest.mark.parametrize("stages", [1, 2])
def test_the_roles_of_a_rank_sum_to_its_peak(stages: int) -> None:
    phase = tuned(objective="ppo", parallelism__pipeline=stages, gradient_accumulation_steps=4)
    assert sum(held(phase).values()) == phase.peak.allocated_bytes


def test_a_pipeline_divides_every_role_on_its_ranks() -> None:
    whole = held(tuned(objective="ppo", gradient_accumulation_steps=4))
    halves = held(tuned(objective="ppo", parallelism__pipeline=2, gradient_accumulation_steps=4))
    for role in ("reference", "reward", "value"):
        assert 0 < halves[role] < 0.6 * whole[role]


def test_roles_apart_leave_the_policy_as_if_it_were_alone_and_have_a_bar_each() -> None:
    apart = {f"roles__{name}": "apart" for name in ("rollout_engine", "value_model", "reward_model", "reference_model")}
    found = plan(objective="ppo", **apart)
    phase = found.phases["fine_tuning"]
    assert phase.peak.allocated_bytes == tuned().peak.allocated_bytes
    assert set(phase.groups) == {"reference", "value", "reward", "rollout"}
    chart = lifecycle_chart(found, gpus=(), judge="")
    assert [bar.group for bar in chart.bars if bar.phase == "fine_tuning"] == ["", *phase.groups]


def test_answers_are_written_before_the_step_with_a_cache_that_the_step_does_not_hold() -> None:
    phase = tuned(objective="grpo", roles__rollout_engine="policy", roles__rollout_sequences=64)
    cache = 64 * 2048 * CACHE_BYTES_PER_TOKEN
    start = phase.moments["start_of_step"].allocated_bytes
    assert phase.moments["rollout"].allocated_bytes == start + cache
    assert phase.moments["backward"].components["kv_cache"] == 0


def test_a_frozen_model_on_gpus_of_its_own_is_divided_where_zero_3_divides_the_policy() -> None:
    spread = {"parallelism__data": 8, "parallelism__zero_stage": 3, "parallelism__sharding_backend": "fsdp2"}
    group = tuned(objective="dpo", roles__reference_model="apart", **spread).groups["reference"]
    layer = (WITHOUT_HEAD - 128_256 * 4_096 - 4_096) // 32
    gathered = 2 * (2 * 128_256 * 4_096 + 4_096 + 2 * layer)
    assert abs(group.components["weights"] - (2 * PARAMETERS // 8 + gathered + ROTARY_BYTES)) < 64


def test_a_policy_that_writes_answers_gathers_the_experts_of_its_own_rank_only() -> None:
    whole, halves = (
        rollout_weights(
            {"experts": 8, "experts_per_token": 2, "expert_ffn_hidden_size": 1024}, expert=expert, data=4, zero_stage=3,
            sharding_backend="fsdp2",
        )
        for expert in (1, 2)
    )  # fmt: skip
    layers, experts_of_another_rank = 4, 4 * 3 * 512 * 1024
    assert whole - halves == layers * experts_of_another_rank * 2


def rollout_weights(dimensions: dict[str, Any], **parallelism: Any) -> int:
    """Gathered weights while the policy of a small model writes answers."""
    size = {"layers": 4, "hidden_size": 512, "attention_heads": 8, "kv_heads": 8, "ffn_hidden_size": 1024,
            "vocab_size": 4096, "max_positions": 1024}  # fmt: skip
    content = {
        "model": {"dimensions": size | dimensions},
        "phases": {
            "fine_tuning": {
                "method": "full", "precision": "bf16", "objective": "grpo", "parallelism": parallelism,
                "roles": {"rollout_engine": "policy", "reference": "none"},
            }
        },
    }  # fmt: skip
    terms = estimate(Scenario.of(content), load_catalog()).phases["fine_tuning"].terms
    return sum(int(item.bytes) for item in terms if item.name == "rollout: gathered weights")


def test_a_phase_fits_only_where_each_of_its_groups_of_gpus_does() -> None:
    apart = {"method": "lora", "objective": "ppo", "roles__value_model": "apart", "value__parameters": 70_000_000_000}
    phase = tuned(**apart, roles__reward_model="apart")
    for gpu, verdict in phase.verdicts.items():
        group = phase.groups["value"].verdicts[gpu]
        assert (verdict.verdict, verdict.group, verdict.headroom_bytes) == ("oom", "value", group.headroom_bytes)
        assert phase.own_verdicts[gpu].group == ""
        assert (phase.own_verdicts[gpu].headroom_bytes or 0) > (group.headroom_bytes or 0)


def test_the_stage_that_is_shown_is_the_fullest_with_its_rollout() -> None:
    engine = {"objective": "grpo", "method": "lora", "roles__rollout_engine": "policy", "roles__rollout_sequences": 400}
    phase = tuned(**engine, parallelism__pipeline=2, gradient_accumulation_steps=2)
    stages = phase.details["stages"]
    assert {stage["peak_moment"] for stage in stages} == {"rollout"}
    assert phase.peak.allocated_bytes == max(stage["allocated_bytes"] for stage in stages)


def test_weights_of_a_sleeping_engine_and_an_offloaded_reference_wait_in_host_ram() -> None:
    engine = {"objective": "grpo", "roles__rollout_engine": "colocated", "rollout__sleeps": True}
    before, after = tuned(objective="grpo"), tuned(**engine, reference__offloaded=True, roles__policy_sleeps=True)
    assert after.host_ram["rollout engine: weights that wait"] == 2 * PARAMETERS
    assert after.host_ram["reference model: weights that wait"] == 2 * PARAMETERS
    assert after.host_ram["policy: states that wait"] == 2 * 2 * PARAMETERS
    assert not any("wait" in name for name in before.host_ram)
    value = tuned(objective="ppo", roles__policy_sleeps=True).host_ram["value model: states that wait"]
    assert value == 2 * 2 * SCORING
    assert "rollout engine: weights that wait" not in tuned(**engine, rollout__sleep_level=2).host_ram


@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers"])
def test_a_rollout_engine_on_gpus_of_its_own_serves_as_a_phase_of_serving_would(engine: str) -> None:
    found = plan(objective="grpo", rollout__engine=engine, roles__rollout_sequences=8)
    group = found.phases["fine_tuning"].groups["rollout"]
    scenario = load_scenario(LLAMA)
    content = {
        "engine": engine,
        "weights": "bf16",
        "kv_cache_dtype": "bf16",
        "concurrent_sequences": 8,
        "context_length": 2048,
    }
    served = estimate(scenario.with_value(("phases", "serving"), content), load_catalog()).phases["serving"]
    assert group.peak == served.peak


def test_the_search_for_gpus_counts_what_is_held_while_answers_are_written() -> None:
    writing = {"objective": "grpo", "roles__rollout_engine": "policy"}
    phases = (tuned(**writing, roles__rollout_sequences=count) for count in (16, 8192))
    few, many = (phase.own_verdicts["h100-sxm5-80gb"].gpus_needed for phase in phases)
    assert few is not None
    assert many is None or few < many


def test_a_role_may_be_a_model_with_a_configuration_of_its_own() -> None:
    config = {
        "architectures": ["LlamaForSequenceClassification"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 1000,
        "tie_word_embeddings": False,
        "num_labels": 1,
    }
    layer = 4 * 64 * 64 + 3 * 64 * 128 + 2 * 64
    parameters = 1000 * 64 + 2 * layer + 64 + 64
    phase = tuned(objective="ppo", reward__config_json=json.dumps(config))
    told = {role["role"]: role["parameters"] for role in phase.details["roles"]}
    assert told["reward"] == parameters
    assert held(phase)["reward"] == 2 * parameters


def test_a_configuration_that_is_none_is_refused_as_it_is_typed() -> None:
    with pytest.raises(ScenarioError, match="no JSON object"):
        tuned(objective="ppo", reward__config_json="{not json")
