"""Serving and evaluation at best."""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.plan import PhaseName
from planner.engine.speed import Speed, rough_speed
from planner.scenario import Scenario

CATALOG = load_catalog()
LAYERS, HEAD = 6_979_321_856, 525_336_576
READ = 2 * (8_030_261_248 - 128256 * 4096)
"""Bytes of Llama 3.1 8B in 16 bits without its token table."""


def speed(
    fields: dict[str, Any], gpu: str = "h100-sxm5-80gb", phase: PhaseName = "serving",
    preset: str = "meta-llama/Llama-3.1-8B", **hardware: Any,
) -> Speed:  # fmt: skip
    document = {"model": {"preset": preset}, "phases": {phase: fields}, "hardware": {"gpus": [gpu], **hardware}}
    found = rough_speed(Scenario.of(document), phase, CATALOG)
    assert found is not None
    return found


def test_a_token_reads_the_weights_and_the_cache_of_all_requests() -> None:
    found = speed({"concurrent_sequences": 16, "context_length": 4096})
    cache = 16 * 4096 * 131_072  # 128 KiB per token
    assert found.bound == "memory"
    assert found.seconds == pytest.approx((READ + cache) / 3350e9)
    assert found.figure("tokens per second and request") == pytest.approx(1 / found.seconds)
    assert found.figure("tokens per second") == pytest.approx(16 / found.seconds)


def test_the_first_token_waits_for_the_arithmetic_of_its_prompt() -> None:
    found = speed({"context_length": 8192, "prompt_tokens": 4096})
    prompt = found.first[0]
    arithmetic = 2 * LAYERS * 4096 + 2 * HEAD + 32 * 32 * 128 * 4 * 4096 * 4097 / 2
    assert prompt.bound == "compute"
    assert found.figure("time to first token") == pytest.approx(arithmetic / 989e12)


def test_narrower_weights_and_caches_are_read_faster() -> None:
    times = [
        speed({"concurrent_sequences": 32, "weights": weights, "kv_cache_dtype": cache}).seconds
        for weights, cache in (("bf16", "bf16"), ("fp8", "bf16"), ("fp8", "fp8"), ("awq-int4", "fp8"))
    ]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 4


def test_replicas_raise_the_rate_of_all_requests_and_tensor_parallelism_that_of_each() -> None:
    one = speed({"concurrent_sequences": 16})
    two = speed({"concurrent_sequences": 32, "parallelism": {"data": 2}})
    assert two.figure("tokens per second") == pytest.approx(2 * (one.figure("tokens per second") or 0))
    assert two.figure("tokens per second and request") == one.figure("tokens per second and request")
    split = speed({"concurrent_sequences": 16, "parallelism": {"tensor": 2}})
    assert split.seconds == pytest.approx(one.seconds / 2, rel=1e-3)


def test_stages_work_in_turn_so_that_a_token_is_no_sooner() -> None:
    one = speed({"concurrent_sequences": 8})
    staged = speed({"concurrent_sequences": 8, "parallelism": {"pipeline": 2}})
    assert staged.seconds > 0.6 * one.seconds
    reading = next(work for work in staged.passes[0].works if work.name == "reading weights")
    assert reading.amount == pytest.approx(READ, rel=0.1)


def test_guessed_tokens_may_all_be_right_at_best() -> None:
    plain, guessed = (speed({"speculative_tokens": count}) for count in (0, 3))
    assert guessed.figure("time per output token") == pytest.approx(plain.seconds / 4, rel=0.01)
    assert "What guesses tokens ahead is not counted." in guessed.notes


def test_llama_cpp_is_told_by_its_memory_alone() -> None:
    found = speed({"engine": "llama.cpp", "weights": "q4_k_m", "kv_cache_dtype": "fp16"}, "rtx-4090")
    assert found.figure("time to first token") is None
    assert found.figure("tokens per second and request") is not None
    assert any("peak rate" in note for note in found.notes)
    part = {"engine": "llama.cpp", "weights": "q4_k_m", "kv_cache_dtype": "fp16", "gpu_layers": 10}
    assert "What the processor computes of the layers on the host is not counted." in speed(part, "rtx-4090").notes


def test_a_mixture_reads_the_experts_that_its_batch_visits() -> None:
    mixtral = "mistralai/Mixtral-8x7B-v0.1"
    lonely, many = (speed({"concurrent_sequences": count, "context_length": 16}, preset=mixtral) for count in (1, 64))
    read = [next(w for w in item.passes[0].works if w.name == "reading weights").amount for item in (lonely, many)]
    assert read[0] == pytest.approx(2 * 12.8e9, rel=0.03)  # 12.9 billion active weights, less the token table
    assert read[1] == pytest.approx(2 * 46.6e9, rel=0.01)  # all 46.7 billion


