"""What holds for every serving load: more of anything takes no less, and what is off takes nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.servers import plan_server, rate, serving_workload
from planner.engine.servers.workload import AdapterPlaces
from planner.hardware import load_hardware
from planner.model.spec import (
    PLAIN_ROTARY,
    Attention,
    DenseFeedForward,
    Embedding,
    Head,
    LayerGroup,
    ModelSpec,
    RotaryTable,
    Stack,
)
from planner.scenario.serving import Serving

HARDWARE = load_hardware()
GPU = HARDWARE.resolve("h100-sxm5-80gb")
SCALINGS = ("default", "linear", "ntk", "dynamic", "yarn", "longrope", "llama3")
ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama.cpp")
engines, small = st.sampled_from(ENGINES), st.integers(1, 64)


def model(layers=4, positions=4096, rotary=PLAIN_ROTARY) -> ModelSpec:
    group = LayerGroup(layers, Attention(16, 4, 64), DenseFeedForward(2816))
    stack = Stack("decoder", 1024, Embedding(32000, 1024), (group,))
    return ModelSpec("m", "qwen3", "causal-lm", (stack,), Head(32000), positions, rotary=rotary)


def load(engine, **changes):
    weights = "q8_0" if engine == "llama.cpp" else "bf16"
    base = serving_workload(Serving(engine=engine, weights=weights, context_length=2048), model())
    return replace(base, **changes)


def need(engine, **changes):
    return int(plan_server(engine, load(engine, **changes), GPU, HARDWARE.overheads).need_bytes)


@settings(max_examples=60, deadline=None)
@given(engines, small, small, st.sampled_from((8, 16, 64)))
def test_more_adapters_take_no_less(engine, first, second, rank):
    few, many = sorted((first, second))
    needs = [need(engine, adapters=AdapterPlaces(count, rank)) for count in (few, many)]
    assert need(engine) < needs[0] <= needs[1]
    # every place is alike
    assert (needs[1] - need(engine)) * few == (needs[0] - need(engine)) * many


@settings(max_examples=60, deadline=None)
@given(engines, small, small, st.sampled_from(("eagle", "eagle3", "ngram")))
def test_drafting_takes_no_less_and_n_grams_nothing_of_the_cache(engine, sequences, tokens, method):
    plain = load(engine, sequences=sequences)
    drafted = replace(plain, speculative_tokens=tokens, draft_method=method)
    assert rate(drafted) >= rate(plain)
    assert (rate(drafted) == rate(plain)) == (method == "ngram")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ENGINES[:3]), st.sampled_from(SCALINGS), st.floats(1, 64), st.integers(1, 131072), st.booleans())
def test_stretching_positions_never_shortens_a_table(engine, scaling, factor, positions, sections):
    table = RotaryTable("all", scaling, factor, positions, sections)
    plain, stretched = (load(engine, spec=model(positions=positions, rotary=(one,))) for one in (RotaryTable(), table))
    sizes = [plan_server(engine, one, GPU, HARDWARE.overheads).holdings.weights_bytes for one in (plain, stretched)]
    assert sizes[1] >= sizes[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_ranks_hold_no_more_of_an_adapter_than_one_gpu(engine):
    spread = {"pipeline": 2} if engine == "llama.cpp" else {"tensor_parallel": 4}
    adapters = AdapterPlaces(8, 32)
    alone = need(engine, adapters=adapters) - need(engine)
    shared = need(engine, adapters=adapters, **spread) - need(engine, **spread)
    assert 0 < shared < alone
