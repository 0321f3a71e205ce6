"""Sizing questions on caches and weights that other tools got wrong: what ours must say. Each test names its report."""

from dataclasses import replace

import pytest

from planner.engine.kv_cache import CachePolicy, kv_bytes_per_token, kv_cache_terms, total_bytes
from planner.engine.quantization import weight_terms
from planner.model.counts import parameters
from planner.model.spec import (
    Attention,
    LatentAttention,
    LayerGroup,
    MixtureOfExperts,
    Quantization,
)
from planner.scenario import Scenario
from planner.scenario.serving import Serving
from planner.units import GIB, MIB
from serving_reports import HARDWARE, LLAMA_3_70B, QWEN3_32B, llama, model, plan, preset, serving, weights


class TestCacheAndAttention:
    def test_a2_mistral_small_at_49152_tokens_in_q8_0(self):
        # ollama/ollama#6160: buffers of 17 295 + 5 712 + 192 MiB, 23 508 MiB in nvidia-smi
        spec = llama(56, 6144, 48, 8, 16384, 32768)
        fields = {"engine": "llama.cpp", "kv_cache_dtype": "q8_0", "context_length": 49152}
        answer = plan(spec, "rtx-4090", weights="q6_k", **fields)
        assert answer.details["buffers"]["kv_bytes"] == 5712 * MIB
        assert plan(spec, "rtx-4090", weights="q4_0", **fields).needs["rtx-4090"].need_bytes < 24 * GIB

    def test_a4_mistral_small_3_1_takes_24_to_30_gib_over_three_cards(self):
        # ollama/ollama#10359: 59 GB were shown, 26 694 MiB used; q8_0 is the mixture whose file has that size
        spec = llama(40, 5120, 32, 8, 32768, 131072)
        fields = {"engine": "llama.cpp", "context_length": 32768, "parallelism": {"pipeline": 3}}
        need = plan(spec, "t4", weights="q4_k_m", **fields).needs["t4"].need_bytes
        assert 14 * GIB < 3 * need < 30 * GIB

    def test_a6_gemma_3_27b_holds_windows_of_1024(self):
        # gpustack/gpustack#2101: K in q8_0, V in f16, 128 000 tokens: 7.79 GiB, not 139 GB
        groups = (
            LayerGroup(52, Attention(32, 16, 128, window=1024), None),
            LayerGroup(10, Attention(32, 16, 128), None),
        )
        policy = CachePolicy((34 / 32 + 2) / 2)
        terms = kv_cache_terms(model(groups, 5376, 262208), policy, ("decode",), sequences=1, tokens=128000)
        assert total_bytes(terms) == pytest.approx(7.79 * GIB, rel=0.001)

    def test_a8_gpt_oss_120b_keeps_73728_bytes_per_token(self):
        # alvarobartt/hf-mem#60: sliding layers were dropped
        groups = (
            LayerGroup(18, Attention(64, 8, 64, window=128), None),
            LayerGroup(18, Attention(64, 8, 64), None),
        )
        assert kv_bytes_per_token(model(groups, 2880, 201088)) == 73728

    def test_a10_gemma_4_31b_keeps_983040_bytes_per_token(self):
        # alvarobartt/hf-mem#61: only the 163 840 of its ten global layers were said; vLLM 24.54 GiB / 26 800 tokens
        groups = (
            LayerGroup(50, Attention(32, 16, 256, window=1024), None),
            LayerGroup(10, Attention(32, 8, 512), None),
        )
        assert kv_bytes_per_token(model(groups, 5376, 262144)) == 983040

    def test_a12_qwen3_6_27b_charges_no_linear_attention_layers(self):
        # tobocop2/lilbee#721: 24.83 GiB estimated, 17.6 GiB allocated for one slot of 65 536 tokens
        answer = serving("Qwen/Qwen3.5-27B", "rtx-4090", engine="llama.cpp", weights="q4_k_m", kv_cache_dtype="q8_0",
                         context_length=65536)  # fmt: skip
        parts = ("model_gpu_bytes", "kv_bytes", "state_bytes", "compute_bytes")
        held = sum(answer["buffers"][part] for part in parts)
        assert 0.97 * 17.6 * GIB < held < 1.08 * 17.6 * GIB

    def test_a14_deepseek_r1_caches_its_latent(self):
        # fjacquet/llmvram: 6.7 GB were shown for 4 096 tokens
        assert kv_bytes_per_token(preset("deepseek-ai/DeepSeek-R1")) * 4096 == pytest.approx(0.268 * GIB, rel=0.002)

    def test_a16_the_cache_does_not_depend_on_the_number_of_parameters(self):
        # Osmantic/ODS#3324
        wide = llama(80, 8192, 64, 8, 4 * 28672, 128256)
        assert kv_bytes_per_token(wide) == kv_bytes_per_token(LLAMA_3_70B)

    def test_a18_llama_3_70b_at_32k_and_batch_8_caches_80_gib(self):
        # inferbase.ai: 640 GiB, because head_dim was hidden / kv_heads
        terms = kv_cache_terms(LLAMA_3_70B, CachePolicy(), ("decode",), sequences=8, tokens=32768)
        assert total_bytes(terms) == 80 * GIB

    def test_a20_head_dims_are_those_stated_and_keys_may_differ_from_values(self):
        # ollama/ollama#17201
        odd = Attention(40, 8, 128, value_head_dim=64)
        assert kv_bytes_per_token(model((LayerGroup(10, odd, None),), 2560, 1000)) == 10 * 8 * (128 + 64) * 2
        latent = LatentAttention(16, 512, 128, 64, 128)
        assert kv_bytes_per_token(model((LayerGroup(27, latent, None),), 2048, 102400)) == 27 * 576 * 2

    def test_a22_the_default_context_is_a_workload_not_the_models_maximum(self):
        # AlexsJones/llmfit#302: 262 144 tokens made 26.3 GB of a 5.29 GiB file
        assert Serving().context_length == 8192
        file_gib = 5_680_529_408 / GIB
        assert file_gib == pytest.approx(5.290, abs=0.001)

    def test_a24_one_engine_is_behind_every_number(self):
        # unslothai/unsloth#10489: two labels disagreed
        answer = plan(QWEN3_32B, engine_version="0.19", context_length=4096)
        pool = answer.details["engine_budget"]["h100-sxm5-80gb"]["kv_cache_bytes"]
        tokens = answer.details["kv"]["tokens_available"]["h100-sxm5-80gb"]
        assert tokens == pool // (16 * 262144) * 16
        assert answer.details["kv"]["largest_context"]["h100-sxm5-80gb"] == tokens

    def test_a26_a_pipeline_stage_caches_its_own_layers(self):
        # microsoft/vidur memory_planner.py
        assert kv_bytes_per_token(LLAMA_3_70B, pipeline=4) * 4 == kv_bytes_per_token(LLAMA_3_70B)

    def test_a28_the_total_holds_weights_and_cache_and_a_small_activation(self):
        # sgl-project/sglang#16224: activation was twice the weights, and the cache left out
        answer = plan(LLAMA_3_70B, "h200-sxm-141gb", engine="sglang", weights="fp8", concurrent_sequences=8)
        parts = {item.component: int(item.bytes) for item in answer.ledger.terms}
        assert answer.needs["h200-sxm-141gb"].need_bytes >= 67 * GIB + 8 * 8192 * 327680
        assert parts["activations"] < 0.05 * answer.needs["h200-sxm-141gb"].need_bytes