def test_an_embedder_answers_in_one_pass() -> None:
    found = speed({"context_length": 512, "engine": "transformers"}, preset="google-bert/bert-base-uncased")
    assert found.first == ()
    assert found.what == "request"
    assert found.figure("time per output token") is None


def test_what_makes_images_and_what_is_not_planned_has_no_speed() -> None:
    flux = {"model": {"preset": "black-forest-labs/FLUX.1-dev"}, "phases": {"serving": {"engine": "transformers"}}}
    assert rough_speed(Scenario.of(flux), "serving", CATALOG) is None
    assert rough_speed(Scenario.of(flux), "training", CATALOG) is None


def test_a_batch_of_an_evaluation_takes_two_flop_per_weight_and_token() -> None:
    found = speed({"batch_size": 4, "sequence_length": 1024, "logits": "last"}, phase="evaluation")
    work = {item.name: item.amount for item in found.passes[0].works if item.resource == "compute"}
    assert work["products with weights, decoder"] == 2 * LAYERS * 1024 * 4
    assert work["output projection"] == 2 * HEAD * 4
    assert found.figure("sequences per second") == pytest.approx(4 / found.seconds)


def test_images_are_counted_in_patches() -> None:
    """ViT-B/16: 196 patches of an image of 224 pixels; about 17.6 GFLOP for one, two per multiplication."""
    found = speed({"batch_size": 1}, phase="evaluation", preset="google/vit-base-patch16-224")
    total = sum(work.amount for work in found.passes[0].works if work.resource == "compute")
    assert total == pytest.approx(2 * 17.6e9, rel=0.03)
    assert found.figure("images per second") == pytest.approx(1 / found.seconds)


PRICED = {"price_per_gpu_hour": 2.0, "currency": "EUR", "gpus_per_node": 8}


def test_costs_follow_from_the_stated_price_alone() -> None:
    assert speed({}).costs == ()
    found = speed({"concurrent_sequences": 16, "parallelism": {"tensor": 2}}, **PRICED)
    costs = {item.name: (item.value, item.unit) for item in found.costs}
    assert costs["cost per hour"] == (4.0, "EUR")
    rate = found.figure("tokens per second") or 0
    assert costs["cost per million output tokens"][0] == pytest.approx(4.0 / 3600 / rate * 1e6)


def test_a_run_costs_as_many_steps_as_its_tokens_need() -> None:
    fields = {"run_tokens": 10**12, "parallelism": {"data": 8}, "gradient_accumulation_steps": 4}
    found = speed(fields, phase="training", **PRICED)
    steps = 1e12 / (8 * 4 * 2048)
    assert found.figure("hours of the run") == pytest.approx(steps * found.seconds / 3600)
    assert found.figure("cost per step") == pytest.approx(found.seconds / 3600 * 8 * 2.0)
    assert found.figure("cost of the run") == pytest.approx(steps * (found.figure("cost per step") or 0))


def test_the_run_learns_once_from_every_prepared_sample_unless_told_otherwise() -> None:
    document = {
        "model": {"preset": "meta-llama/Llama-3.1-8B"},
        "phases": {"preprocessing": {"samples": 1000, "tokens_per_sample": 1500}, "training": {}},
    }
    found = rough_speed(Scenario.of(document), "training", CATALOG)
    assert found is not None
    assert found.figure("hours of the run") == pytest.approx(1_500_000 / 2048 * found.seconds / 3600)


def test_the_price_of_the_judge_is_not_that_of_another_gpu() -> None:
    entries = ["h100-sxm5-80gb", {"id": "l40s", "price_per_gpu_hour": 1.0}, "a10"]
    document = {
        "model": {"preset": "meta-llama/Llama-3.1-8B"}, "phases": {"serving": {}},
        "hardware": {"gpus": entries, "price_per_gpu_hour": 2.0},
    }  # fmt: skip
    hourly = {}
    for gpu in ("h100-sxm5-80gb", "l40s", "a10", "h200-sxm-141gb"):
        found = rough_speed(Scenario.of(document), "serving", CATALOG, gpu)
        assert found is not None
        assert found.gpu == gpu
        hourly[gpu] = found.figure("cost per hour")
    assert hourly == {"h100-sxm5-80gb": 2.0, "l40s": 1.0, "a10": None, "h200-sxm-141gb": None}
