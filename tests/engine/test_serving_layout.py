"""The smallest number of GPUs for a serving load."""

import json
from dataclasses import replace

from planner.engine.phases.serving_layout import layouts, serving_gpus_needed
from planner.engine.servers import serving_workload
from planner.hardware import load_hardware
from planner.model.spec import Attention, DenseFeedForward, Embedding, Head, LayerGroup, ModelSpec, Stack
from planner.scenario.serving import Serving

HARDWARE = load_hardware()


def llama(layers, hidden, heads, ffn) -> ModelSpec:
    group = LayerGroup(layers, Attention(heads, 8, 128), DenseFeedForward(ffn))
    stack = Stack("decoder", hidden, Embedding(128256, hidden), (group,))
    return ModelSpec("m", "llama", "causal-lm", (stack,), Head(128256), 131072)


LLAMA_70B, LLAMA_8B = llama(80, 8192, 64, 28672), llama(32, 4096, 32, 14336)


def needed(spec, gpu, **fields):
    phase = Serving.model_validate_json(json.dumps({"engine_version": "0.19", **fields}))
    return serving_gpus_needed(phase.engine, serving_workload(phase, spec), HARDWARE.resolve(gpu), HARDWARE)


def test_llama_70b_in_bf16_needs_two_h100_and_four_l40s_and_one_in_fp8_on_an_h200():
    assert needed(LLAMA_70B, "h100-sxm5-80gb") == 2
    assert needed(LLAMA_70B, "l40s") == 4
    assert needed(LLAMA_70B, "h200-sxm-141gb", weights="fp8") == 1


def test_more_requests_need_more_gpus():
    assert needed(LLAMA_8B, "l40s", concurrent_sequences=1) == 1
    assert needed(LLAMA_8B, "l40s", concurrent_sequences=256) > 4


def test_tensor_parallel_divides_the_heads_and_stays_in_a_node():
    found = set(layouts("vllm", LLAMA_8B, 16, 8))
    assert (8, 2, 1) in found
    assert all(tensor * pipeline * data == 16 for tensor, pipeline, data in found)
    assert {tensor for tensor, _, _ in found} == {1, 2, 4, 8}


def test_llama_cpp_cuts_by_layers_alone():
    assert {tensor for tensor, _, _ in layouts("llama.cpp", LLAMA_8B, 4, 8)} == {1}


def test_an_unknown_capacity_has_no_answer():
    chosen = HARDWARE.resolve("l40s")
    unknown = replace(chosen, capacities=replace(chosen.capacities, usable_bytes=None))
    load = serving_workload(Serving.model_validate_json("{}"), LLAMA_8B)
    assert serving_gpus_needed("vllm", load, unknown, HARDWARE) is None
