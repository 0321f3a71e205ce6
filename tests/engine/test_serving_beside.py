"""What is served beside the model: adapters, draft models and heads, and caches of two formats."""

import json
from dataclasses import replace

import pytest

from planner.engine.kv_cache import CachePolicy, kv_cache_terms, total_bytes
from planner.engine.phases.serving import plan_serving
from planner.engine.servers import rate, serving_workload
from planner.engine.servers.adapters import adapter_terms
from planner.engine.servers.drafts import drafted_load, head_terms
from planner.engine.servers.host_weights import fetched_layer
from planner.engine.servers.torch_engine import engine_weights, module_terms, served_weights
from planner.hardware import load_hardware
from planner.model import resolve_model
from planner.model.counts import lora_parameters, parameters
from planner.model.prediction import drafting_modules
from planner.model.spec import (
    Attention,
    DenseFeedForward,
    Embedding,
    Head,
    LayerGroup,
    MixtureOfExperts,
    ModelSpec,
    Stack,
)
from planner.scenario.model_source import PresetModel
from planner.scenario.serving import Serving
from planner.units import GIB, MIB

HARDWARE = load_hardware()


def model(model_type="qwen3", feed_forward=None, layers=32, hidden=4096, heads=32) -> ModelSpec:
    group = LayerGroup(layers, Attention(heads, 8, 128), feed_forward or DenseFeedForward(14336))
    stack = Stack("decoder", hidden, Embedding(128256, hidden), (group,))
    return ModelSpec("m", model_type, "causal-lm", (stack,), Head(128256), 8192)


def load(spec, **fields):
    return serving_workload(Serving.model_validate_json(json.dumps(fields)), spec)


def adapters(spec, count=4, rank=16, **fields):
    served = {"count": count, "rank": rank, **fields.pop("adapters", {})}
    return total_bytes(adapter_terms(load(spec, adapters=served, **fields)))


def plan(spec, gpu="h100-sxm5-80gb", **fields):
    chosen = HARDWARE.resolve(gpu)
    return plan_serving(Serving.model_validate_json(json.dumps(fields)), spec, [chosen], chosen, HARDWARE)