class TestWeights:
    def test_b2_deepseek_v3_takes_all_its_experts(self):
        # AlexsJones/llmfit#497: 22 GB; 671e9 x 0.58 = 389 GB
        assert weights(preset("deepseek-ai/DeepSeek-V3"), "q4_k_m") == pytest.approx(389e9, rel=0.06)

    def test_b4_the_sum_of_a_files_tensors_wins(self):
        # odysseus-dev/odysseus#377: a guess by name said 9.2 GB, the files hold 37.4 GB
        stored = 807_694_464
        file = Quantization("gguf", 4.9, None, stored)
        spec = replace(llama(16, 2048, 32, 8, 8192, 128256, tied=True, head_dim=64), quantization=file)
        assert weights(replace(spec, quantization=None), "q4_k_m") != stored
        assert weights(spec, "q4_k_m") == stored
        assert weights(spec, "q8_0") > 1.2 * stored

    def test_b6_deepseek_r1_in_4_bits_is_not_its_active_parameters(self):
        # ollama/ollama#8667
        assert weights(preset("deepseek-ai/DeepSeek-R1"), "q4_k_m") > 380e9

    def test_b8_published_sizes(self):
        # FlyTOmeLight/llm-cal: 145 GB, and 688 GB of which 14 are the draft layer
        assert weights(preset("Qwen/Qwen2.5-72B"), "bf16") == pytest.approx(145e9, rel=0.005)
        assert weights(preset("deepseek-ai/DeepSeek-V3"), "fp8") == pytest.approx(688e9 - 12e9, rel=0.01)

    def test_b10_awq_leaves_the_token_table_in_16_bits(self):
        # huggingface/transformers#31474: 256 000 x 2 048 dominate Gemma 2B
        spec = llama(18, 2048, 8, 1, 16384, 256000, tied=True, head_dim=256)
        kept = [item for item in weight_terms(spec, "awq-int4", 1, ("load",)) if item.name == "embeddings"]
        assert kept[0].bytes == 256000 * 2048 * 2

    def test_b12_loading_in_4_bits_holds_a_matrix_in_16_beside_it(self):
        # huggingface/transformers#43032: the peak of loading is not that of running
        spec = llama(40, 5120, 40, 8, 17408, 151936)
        terms = plan(spec, "rtx-4090", engine="transformers", weights="nf4").ledger.terms
        loading = next(item for item in terms if item.alive == ("load",))
        assert loading.bytes == 5120 * 17408 * 2

    def test_b14_the_bits_that_a_weight_takes_are_said(self):
        # unslothai/unsloth#3354: "8-bit" took 6.2 GB for Llama 3.2 3B and 46 GB for a 24B model, which is 16-bit
        asked = {
            name: serving("meta-llama/Llama-3.2-3B-Instruct", "rtx-4090", engine="transformers", weights=name)
            for name in ("bf16", "int8", "nf4")
        }
        assert asked["bf16"]["weights"] == {"format": "bf16", "bits_per_weight": 16.0}
        assert asked["bf16"]["engine_budget"]["rtx-4090"]["weights_bytes"] == pytest.approx(6.4e9, rel=0.01)
        # 394 million of 3.21 billion are the token table, which stays in 16 bits
        assert asked["int8"]["weights"]["bits_per_weight"] == pytest.approx((2.82 * 8 + 0.394 * 16) / 3.21, rel=0.01)
        assert asked["int8"]["engine_budget"]["rtx-4090"]["weights_bytes"] < 0.6 * 6.2e9
        assert 5 < asked["nf4"]["weights"]["bits_per_weight"] < 6.5

    def test_b16_experts_unpacked_to_16_bits_are_three_times_as_large(self):
        # sgl-project/sglang#35751: 3.1 times the weights, and gpt-oss-120b does not fit
        def gpt_oss(layers, experts):
            group = LayerGroup(layers, Attention(64, 8, 64, qkv_bias=True), MixtureOfExperts(experts, 4, 2880))
            return model((group,), 2880, 201088, model_type="gpt_oss")

        small, large = gpt_oss(24, 32), gpt_oss(36, 128)
        assert weights(small, "bf16") / weights(small, "mxfp4") == pytest.approx(3.1, rel=0.05)
        packed, unpacked = (plan(large, weights=name, concurrent_sequences=1) for name in ("mxfp4", "bf16"))
        assert packed.needs["h100-sxm5-80gb"].refusal is None
        assert unpacked.needs["h100-sxm5-80gb"].need_bytes > 2 * unpacked.needs["h100-sxm5-80gb"].capacity_bytes

    def test_b16_a_card_without_4_bit_arithmetic_is_warned_of(self):
        from planner.scenario.issues import validate

        scenario = Scenario.of(
            {
                "format": "vram-planner/scenario", "version": 1, "model": {"preset": "openai/gpt-oss-20b"},
                "phases": {"serving": {"weights": "mxfp4"}}, "hardware": {"gpus": ["l40s"]},
            }
        )  # fmt: skip
        assert [issue.code for issue in validate(scenario, None, HARDWARE)] == ["no_fp4"]

    def test_b18_scales_of_groups_of_64_add_a_sixteenth_of_a_byte(self):
        # Kubedoll mistral.rs#53
        scales = next(item for item in weight_terms(LLAMA_3_70B, "nf4", 1, ("load",)) if item.name == "block scales")
        packed = next(item for item in weight_terms(LLAMA_3_70B, "nf4", 1, ("load",)) if "packed" in item.name)
        assert scales.bytes / (2 * packed.bytes) == pytest.approx(0.0625, rel=1e-6)

    def test_b20_experts_are_divided_by_expert_and_pipeline_parallelism(self):
        # NVIDIA/Megatron-LM#4687, #5145
        moe = MixtureOfExperts(64, 4, 1024)
        spec = model((LayerGroup(16, Attention(16, 16, 128), moe),), 2048, 32000)
        experts = 16 * 64 * 3 * 2048 * 1024 * 2
        one, eight = weights(spec, "bf16"), weights(spec, "bf16", expert_parallel=8)
        assert one - eight == experts - experts // 8

    def test_b22_qwen3_8b_has_8_19_billion_parameters(self):
        # InternLM/xtuner printed 7.628 B
        assert parameters(preset("Qwen/Qwen3-8B")) == pytest.approx(8.191e9, rel=1e-4)

    def test_b24_a_pipeline_is_all_its_components(self):
        # midudev/canirun.ai#30 counted the denoiser alone
        whole = preset("black-forest-labs/FLUX.1-dev")
        alone = replace(whole, stacks=whole.stacks[:1])
        assert weights(whole, "bf16") > 1.35 * weights(alone, "bf16")
        assert weights(whole, "bf16") == pytest.approx(31.44 * GIB, rel=0.002)

    def test_b26_a_pipeline_in_files_of_its_own_is_the_sum_of_its_components(self):
        # gpustack/gpustack#1601, FLUX.1-lite in Q4_0: 5 061 of text encoders (Q8_0), 4 596 of denoiser and 160 of
        # autoencoder (F16) are 9 817 MB; one file type for the whole pipeline is all that can be stated here
        flux = preset("black-forest-labs/FLUX.1-dev")
        double, single = flux.stack.groups
        denoiser = replace(flux.stack, groups=(replace(double, count=8), replace(single, count=38)))
        lite = replace(flux, stacks=(denoiser, *flux.stacks[1:]))

        def size(names, file_type):
            stacks = tuple(stack for stack in lite.stacks if stack.name.split(":")[0] in names)
            return weights(replace(lite, stacks=stacks), file_type) / MIB

        parts = (
            size(("text_encoder", "text_encoder_2"), "q8_0"),
            size(("transformer",), "q4_0"),
            size(("vae",), "fp16"),
        )
        assert parts == (
            pytest.approx(5061, rel=0.03), pytest.approx(4596, rel=0.06), pytest.approx(160, rel=0.01)
        )  # fmt: skip
        assert sum(parts) == pytest.approx(9817, rel=0.05)
