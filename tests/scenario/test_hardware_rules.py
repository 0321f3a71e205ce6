from typing import Any

import pytest

T4 = {"gpus": ["t4"]}
H100_AND_T4 = {"gpus": ["h100-sxm5-80gb", "t4"]}


def test_a_gpu_that_nobody_knows_is_named_with_the_nearest(check: Any) -> None:
    text = check("design", hardware={"gpus": ["h100"]})["error hardware.gpus.0"]
    assert "has no GPU 'h100'" in text
    assert "h100-sxm5-80gb" in text


def test_the_judge_is_one_of_the_gpus(check: Any) -> None:
    found = check("design", hardware={"gpus": ["h100-sxm5-80gb", "l40s"], "judge": "a10"})
    assert found == {"error hardware.judge": "a10 is not among the GPUs. Use h100-sxm5-80gb or l40s."}


def test_a_card_of_ones_own_can_judge_by_its_name(check: Any) -> None:
    hardware = {"gpus": ["l40s", {"name": "Next year's", "memory_gib": 192}], "judge": "Next year's"}
    assert check("design", hardware=hardware) == {}


def test_a_gpu_listed_twice_is_warned_of(check: Any) -> None:
    found = check("design", hardware={"gpus": ["l40s", {"id": "l40s", "count": 2}]})
    assert found == {"warning hardware.gpus.1": "l40s is listed twice."}


def test_a_server_that_nobody_knows_is_named_with_the_nearest(check: Any) -> None:
    found = check("design", hardware={"node": "aws-p3-2xlarg"})
    assert found == {
        "error hardware.node": "The catalogue has no node aws-p3-2xlarg. Did you mean aws-p3-2xlarge?",
    }
    assert check("design", hardware={"node": "aws-p3-2xlarge"}) == {}
    assert check("design", hardware={"node": {"name": "Ours", "host_ram_bytes": 10**12}}) == {}


def test_bf16_on_a_turing_card_is_emulated(check: Any) -> None:
    text = check("training", hardware=T4, precision="amp-bf16")["warning precision"]
    assert text == "Tesla T4 16 GB cannot compute in bf16. Use amp-fp16 or fp32."


def test_bf16_weights_stop_vllm_on_a_turing_card_that_judges(check: Any) -> None:
    assert set(check("serving", hardware=T4)) == {"error weights"}
    assert set(check("serving", hardware=H100_AND_T4)) == {"warning weights"}
    assert check("serving", hardware=T4, weights="fp16") == {}


def test_fp8_training_needs_fp8_units(check: Any) -> None:
    assert check("training", precision="fp8") == {}
    found = check("training", hardware={"gpus": ["a100-sxm4-80gb"]}, precision="fp8")
    assert found["error precision"].endswith("cannot compute in fp8. Use bf16.")


@pytest.mark.parametrize(("weights", "gpu"), [("fp8", "a100-sxm4-80gb"), ("nvfp4", "h100-sxm5-80gb")])
def test_weights_narrower_than_the_units_are_unpacked(check: Any, weights: str, gpu: str) -> None:
    assert set(check("serving", hardware={"gpus": [gpu]}, weights=weights)) == {"warning weights"}


def test_flash_attention_needs_ampere(check: Any) -> None:
    fields = {"precision": "fp16", "attention_implementation": "flash_attention_2"}
    assert check("training", **fields) == {}
    found = check("training", hardware=T4, **fields)
    assert found == {"error attention_implementation": "Tesla T4 16 GB cannot run FlashAttention 2. Use sdpa or eager."}


def test_several_gpus_are_named_in_one_sentence(check: Any) -> None:
    text = check("training", hardware={"gpus": ["t4", "v100-sxm2-16gb", "l40s"]}, precision="bf16")
    assert text["warning precision"].startswith("Tesla T4 16 GB and Tesla V100 SXM2 16 GB cannot compute in bf16")


V100 = {"gpus": ["v100-sxm2-32gb"]}
A100 = {"gpus": ["a100-sxm4-80gb"]}


def test_awq_needs_turing(check: Any) -> None:
    found = check("serving", hardware=V100, weights="awq-int4", kv_cache_dtype="fp16")
    assert "AWQ" in found["error weights"]
    assert "error weights" not in check("serving", hardware=T4, weights="awq-int4", kv_cache_dtype="fp16")


def test_a_cache_in_fp8_needs_ada_or_flashinfer(check: Any) -> None:
    assert "error kv_cache_dtype" in check("serving", hardware=T4, weights="fp16", kv_cache_dtype="fp8")
    found = check("serving", hardware=A100, kv_cache_dtype="fp8")
    assert "FlashInfer" in found["warning kv_cache_dtype"]
    assert "warning kv_cache_dtype" not in check("serving", hardware={"gpus": ["l40s"]}, kv_cache_dtype="fp8")
    assert "warning kv_cache_dtype" not in check("serving", hardware={"gpus": ["mi300x"]}, kv_cache_dtype="fp8")
