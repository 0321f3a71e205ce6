from typing import Any

import pytest

from planner.hardware import load_hardware
from planner.model import resolve_model
from planner.scenario import Scenario, validate


def layout(**fields: Any) -> dict[str, Any]:
    return {"parallelism": fields}


MANY = {"gpus_per_node": 64, "nodes": 64}


def test_three_ranks_cannot_share_32_heads(check: Any) -> None:
    found = check("training", **layout(tensor=3))
    assert found == {"error parallelism.tensor": "3 does not divide 32 attention heads. Use 2 or 4."}


@pytest.mark.parametrize("degree", [1, 2, 4, 8, 16, 32])
def test_divisors_of_the_heads_are_fine_even_above_the_key_value_heads(check: Any, degree: int) -> None:
    assert check("training", hardware=MANY, **layout(tensor=degree)) == {}


def test_more_ranks_than_heads_suggest_the_most_there_can_be(check: Any) -> None:
    found = check("training", hardware=MANY, **layout(tensor=64))
    assert found == {"error parallelism.tensor": "64 does not divide 32 attention heads. Use 32."}


def test_key_value_heads_must_be_shared_evenly(check: Any) -> None:
    """12 heads and 12 key-value heads on 6 ranks are fine, on 5 not."""
    assert check("design", model="gpt2", **layout(tensor=6)) == {}
    assert "Use 4 or 6" in check("design", model="gpt2", **layout(tensor=5))["error parallelism.tensor"]


def test_tensor_parallel_over_nodes_is_unwise(check: Any) -> None:
    found = check("training", hardware={"gpus_per_node": 8, "nodes": 4}, **layout(tensor=16))
    assert found["warning parallelism.tensor"].startswith("16 tensor-parallel ranks reach beyond one node of 8 GPUs")


def test_serving_follows_the_same_rule_but_llama_cpp_has_no_tensor_parallel_heads(check: Any) -> None:
    assert "error parallelism.tensor" in check("serving", **layout(tensor=3))
    assert check("serving", engine="llama.cpp", **layout(tensor=3)) == {}


def test_a_stage_needs_at_least_one_layer(check: Any) -> None:
    found = check("training", hardware=MANY, **layout(pipeline=64))
    assert found == {"error parallelism.pipeline": "64 stages are more than the model's 32 layers. Use 32."}


def test_a_trial_on_a_few_layers_has_no_more_stages_than_these(check: Any) -> None:
    found = check("design", trial_layers=2, **layout(pipeline=4))
    assert found["error parallelism.pipeline"] == "4 stages are more than the model's 2 layers. Use 2."
    assert "error parallelism.pipeline" not in check("design", trial_layers=2, **layout(pipeline=2))


@pytest.mark.parametrize("preset", ["microsoft/swin-tiny-patch4-window7-224", "runwayml/stable-diffusion-v1-5"])
def test_what_is_no_chain_of_layers_has_no_pipeline(preset: str) -> None:
    model = {"preset": preset}
    phases = {"training": {"sequence_length": 77, **layout(pipeline=2)}}
    scenario = Scenario.of({"name": preset, "model": model, "phases": phases})
    found = validate(scenario, resolve_model(scenario.model), load_hardware())
    assert [(issue.severity, issue.code) for issue in found] == [("error", "pipeline_of_pyramid")]


def test_uneven_stages_are_unwise(check: Any) -> None:
    found = check("training", **layout(pipeline=5))
    assert found == {
        "warning parallelism.pipeline": "32 layers do not divide into 5 equal stages; the fullest has 7. Use 4 or 8."
    }


def test_chunks_need_a_pipeline(check: Any) -> None:
    assert "error parallelism.pipeline_interleave" in check("training", **layout(pipeline_interleave=2))


@pytest.mark.parametrize("stage", [2, 3])
def test_zero_2_and_3_exclude_a_pipeline(check: Any, stage: int) -> None:
    text = check("training", **layout(data=2, zero_stage=stage, pipeline=2))["error parallelism.zero_stage"]
    assert text.startswith(f"DeepSpeed ZeRO cannot combine ZeRO stage {stage} with a pipeline")
    assert "Use stage 0 or 1" in text


def test_fsdp2_goes_with_a_pipeline(check: Any) -> None:
    """torchtitan trains Llama 3.1 405B so (its benchmarks, table 5)."""
    assert check("training", **layout(data=2, zero_stage=3, pipeline=2, sharding_backend="fsdp2")) == {}