class TestAdapters:
    def test_without_adapters_nothing_is_set_aside(self):
        assert adapter_terms(load(model())) == ()

    def test_places_are_as_wide_as_the_widest_adapter_on_every_linear_layer(self):
        # q and o 4096 + 4096, k and v 4096 + 1024, gate, up and down 4096 + 14336: 81 920 per unit of rank and layer
        assert adapters(model()) == 4 * 16 * 32 * 81920 * 2
        assert adapters(model()) == 4 * lora_parameters(model(), 16) * 2

    def test_vllm_gives_places_to_layers_that_the_adapters_leave_alone(self):
        few = {"target_modules": ["q_proj", "v_proj"]}
        assert adapters(model(), adapters=few) == adapters(model())
        assert adapters(model(), engine="sglang", adapters=few) == 4 * 16 * 32 * (8192 + 5120) * 2

    def test_one_matrix_of_two_stays_whole_on_every_rank(self):
        # lora/layers/base_linear.py: A of columns whole, B of rows whole
        inputs = 3 * 4096 + 1024 + 2 * 4096 + 14336 // 4
        outputs = (4096 + 2 * 1024 + 2 * 14336) // 4 + 2 * 4096
        spread = {"parallelism": {"tensor": 4}}
        assert adapters(model(), **spread) == 4 * 16 * 32 * (inputs + outputs) * 2

    def test_fully_sharded_places_are_divided_by_tensor_parallelism(self):
        spread = {"parallelism": {"tensor": 4}, "adapters": {"fully_sharded": True}}
        assert adapters(model(), **spread) == adapters(model()) // 4

    def test_llama_has_places_for_its_vocabulary_too(self):
        # embedding_modules of LlamaForCausalLM; 256 more words each before 0.12
        places = 2 * (128256 + 4096) * 4 * 16 * 2
        assert adapters(model("llama"), engine_version="0.19") - adapters(model()) == places
        assert adapters(model("llama"), engine_version="0.9") - adapters(model("llama"), engine_version="0.19") == (
            2 * 256 * 4 * 16 * 2
        )

    def test_experts_have_places_since_0_11_1(self):
        spec = model("qwen3_moe", MixtureOfExperts(8, 2, 1024))
        each = 2 * 4096 + 2 * 1024 + 1024 + 4096
        more = adapters(spec, engine_version="0.19") - adapters(spec, engine_version="0.10")
        assert more == 4 * 16 * 32 * 8 * each * 2

    def test_llama_cpp_and_peft_keep_adapters_in_fp32(self):
        whole = lora_parameters(model(), 16) * 4
        assert adapters(model(), count=1, engine="llama.cpp", weights="q4_k_m") == whole
        assert adapters(model(), count=1, engine="transformers") == whole
        assert adapters(model(), count=1, engine="transformers", adapters={"dtype": "bf16"}) == whole // 2

    @pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp"])
    def test_every_engine_counts_them_among_its_weights(self, engine):
        fields = {"engine": engine, "weights": "q8_0" if engine == "llama.cpp" else "bf16"}
        alone = plan(model(), **fields).details["engine_budget"]["h100-sxm5-80gb"]["weights_bytes"]
        served = plan(model(), adapters={"count": 2, "rank": 64}, **fields).details["engine_budget"]["h100-sxm5-80gb"]
        added = adapters(model(), count=2, rank=64, **fields)
        assert served["weights_bytes"] - alone == added > 300 * MIB

    def test_the_cache_pool_of_vllm_loses_what_adapters_take(self):
        pools = [
            plan(model(), engine_version="0.19", **extra).details["engine_budget"]["h100-sxm5-80gb"]["kv_cache_bytes"]
            for extra in ({}, {"adapters": {"count": 8, "rank": 32}})
        ]
        assert pools[0] - pools[1] == adapters(model(), count=8, rank=32)

    def test_v0_overlooked_the_places_it_made(self):
        # vllm-project/vllm#14450
        served = {"adapters": {"count": 8, "rank": 32}}
        for version, loses in (("0.6.4 V0", True), ("0.7 V0", False), ("0.9", True)):
            pools = [
                plan(model(), engine_version=version, **extra).details["engine_budget"]["h100-sxm5-80gb"][
                    "kv_cache_bytes"]
                for extra in ({}, served)
            ]  # fmt: skip
            assert (pools[0] > pools[1]) == loses
        need = plan(model(), engine_version="0.7 V0", **served).needs["h100-sxm5-80gb"]
        assert need.high_bytes - need.need_bytes == adapters(model(), count=8, rank=32)


