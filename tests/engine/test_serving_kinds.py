"""Serving what does not decode text: images, speech, embeddings; and heads left on the host."""

import json

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.phases.serving import plan_serving
from planner.hardware import load_hardware
from planner.model import read_config
from planner.model.spec import Attention, DenseFeedForward, Embedding, Head, LayerGroup, ModelSpec, Stack
from planner.scenario import Scenario
from planner.scenario.serving import Serving
from planner.units import MIB

CATALOG, HARDWARE = load_catalog(), load_hardware()


def serving(preset, gpu, **fields):
    scenario = Scenario.of(
        {
            "format": "vram-planner/scenario", "version": 1, "name": preset, "model": {"preset": preset},
            "phases": {"serving": fields}, "hardware": {"gpus": [gpu]},
        }
    )  # fmt: skip
    return estimate(scenario, CATALOG).to_json()["phases"]["serving"]


@pytest.mark.parametrize(("images", "measured_bytes"), [(1, 36347234484), (4, 42402064630), (8, 51012400316)])
def test_flux_decodes_all_images_at_full_size_at_once(images, measured_bytes):
    # sayakpaul/diffusers-torchao README.md: bf16, 1024 x 1024, peak of allocated memory
    answer = serving("black-forest-labs/FLUX.1-dev", "a100-sxm4-80gb", engine="transformers",
                     concurrent_sequences=images, context_length=512, image_height=1024, image_width=1024)  # fmt: skip
    assert answer["peak"]["allocated_bytes"] == pytest.approx(measured_bytes, rel=0.013)
    assert answer["moments"]["prefill"]["instant"] == "sampling"


def test_a_smaller_image_needs_a_quarter_of_the_decoding():
    def decoding(side):
        answer = serving("stabilityai/stable-diffusion-xl-base-1.0", "a100-sxm4-80gb", engine="transformers",
                         image_height=side, image_width=side)  # fmt: skip
        return next(term["bytes"] for term in answer["terms"] if term["name"] == "decoding of the images")

    assert decoding(1024) == 4 * decoding(512)


def test_a_pipeline_keeps_no_cache_though_its_text_encoder_looks_back_only():
    answer = serving("runwayml/stable-diffusion-v1-5", "l4", engine="transformers", weights="fp16")
    assert answer["kv"]["bytes_needed"] == {"l4": 0}
    assert answer["engine_budget"]["l4"]["kv_cache_bytes"] == 0


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_model_of_states_alone_holds_requests_of_any_length(engine):
    fields = {"engine": engine, "engine_version": "0.19"}
    short, long = (serving("AntonV/mamba2-780m-hf", "l4", context_length=n, **fields) for n in (1024, 4096))
    assert isinstance(short["kv"]["tokens_available"]["l4"], int)
    assert short["kv"]["max_concurrency"]["l4"] == pytest.approx(long["kv"]["max_concurrency"]["l4"], rel=0.02)
    assert short["kv"]["bytes_needed"] == long["kv"]["bytes_needed"]


def test_whisper_keeps_the_cache_of_thirty_seconds_beside_that_of_its_text():
    # 32 layers, 20 heads of 64, keys and values of 1500 frames
    answer = serving("openai/whisper-large-v3", "l4", engine_version="0.19", weights="fp16", context_length=448)
    crossed = next(term for term in answer["terms"] if term["name"] == "cross-attention cache")
    assert crossed["bytes"] == 32 * 2 * 1280 * 1500 * 2
    assert crossed["factors"]["encoder tokens"] == 1500


def test_an_encoder_of_speech_or_text_alone_keeps_no_cache():
    answer = serving("BAAI/bge-large-en", "l4", engine_version="0.19", weights="fp16", context_length=512)
    assert answer["kv"]["bytes_needed"] == {"l4": 0}
    assert answer["verdicts"]["l4"]["verdict"] == "fits"


def test_vllm_profiles_a_step_of_images_before_the_model_runs():
    answer = serving("Qwen/Qwen2.5-VL-7B-Instruct", "l40s", engine_version="0.19", max_num_batched_tokens=8192)
    terms = {term["name"]: term for term in answer["terms"]}
    assert terms["image embeddings"]["bytes"] == 8192 * 3584 * 2
    assert any(term["name"].endswith("pass") and term["alive"] == ["prefill"] for term in answer["terms"])


def test_a_head_on_the_host_is_copied_for_large_batches():
    # a log of a partial offload: 742 MiB for a 16-bit head of 151 936 x 2 560
    group = LayerGroup(36, Attention(32, 8, 128), DenseFeedForward(9728))
    stack = Stack("decoder", 2560, Embedding(151936, 2560), (group,))
    spec = ModelSpec("m", "qwen3", "causal-lm", (stack,), Head(151936, tied=True), 40960)
    chosen = HARDWARE.resolve("rtx-4090")

    def compute(**fields):
        text = json.dumps({"engine": "llama.cpp", "weights": "fp16", **fields})
        return plan_serving(Serving.model_validate_json(text), spec, [chosen], chosen, HARDWARE).details["buffers"][
            "compute_bytes"]  # fmt: skip

    assert compute(gpu_layers=36) - compute() == pytest.approx(742 * MIB, rel=0.001)
    assert compute(gpu_layers=36, ubatch_size=16) < 16 * MIB


@pytest.mark.parametrize("preset", ["openai/clip-vit-base-patch16", "facebook/convnext-tiny-224"])
def test_a_model_with_scalars_or_convolutions_has_a_size_in_every_file_type(preset):
    answer = serving(preset, "l4", engine="llama.cpp", weights="q8_0", context_length=77)
    assert 10**7 < answer["buffers"]["model_total_bytes"] < 10**9