@pytest.mark.parametrize(
    ("backend", "stage", "legal"),
    [("ddp", 1, "0"), ("fsdp2", 1, "2 or 3"), ("megatron-distributed-optimizer", 3, "0 or 1")],
)
def test_each_software_has_its_zero_stages(check: Any, backend: str, stage: int, legal: str) -> None:
    text = check("training", **layout(data=2, zero_stage=stage, sharding_backend=backend))
    assert text["error parallelism.zero_stage"].endswith(f"does not do ZeRO stage {stage}. Use {legal}.")


def test_zero_alone_divides_nothing(check: Any) -> None:
    found = check("training", **layout(zero_stage=2))
    assert found == {"warning parallelism.zero_stage": "With one data-parallel rank, ZeRO divides nothing."}


def test_zero_on_one_rank_has_a_use_when_states_are_offloaded(check: Any) -> None:
    assert check("training", offload={"optimizer": "cpu", "parameters": "cpu"}, **layout(zero_stage=3)) == {}


def test_weights_wait_elsewhere_only_when_they_are_sharded(check: Any) -> None:
    found = check("training", offload={"parameters": "cpu"}, **layout(data=2, zero_stage=2))
    assert set(found) == {"error offload.parameters"}


def test_a_dense_model_has_no_experts_to_spread(check: Any) -> None:
    found = check("training", **layout(data=2, expert=2))
    assert found == {"error parallelism.expert": "The model has no experts to spread. Use 1."}


def test_experts_are_dealt_whole(check: Any) -> None:
    assert check("training", model="mixtral", **layout(data=8, expert=8)) == {}
    found = check("training", model="mixtral", **layout(data=8, expert=3))
    assert found == {"error parallelism.expert": "3 does not divide 8 experts. Use 2 or 4."}
    assert (
        "at most the 2 GPUs"
        in check("training", model="mixtral", **layout(data=2, expert=4))["error parallelism.expert"]
    )


def test_ranks_that_share_an_expert_and_those_that_have_others_are_no_more_than_there_are(check: Any) -> None:
    core = {"activation_profile": "megatron-core"}
    found = check("training", model="mixtral", **core, **layout(tensor=4, expert=4, sequence_parallel=True))
    assert found["error parallelism.expert_tensor"] == (
        "Expert tensor × expert parallelism takes 16 GPUs; a stage has 4. Use 1."
    )
    told = layout(tensor=4, expert=4, sequence_parallel=True, expert_tensor=1)
    assert "error parallelism.expert_tensor" not in check("training", model="mixtral", **core, **told)


def test_ulysses_exchanges_whole_heads(check: Any) -> None:
    found = check("training", sequence_length=3072, **layout(context=3, context_parallel_mode="ulysses"))
    assert found == {
        "error parallelism.context": "Ulysses exchanges heads: 3 does not divide 32 attention heads. Use 2 or 4."
    }


def test_a_ring_deals_two_pieces_to_each_rank(check: Any) -> None:
    assert check("training", sequence_length=4096, **layout(context=8)) == {}
    found = check("training", sequence_length=4104, **layout(context=8))
    assert found == {"warning sequence_length": "4\u202f104 tokens do not divide among 16 ranks."}


def test_sequence_parallel_needs_equal_parts(check: Any) -> None:
    found = check("training", sequence_length=1001, **layout(tensor=4, sequence_parallel=True))
    assert found == {"error sequence_length": "1\u202f001 tokens do not divide among 4 ranks."}


def test_a_layout_larger_than_the_cluster_is_said_to_be_so(check: Any) -> None:
    found = check("training", hardware={"nodes": 2}, **layout(data=4, tensor=8))
    assert found == {
        "warning parallelism": "This layout needs 32 GPUs, and only 16 are there. The figures per GPU still hold."
    }


def test_the_count_of_the_judging_gpu_is_what_is_there(check: Any) -> None:
    hardware = {"gpus": ["h100-sxm5-80gb", {"id": "l40s", "count": 4}], "judge": "l40s"}
    assert check("training", hardware=hardware, **layout(data=4)) == {}
    assert "only 4 are there" in check("training", hardware=hardware, **layout(data=8))["warning parallelism"]


def test_without_a_model_only_what_does_not_depend_on_it_is_checked(check: Any) -> None:
    assert check("training", model=None, **layout(tensor=3)) == {}
    assert "error parallelism.zero_stage" in check("training", model=None, **layout(zero_stage=3, data=2, pipeline=2))