class TestDrafters:
    def test_an_eagle_3_head_of_llama_3_1_8b_weighs_850_megabytes(self):
        # huggingface.co/yuhuili/EAGLE3-LLaMA3.1-Instruct-8B/tree/main: pytorch_model.bin, fp16, 850 MB
        base = load(model("llama"), speculative_tokens=4, drafter={"method": "eagle3"})
        drafted = drafted_load(base)
        assert drafted is not None
        head = total_bytes(head_terms(base)) + total_bytes(engine_weights(drafted))
        assert head == pytest.approx(0.85e9, rel=0.005)

    def test_an_eagle_head_is_a_layer_and_a_projection_of_two_widths(self):
        base = load(model("llama"), speculative_tokens=4, drafter={"method": "eagle"})
        added = total_bytes(served_weights(base)) - total_bytes(engine_weights(base))
        layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
        assert added == (layer + 2 * 4096 * 4096) * 2

    def test_a_head_caches_one_more_layer(self):
        assert rate(load(model(), speculative_tokens=2, drafter={"method": "eagle"})) == 33 * 4096

    def test_a_draft_model_brings_its_weights_and_its_cache(self):
        base = load(model("llama"), speculative_tokens=4,
                    drafter={"method": "draft-model", "model": "meta-llama/Llama-3.2-1B-Instruct"})  # fmt: skip
        small = resolve_model(PresetModel(preset="meta-llama/Llama-3.2-1B-Instruct"))
        added = total_bytes(served_weights(base)) - total_bytes(engine_weights(base))
        assert added == parameters(small) * 2 + 131072 * 64 * 2
        # 16 layers of 8 heads of 64
        assert rate(base) == 131072 + 16 * 8 * 64 * 2 * 2

    def test_deepseeks_own_draft_layer_caches_its_latent(self):
        spec = resolve_model(PresetModel(preset="deepseek-ai/DeepSeek-V3"))
        assert rate(load(spec)) == 61 * 1152
        assert rate(load(spec, speculative_tokens=1)) == 62 * 1152

    @pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
    def test_every_engine_loads_deepseeks_draft_layer_and_shares_table_and_head(self, engine):
        # README_WEIGHTS.md: 11.5B of the module's 14B are its own
        spec = resolve_model(PresetModel(preset="deepseek-ai/DeepSeek-V3"))
        alone, drafting = (
            total_bytes(served_weights(load(spec, engine=engine, speculative_tokens=count))) for count in (0, 1)
        )
        added = drafting - alone
        assert added == parameters(drafting_modules(spec)) * 2 == pytest.approx(2 * 11.5e9, rel=0.01)

    def test_vllm_had_a_copy_of_the_head_for_each_module_before_it_shared_one(self):
        # vllm-project/vllm#34385; vllm-project/vllm-ascend#2790 tells 1.72 GiB for a copy
        spec = resolve_model(PresetModel(preset="deepseek-ai/DeepSeek-V3"))
        new, old = (
            total_bytes(module_terms(load(spec, speculative_tokens=1, engine_version=version)))
            for version in ("0.19 V1", "0.11 V1")
        )
        assert old - new == 129280 * 7168 * 2
        assert (old - new) / GIB == pytest.approx(1.72, abs=0.01)

    def test_on_a_pipeline_vllm_loads_the_token_table_again(self):
        spec = resolve_model(PresetModel(preset="Qwen/Qwen3-Next-80B-A3B-Instruct"))
        alone, staged = (
            total_bytes(module_terms(load(spec, speculative_tokens=1, parallelism={"pipeline": stages})))
            for stages in (1, 2)
        )
        assert staged - alone == 151936 * 2048 * 2

    def test_a_draft_layer_in_fp8_keeps_its_projection_in_16_bits(self):
        spec = resolve_model(PresetModel(preset="zai-org/GLM-4.5"))
        (kept,) = (
            item for item in module_terms(load(spec, speculative_tokens=1, weights="fp8"))
            if item.name == "draft: norms, biases and other weights kept"
        )  # fmt: skip
        hidden = 5120
        router, norms = 160 * hidden, 2 * hidden + 3 * hidden + 2 * 128
        biases = (96 + 2 * 8) * 128
        assert kept.bytes == 2 * (2 * hidden * hidden + router + norms + biases)

    def test_a_draft_model_beside_a_hybrid_shares_its_pages(self):
        spec = resolve_model(PresetModel(preset="Qwen/Qwen3-Next-80B-A3B-Instruct"))
        fields = {"engine_version": "0.19 V1", "parallelism": {"tensor": 4}}
        alone, guessed, layered = (
            plan(spec, speculative_tokens=2, drafter=chosen, **fields).details["kv"]["bytes_needed"]["h100-sxm5-80gb"]
            for chosen in (
                {"method": "ngram"},
                {"method": "draft-model", "model": "Qwen/Qwen3-0.6B"},
                {"method": "mtp"},
            )
        )
        assert alone < layered < guessed

    def test_n_grams_take_nothing(self):
        guessed = load(model(), speculative_tokens=4, drafter={"method": "ngram"})
        assert rate(guessed) == rate(load(model()))
        assert total_bytes(served_weights(guessed)) == total_bytes(engine_weights(guessed))

    def test_sglang_reserves_more_for_a_model_of_its_own(self):
        # server_args.py: 2 GiB for EAGLE, 6 GiB for STANDALONE
        drafter = {"method": "draft-model", "model": "meta-llama/Llama-3.2-1B-Instruct"}
        budgets = [
            plan(model(), engine="sglang", speculative_tokens=4, drafter=chosen).details["engine_budget"][
                "h100-sxm5-80gb"]["budget_bytes"]
            for chosen in ({"method": "ngram"}, {"method": "eagle"}, drafter)
        ]  # fmt: skip
        assert budgets[0] - budgets[1] == pytest.approx(2 * GIB, rel=0.05)
        assert budgets[1] - budgets[2] == pytest.approx(4 * GIB, rel=0.05)

    def test_llama_cpp_loads_a_draft_model_whole_with_a_context_as_long(self):
        drafter = {"method": "draft-model", "model": "meta-llama/Llama-3.2-1B-Instruct"}
        fields = {"engine": "llama.cpp", "weights": "q8_0", "kv_cache_dtype": "q8_0", "context_length": 16384}
        alone, drafted = (
            plan(model(), **fields, **extra).details["buffers"]
            for extra in ({}, {"speculative_tokens": 8, "drafter": drafter})
        )
        # its cache stays in fp16
        assert drafted["kv_bytes"] - alone["kv_bytes"] == 16384 * 32768
        assert drafted["compute_bytes"] - alone["compute_bytes"] == 512 * (128256 + 2048) * 4

    def test_a_model_without_draft_layer_is_warned_of(self):
        assert any("No draft layer" in text for text in plan(model(), speculative_tokens=2).warnings)
        eagle = plan(model(), speculative_tokens=2, drafter={"method": "eagle"})
        assert not any("No draft layer" in text for text in eagle.warnings)