@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers"])
def test_an_encoder_has_no_pool_of_tokens_but_a_longest_input_and_copies(engine):
    answer = serving("BAAI/bge-large-en", "l4", engine=engine, weights="fp16", context_length=512,
                     concurrent_sequences=64)["kv"]  # fmt: skip
    assert answer["tokens_available"] == answer["max_concurrency"] == {"l4": None}
    assert answer["largest_context"] == {"l4": 512}
    assert answer["replicas"] == {"l4": 1}


def test_a_model_of_images_has_no_length():
    answer = serving("google/vit-base-patch16-224", "l4", engine="transformers", concurrent_sequences=256)
    assert answer["kv"]["largest_context"] == {"l4": None}
    # 165 MiB of weights in 16 bits, and a pass over 256 images of 197 patches
    assert answer["components"]["weights"] == pytest.approx(86.57e6 * 2, rel=0.01)
    assert answer["components"]["temporaries"] > 256 * 197 * 768 * 4 * 2


def test_generating_from_an_encoder_starts_with_one_token_of_the_decoder():
    # 64 prompts of 1024 tokens: logits of 64 first tokens, not of 65 536
    answer = serving("facebook/bart-large-cnn", "l4", engine="transformers", weights="fp16", context_length=1024,
                     concurrent_sequences=64)  # fmt: skip
    assert answer["components"]["logits"] <= 64 * 50264 * (2 + 4)


def test_nothing_is_sampled_from_a_masked_language_model():
    # vllm/model_executor/models/bert.py: BertEmbeddingModel has no head
    answer = serving("google-bert/bert-base-uncased", "l4", engine_version="0.19", context_length=512)
    assert answer["components"]["logits"] == 0


@pytest.mark.parametrize(
    ("version", "refused"), [("0.10.1", False), ("0.11", True), (None, True)], ids=["before", "since", "not stated"]
)
def test_vllm_serves_no_encoder_with_a_decoder_but_whisper(version, refused):
    # vllm-project/vllm#24907
    fields = {"context_length": 512} | ({"engine_version": version} if version else {})
    told = serving("facebook/bart-large-cnn", "l4", **fields)["warnings"]
    assert any("no encoder with a decoder" in text for text in told) == refused
    told = serving("openai/whisper-large-v3", "l4", **fields | {"context_length": 448})["warnings"]
    assert not any("no encoder with a decoder" in text for text in told)


def test_engines_of_tokens_say_that_they_serve_no_model_of_images_alone():
    told = {
        engine: any("no token table" in text for text in
                    serving("facebook/dinov2-base", "l4", engine=engine, weights=weights)["warnings"])
        for engine, weights in (("vllm", "bf16"), ("sglang", "bf16"), ("llama.cpp", "q8_0"), ("transformers", "bf16"))
    }  # fmt: skip
    assert told == {"vllm": True, "sglang": True, "llama.cpp": True, "transformers": False}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "transformers"])
def test_engines_of_language_models_say_that_they_serve_no_pipelines(engine):
    weights = "q8_0" if engine == "llama.cpp" else "fp16"
    told = serving("runwayml/stable-diffusion-v1-5", "l4", engine=engine, weights=weights)["warnings"]
    assert any("no diffusion pipelines" in text for text in told) == (engine != "transformers")


def test_sglang_counts_what_an_encoder_leaves_in_the_cache_of_each_request():
    answer = serving("openai/whisper-large-v3", "l4", engine="sglang", weights="fp16", context_length=448)
    pool = answer["engine_budget"]["l4"]["kv_cache_bytes"]
    request = 32 * 2 * 1280 * 2 * (448 + 1500)
    assert answer["kv"]["max_concurrency"]["l4"] == pytest.approx(pool / request, rel=0.01)


def test_the_encoder_of_whisper_is_done_before_anything_is_cached():
    # large-v3, 64 requests: a layer's 4 x 1280 up and gelu of 1500 frames while encoding; its output while decoding
    answer = serving("openai/whisper-large-v3", "h100-sxm5-80gb", engine="transformers", weights="fp16",
                     context_length=448, concurrent_sequences=64)  # fmt: skip
    terms = {term["name"]: term for term in answer["terms"]}
    assert terms["output of the encoder"]["bytes"] == 64 * 1500 * 1280 * 2
    assert terms["scores of the next token"]["bytes"] == 64 * 51866 * 6
    cache = 64 * (448 + 1500) * 32 * 2 * 1280 * 2
    assert answer["peak"]["moment"] == "decode"
    weights = answer["components"]["weights"]
    assert answer["peak"]["allocated_bytes"] - weights - cache < 64 * 1500 * 1280 * 2 * 3


def test_llama_cpp_makes_four_tensors_of_the_hidden_width_for_an_encoder_without_scores():
    # ggml-ci at build 4310, bge-small-en-v1.5 in f16, n_ctx 512, n_ubatch 2048: model size 63.84 MiB, of which
    # 23.11 MiB on the CPU; CUDA0 compute buffer 16.00 MiB
    bge_small = {
        "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 384, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 1536, "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2,
    }  # fmt: skip
    fields = {"engine": "llama.cpp", "weights": "f16", "context_length": 512, "ubatch_size": 2048}
    chosen = HARDWARE.resolve("v100-sxm2-32gb")
    phase = Serving.model_validate_json(json.dumps(fields | {"flash_attention": False}))
    answer = plan_serving(phase, read_config(bge_small), [chosen], chosen, HARDWARE)
    buffers = answer.details["buffers"]
    assert buffers["compute_bytes"] == 16 * MIB
    assert buffers["model_total_bytes"] == pytest.approx(63.84 * MIB, abs=0.005 * MIB)
    assert buffers["model_total_bytes"] - buffers["model_gpu_bytes"] == pytest.approx(23.11 * MIB, abs=0.005 * MIB)
