"""Sizing questions on serving that other tools got wrong: what ours must say. Each test names its report."""

from dataclasses import replace
from math import ceil

import pytest

from planner.engine.estimate import estimate
from planner.engine.servers import serving_workload
from planner.engine.servers.division import rate
from planner.model.spec import (
    Attention,
    DenseFeedForward,
    LayerGroup,
    MixtureOfExperts,
)
from planner.scenario import Scenario
from planner.scenario.serving import Serving
from planner.units import GIB
from serving_reports import (
    CATALOG,
    HARDWARE,
    LLAMA_3_70B,
    QWEN3_32B,
    llama,
    model,
    phase,
    plan,
    preset,
    serving,
    weights,
)


class TestServing:
    def test_c2_qwen3_32b_on_one_h100_refuses_32000_tokens_and_serves_16000(self):
        # llm-d-planner docs/empirical-vllm-memory-results.md: 7.81 GiB are needed, 4.45 are free, 3.91 would do
        fields = {"engine_version": "0.11 V1", "max_num_seqs": 1024, "max_num_batched_tokens": 8192}
        long, short = (plan(QWEN3_32B, context_length=tokens, **fields) for tokens in (32000, 16000))
        assert "7.81 GiB KV cache is needed" in long.needs["h100-sxm5-80gb"].refusal
        assert short.needs["h100-sxm5-80gb"].refusal is None

    def test_c6_a_smaller_share_is_no_smaller_need(self):
        # vllm-project/vllm#7028: 0.1 of a T4 are 1.5 GiB, Mistral 7B in AWQ takes 4 GB
        spec = llama(32, 4096, 32, 8, 14336, 32000)
        need = plan(spec, "t4", weights="awq-int4", gpu_memory_utilization=0.1, context_length=2048).needs["t4"]
        assert need.refusal is not None
        assert need.need_bytes > 2 * need.capacity_bytes

    def test_c4_blocks_are_the_pool_over_block_and_token(self):
        # llm-d/llm-d-benchmark#454
        answer = plan(QWEN3_32B, engine_version="0.19", kv_cache_memory_bytes=4 * GIB)
        assert answer.details["kv"]["blocks_available"]["h100-sxm5-80gb"] == 4 * GIB // (16 * 262144)
        assert answer.details["kv"]["tokens_available"]["h100-sxm5-80gb"] == 4 * GIB // (16 * 262144) * 16

    def test_c8_a_share_above_95_percent_is_warned_of(self):
        # vllm-project/vllm#1298
        assert any("GPU share of 1" in text for text in plan(LLAMA_3_70B, gpu_memory_utilization=1.0).warnings)

    def test_c10_scores_of_whole_prompts_are_counted_in_evaluation(self):
        # vllm-project/vllm#5907: lm-eval asks for log-probabilities of the prompt, which no server profiles
        answers = {
            logits: phase("evaluation", "Qwen/Qwen3-8B", batch_size=8, sequence_length=4096, logits=logits)
            for logits in ("all", "last")
        }
        scores = 8 * 4096 * 151936 * 2
        assert answers["all"]["components"]["logits"] >= scores
        assert answers["all"]["peak"]["allocated_bytes"] - answers["last"]["peak"]["allocated_bytes"] > scores / 2

    def test_c12_a_reranker_needs_its_weights_and_one_pass(self):
        # gpustack/gpustack#2412: 13.8 GiB estimated, 926 MiB used in f16
        answer = serving("BAAI/bge-reranker-v2-m3", "l4", weights="fp16", engine="transformers", context_length=512)
        assert answer["kv"]["bytes_needed"]["l4"] == 0
        assert 1.0 * GIB < answer["peak"]["allocated_bytes"] < 1.3 * GIB

    def test_c14_an_embedding_model_is_booked_by_need_not_by_share(self):
        # gpustack/gpustack#1047: 90 % of the card were booked, 500 MB used
        answer = serving("google-bert/bert-base-uncased", "rtx-4090", engine_version="0.19", context_length=512)
        assert answer["verdicts"]["rtx-4090"]["verdict"] == "fits"
        assert answer["verdicts"]["rtx-4090"]["headroom_bytes"] > 19 * GIB

    def test_c16_a_card_is_judged_by_its_own_share_not_by_the_sum(self):
        # gpustack/gpustack#1126: 27 908 MiB on a card of 24 GiB, though eight of them hold 192
        spec = preset("deepseek-ai/DeepSeek-R1")
        fields = {"engine": "llama.cpp", "weights": "iq2_xxs", "context_length": 8192, "parallelism": {"pipeline": 8}}
        need = plan(spec, "rtx-3090", **fields).needs["rtx-3090"]
        assert need.need_bytes > 0.99 * need.capacity_bytes
        assert need.need_bytes > weights(spec, "iq2_xxs") / 8

    def test_c18_a_card_holds_its_shard_and_what_works_on_it(self):
        # ollama/ollama#9782: 71 680 MiB of layers and 2 322 MiB of buffers, of which the estimate left out the latter
        spec = preset("deepseek-ai/DeepSeek-R1")
        fields = {"engine": "llama.cpp", "weights": "q4_k_m", "context_length": 8192, "parallelism": {"pipeline": 8}}
        answer = plan(spec, "a100-sxm4-80gb", **fields)
        parts = answer.details["engine_budget"]["a100-sxm4-80gb"]
        need = answer.needs["a100-sxm4-80gb"].need_bytes
        assert parts["activation_bytes"] > 0.2 * GIB
        assert need == sum(
            parts[part] for part in ("weights_bytes", "kv_cache_bytes", "activation_bytes", "non_torch_bytes")
        )
        assert parts["weights_bytes"] >= weights(spec, "q4_k_m") / 8

    def test_c20_a_card_has_its_own_memory_however_many_stand_in_a_node(self):
        # kaito-project/kaito#1838: the memory of one card was divided by their number once more
        def capacity(count):
            scenario = Scenario.of(
                {
                    "format": "vram-planner/scenario", "version": 1, "model": {"preset": "Qwen/Qwen3-8B"},
                    "phases": {"serving": {"parallelism": {"tensor": count}}},
                    "hardware": {"gpus": ["h100-nvl-94gb"], "gpus_per_node": count},
                }
            )  # fmt: skip
            answer = estimate(scenario, CATALOG).to_json()["phases"]["serving"]
            return answer["engine_budget"]["h100-nvl-94gb"]["total_bytes"]

        assert capacity(1) == capacity(2) == HARDWARE.resolve("h100-nvl-94gb").capacities.usable_bytes > 90 * GIB

    def test_c22_what_is_derived_can_be_stated_instead(self):
        # kaito-project/kaito#1956: five nodes were forced on a model, and nothing could be changed
        automatic = plan(QWEN3_32B, "h200-sxm-141gb", engine_version="0.19")
        stated = plan(QWEN3_32B, "h200-sxm-141gb", engine_version="0.19", gpu_memory_utilization=0.5,
                      max_num_batched_tokens=1024, max_num_seqs=16, block_size=32, kv_cache_memory_bytes=8 * GIB,
                      parallelism={"tensor": 2, "pipeline": 2, "data": 3})  # fmt: skip
        budgets = [answer.details["engine_budget"]["h200-sxm-141gb"] for answer in (automatic, stated)]
        assert budgets[1]["kv_cache_bytes"] == 8 * GIB
        assert all(
            budgets[0][part] > budgets[1][part] for part in ("budget_bytes", "weights_bytes", "activation_bytes")
        )
        own = Scenario.of(
            {
                "format": "vram-planner/scenario", "version": 1, "model": {"preset": "Qwen/Qwen3-8B"},
                "phases": {"serving": {}}, "hardware": {"gpus": ["l40s"], "gpu_total_bytes": 60 * GIB},
            }
        )  # fmt: skip
        answer = estimate(own, CATALOG).to_json()["phases"]["serving"]
        assert answer["engine_budget"]["l40s"]["total_bytes"] == 60 * GIB

    def test_c24_deepseek_v4_pro_does_not_start_at_a_static_fraction_of_0_88(self):
        # SemiAnalysisAI/InferenceX#2128: 125.65 GB on each of eight H200; 0.9113 is the least that starts
        held = 125.65e9
        one = llama(1, 8192, 64, 8, 8192, 8192)
        spec = model((LayerGroup(1, Attention(64, 8, 128), DenseFeedForward(int(held / 3 / 8192 / 2))),), 8192, 8192)
        assert weights(spec, "bf16") == pytest.approx(held, rel=0.01)
        needs = {
            fraction: plan(spec, "h200-sxm-141gb", engine="sglang", gpu_memory_utilization=fraction)
            .needs["h200-sxm-141gb"]
            for fraction in (0.83, 0.93)
        }  # fmt: skip
        assert needs[0.83].refusal is not None
        assert needs[0.93].refusal is None
        assert one.layers == 1

    def test_c26_tensorrt_shares_what_is_free_and_the_others_all(self):
        # ai-dynamo/aiconfigurator#1159
        budgets = {
            engine: plan(QWEN3_32B, engine=engine, gpu_memory_utilization=0.9, context_length=1024).details[
                "engine_budget"]["h100-sxm5-80gb"]
            for engine in ("vllm", "tensorrt-llm")
        }  # fmt: skip
        free = budgets["tensorrt-llm"]
        fixed = sum(free[part] for part in ("weights_bytes", "activation_bytes", "non_torch_bytes", "cuda_graph_bytes"))
        assert free["kv_cache_bytes"] == int(0.9 * (free["total_bytes"] - fixed))
        assert budgets["vllm"]["budget_bytes"] == int(0.9 * budgets["vllm"]["total_bytes"])

    def test_c28_the_floor_is_the_weights_over_the_budget(self):
        # redhat-performance/configiq#89: eleven nodes of eight were recommended for 550 GB in fp8, one runs it
        moe = MixtureOfExperts(160, 16, 2688)
        spec = model((LayerGroup(88, Attention(64, 8, 128), moe),), 4608, 131072)
        from planner.engine.phases.serving_layout import serving_gpus_needed

        load = serving_workload(Serving(weights="fp8", engine_version="0.19"), spec)
        chosen = HARDWARE.resolve("h200-sxm-141gb")
        floor = ceil(weights(spec, "fp8") / (0.9 * chosen.capacities.usable_bytes))
        assert floor <= serving_gpus_needed("vllm", load, chosen, HARDWARE) <= 8

    def test_c30_the_fullest_stage_counts(self):
        # deepseek-ai/DeepSeek-V3#205: ranks of an uneven pipeline differ
        spec = llama(61, 7168, 56, 8, 18432, 129280)
        assert weights(spec, "bf16", pipeline=4) > weights(spec, "bf16") / 4

    def test_c32_a_model_too_large_for_its_card_is_flagged(self):
        # lmstudio-bug-tracker#1753
        answer = serving("google/gemma-4-26B-A4B", "rtx-3070", engine="llama.cpp", weights="q4_k_m",
                         context_length=262144)  # fmt: skip
        assert answer["verdicts"]["rtx-3070"]["verdict"] == "oom"

    @pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "transformers"])
    def test_c34_what_is_not_known_is_neither_enough_nor_too_little(self, engine):
        # lmstudio-bug-tracker#1544: "estimate unavailable" and "not enough resources" stood side by side.
        # What CUDA would hand out of this card is not known to anybody
        scenario = Scenario.of(
            {
                "format": "vram-planner/scenario", "version": 1, "model": {"preset": "Qwen/Qwen3-8B"},
                "phases": {"serving": {"engine": engine, "engine_version": "0.19"}},
                "hardware": {"gpus": ["strix-halo-128gb"]},
            }
        )  # fmt: skip
        answer = estimate(scenario, CATALOG).to_json()["phases"]["serving"]
        (verdict,) = answer["verdicts"].values()
        assert verdict["verdict"] == "unknown"
        assert answer["peak"]["process_bytes"] > 16 * 10**9
        assert not any("not start" in text or "memory" in text.lower() for text in answer["warnings"])

    def test_c36_the_output_buffer_lives_on_the_host(self):
        # tobocop2/lilbee#761: +65.8 % for a small model with a large vocabulary
        spec = llama(28, 1024, 16, 8, 3072, 151936, tied=True)
        answer = plan(spec, "rtx-4090", engine="llama.cpp", weights="q8_0", concurrent_sequences=4)
        logits = next(item for item in answer.host_terms if item.name == "logits")
        assert logits.bytes == 151936 * 4 * 4
        assert all(item.name != "logits" for item in answer.ledger.terms)

    def test_two_heads_on_four_gpus_are_held_one_each(self):
        # serving rates with more ranks than KV heads replicate them
        load = serving_workload(Serving(), llama(24, 896, 14, 2, 4864, 151936, head_dim=64))
        assert rate(replace(load, tensor_parallel=4)) == rate(load) // 2