class TestHostWeights:
    def test_weights_in_host_ram_leave_the_gpu_and_give_their_room_to_the_cache(self):
        budgets = [
            plan(model(), engine_version="0.19", **extra).details["engine_budget"]["h100-sxm5-80gb"]
            for extra in ({}, {"cpu_offload_bytes": 10 * GIB})
        ]
        assert budgets[0]["weights_bytes"] - budgets[1]["weights_bytes"] == 10 * GIB
        assert budgets[1]["kv_cache_bytes"] - budgets[0]["kv_cache_bytes"] == 10 * GIB

    def test_table_and_head_never_move(self):
        kept = served_weights(load(model(), cpu_offload_bytes=500 * GIB))
        assert sorted(item.name for item in kept) == ["embeddings", "head", "rotary table"]

    def test_a_model_too_large_for_a_card_starts_with_half_of_it_in_host_ram(self):
        alone, helped = (
            plan(model(layers=48), gpu="rtx-4090", weights="fp16", engine_version="0.19", context_length=4096, **extra)
            .needs["rtx-4090"].refusal
            for extra in ({"max_num_seqs": 1024}, {"max_num_seqs": 1024, "cpu_offload_bytes": 8 * GIB})
        )  # fmt: skip
        assert alone is not None
        assert helped is None

    def test_sglang_copies_a_layer_at_a_time_and_vllm_reads_it_where_it_lies(self):
        layer = (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096) * 2
        offloaded = load(model(), cpu_offload_bytes=8 * GIB, engine="sglang")
        (copied,) = fetched_layer(offloaded, engine_weights(offloaded))
        assert copied.bytes == pytest.approx(layer, rel=0.001)
        read = load(model(), cpu_offload_bytes=8 * GIB, engine_version="0.19")
        assert fetched_layer(read, engine_weights(read)) == ()


class TestTwoFormats:
    def test_keys_and_values_may_differ(self):
        # gpustack/gpustack#2101 ran Gemma 3 with -ctk q8_0 and values in f16
        policy = CachePolicy(34 / 32, value_bytes=2)
        terms = kv_cache_terms(model(), policy, ("decode",), sequences=1, tokens=32)
        assert total_bytes(terms) == 32 * 32 * 8 * 128 * (34 / 32 + 2)

    def test_llama_cpp_keeps_them_apart(self):
        fields = {"engine": "llama.cpp", "weights": "q8_0", "context_length": 4096}
        both = plan(model(), kv_cache_dtype="q8_0", value_cache_dtype="q4_0", **fields).details
        assert both["buffers"]["kv_bytes"] == 4096 * 32 * 8 * 128 * (34 + 18) // 32
        assert both["kv"]["bytes_per_token"] == 32 * 8 * 128 * (34 + 18) // 32

    def test_equal_formats_are_told_as_before(self):
        base = load(model(), engine="llama.cpp", weights="q8_0", kv_cache_dtype="q8_0")
        assert rate(base) == rate(replace(base, value_cache_type="q8_0"))
