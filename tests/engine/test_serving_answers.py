"""The longest request, the smallest copy and the number of copies."""

import json
from dataclasses import replace

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.phases.serving import plan_serving
from planner.engine.servers import plan_server, serving_workload
from planner.hardware import load_hardware
from planner.model.spec import Attention, DenseFeedForward, Embedding, Head, LayerGroup, ModelSpec, Stack
from planner.scenario import Scenario
from planner.scenario.serving import Serving

HARDWARE, CATALOG = load_hardware(), load_catalog()
ENGINES = (("vllm", "bf16"), ("sglang", "bf16"), ("tensorrt-llm", "bf16"), ("llama.cpp", "q8_0"))


def llama(layers, hidden, heads, size, positions=10**6) -> ModelSpec:
    group = LayerGroup(layers, Attention(heads, 8, 128), DenseFeedForward(size))
    stack = Stack("decoder", hidden, Embedding(128256, hidden), (group,))
    return ModelSpec("m", "llama", "causal-lm", (stack,), Head(128256), positions)


LLAMA_8B, LLAMA_70B = llama(32, 4096, 32, 14336), llama(80, 8192, 64, 28672)


def answers(spec, gpu, gpus_per_node=8, **fields):
    chosen = HARDWARE.resolve(gpu)
    phase = Serving.model_validate_json(json.dumps(fields))
    return plan_serving(phase, spec, [chosen], chosen, HARDWARE, gpus_per_node=gpus_per_node).details["kv"]


@pytest.mark.parametrize(("engine", "weights"), ENGINES)
def test_the_longest_request_fits_and_one_block_more_does_not(engine, weights):
    fields = {"engine": engine, "weights": weights, "engine_version": "0.19"}
    longest = answers(LLAMA_8B, "rtx-4090", **fields)["largest_context"]["rtx-4090"]
    assert 8192 < longest < 10**6
    load = serving_workload(Serving.model_validate_json(json.dumps(fields)), LLAMA_8B)
    chosen = HARDWARE.resolve("rtx-4090")
    for length, fits in ((longest, True), (longest + 256, False)):
        changed = replace(load, sequences=1, context_tokens=length, prompt_tokens=length)
        plan = plan_server(engine, changed, chosen, HARDWARE.overheads)
        assert (plan.need_bytes <= plan.capacity_bytes and not plan.refused) == fits


def test_the_longest_request_is_at_most_what_the_model_was_made_for():
    found = answers(llama(32, 4096, 32, 14336, positions=8192), "h100-sxm5-80gb", engine_version="0.19")
    assert found["largest_context"] == {"h100-sxm5-80gb": 8192}


def test_a_model_that_does_not_load_has_no_longest_request():
    found = answers(LLAMA_70B, "rtx-4090", engine_version="0.19")
    assert found["largest_context"] == {"rtx-4090": None}


def test_llama_70b_loads_on_two_h200_and_on_no_node_of_four_cards_of_24_gib():
    assert answers(LLAMA_70B, "h200-sxm-141gb", engine_version="0.19")["smallest_tensor_parallel"] == {
        "h200-sxm-141gb": 2
    }
    few = answers(LLAMA_70B, "rtx-4090", gpus_per_node=4, engine_version="0.19")
    assert few["smallest_tensor_parallel"] == {"rtx-4090": None}
    assert few["replicas"] == {"rtx-4090": None}


def test_copies_share_requests_of_the_expected_length():
    fields = {"engine_version": "0.19", "concurrent_sequences": 256, "context_length": 32768}
    full = answers(LLAMA_8B, "l40s", **fields)["replicas"]["l40s"]
    short = answers(LLAMA_8B, "l40s", context_distribution={"mean": 2048}, **fields)
    # 23 GiB of cache hold six requests of 32 768 tokens, and about ninety of 2 048
    assert full == 43
    assert short["replicas"]["l40s"] == 3
    assert short["tokens_expected"] == 256 * 2048


def whole(**serving):
    """The answers of a whole estimate, whose passes are traced."""
    scenario = Scenario.of(
        {
            "format": "vram-planner/scenario", "version": 1, "model": {"preset": "meta-llama/Llama-3.1-8B"},
            "phases": {"serving": {"engine": "transformers", **serving}}, "hardware": {"gpus": ["rtx-4090"]},
        }
    )  # fmt: skip
    return estimate(scenario, CATALOG).to_json()["phases"]["serving"]


def test_transformers_traces_a_pass_for_each_length_it_tries():
    longest = whole()["kv"]["largest_context"]["rtx-4090"]
    assert longest % 256 == 0
    for length, fits in ((longest, True), (longest + 256, False)):
        budget = whole(context_length=length)["engine_budget"]["rtx-4090"]
        assert (budget["reserved_bytes"] <= budget["total_bytes"]) == fits


def test_transformers_copies_hold_fewer_requests_with_longer_prompts():
    fields = {"concurrent_sequences": 64, "context_length": 4096}
    copies = whole(**fields)["kv"]["replicas"]["rtx-4090"]
    short = whole(**fields, context_distribution={"mean": 512})["kv"]["replicas"]["rtx-4090"]
    assert copies > 2 * short >= 2


def test_an_unstated_version_is_covered_by_the_band():
    chosen = HARDWARE.resolve("h100-sxm5-80gb")
    known, unknown = (
        plan_serving(Serving.model_validate_json(text), LLAMA_8B, [chosen], chosen, HARDWARE)
        for text in ('{"engine_version": "0.19"}', "{}")
    )
    need = unknown.needs[chosen.id]
    assert need.need_bytes == known.needs[chosen.id].need_bytes
    assert known.needs[chosen.id].low_bytes == known.needs[chosen.id].high_bytes == need.need_bytes
    # 0.16 and earlier sort 38 bytes for each of 1024 x 128 256 logits
    assert need.high_bytes - need.need_bytes > 2.5 * 10**9
    assert any("not stated" in text for text in unknown.warnings)


def test_each_gpu_has_the_spread_of_its_own_step_size():
    # cards of 70 GiB and more sample 1024 rows by default, smaller ones 256
    large, small = HARDWARE.resolve("h100-sxm5-80gb"), HARDWARE.resolve("l40s")
    answer = plan_serving(Serving.model_validate_json("{}"), LLAMA_8B, [large, small], large, HARDWARE)
    above = {gpu.id: answer.needs[gpu.id].high_bytes - answer.needs[gpu.id].need_bytes for gpu in (large, small)}
    assert above[large.id] > 3 * above[small.id] > 0


def test_transformers_counts_what_passes_work_with_in_the_gpus_it_asks_for():
    # eager attention over 32 768 tokens: 64 GiB of scores for one layer of Llama 3.1 8B, in fp32 and in 16 bits
    asked = {
        name: whole(context_length=32768, attention_implementation=name)["verdicts"]["rtx-4090"]["gpus_needed"]
        for name in ("sdpa", "eager")
    }
    assert asked["sdpa"] <= 2
    assert asked["eager"] is None or asked["eager"] > asked["sdpa"]
