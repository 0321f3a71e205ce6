from typing import Any

import pytest


def test_vllm_refuses_a_context_beyond_the_positions(check: Any) -> None:
    text = check("serving", context_length=200_000)["error context_length"]
    assert text == "200\u202f000 tokens are more than the 131\u202f072 positions that the model is built for."


def test_llama_cpp_runs_a_context_beyond_rotary_positions(check: Any) -> None:
    assert set(check("serving", engine="llama.cpp", context_length=200_000)) == {"warning context_length"}


def test_a_prompt_fits_into_the_context(check: Any) -> None:
    found = check("serving", context_length=4096, prompt_tokens=5000)
    assert found == {"error prompt_tokens": "The prompt is longer than the whole context of 4\u202f096 tokens."}


@pytest.mark.parametrize("spread", [{"mean": 3000, "p95": 2000}, {"mean": 9000}, {"mean": 100, "p95": 300, "max": 200}])
def test_lengths_of_requests_rise_from_mean_to_context(check: Any, spread: dict[str, int]) -> None:
    assert set(check("serving", context_length=8192, context_distribution=spread)) == {"error context_distribution"}


def test_a_rising_distribution_is_fine(check: Any) -> None:
    assert check("serving", context_length=8192, context_distribution={"mean": 900, "p95": 4000, "max": 8192}) == {}


def test_a_quantized_cache_of_llama_cpp_needs_flash_attention(check: Any) -> None:
    llama = {"engine": "llama.cpp", "weights": "q4_k_m", "kv_cache_dtype": "q8_0"}
    assert check("serving", **llama) == {}
    assert check("serving", **llama, flash_attention=False) == {
        "error kv_cache_dtype": "llama.cpp keeps a quantized KV cache only with flash attention. Use fp16."
    }


@pytest.mark.parametrize(("engine", "dtype"), [("vllm", "q8_0"), ("llama.cpp", "fp8"), ("transformers", "q4_0")])
def test_each_engine_has_its_cache_types(check: Any, engine: str, dtype: str) -> None:
    assert set(check("serving", engine=engine, kv_cache_dtype=dtype)) == {"error kv_cache_dtype"}


@pytest.mark.parametrize(("engine", "weights"), [("llama.cpp", "awq-int4"), ("tensorrt-llm", "q4_k_m")])
def test_each_engine_has_its_weights(check: Any, engine: str, weights: str) -> None:
    assert set(check("serving", engine=engine, weights=weights)) == {"error weights"}


def test_a_share_above_95_percent_is_unwise(check: Any) -> None:
    assert check("serving", gpu_memory_utilization=0.95) == {}
    assert set(check("serving", gpu_memory_utilization=0.96)) == {"warning gpu_memory_utilization"}


def test_requests_above_the_engines_slots_wait(check: Any) -> None:
    found = check("serving", concurrent_sequences=300, max_num_seqs=256)
    assert found == {"warning max_num_seqs": "Only 256 of 300 requests run at the same time; the others wait."}
    assert check("serving", concurrent_sequences=300, max_num_seqs=256, parallelism={"data": 2}) == {}


def test_a_prompt_that_is_not_chunked_goes_through_in_one_step(check: Any) -> None:
    fields = {"max_num_batched_tokens": 4096, "context_length": 8192}
    assert check("serving", **fields) == {}
    assert set(check("serving", **fields, chunked_prefill=False)) == {"error max_num_batched_tokens"}


@pytest.mark.parametrize(
    ("engine", "field", "value"),
    [
        ("vllm", "gpu_layers", 10),
        ("vllm", "swa_full", True),
        ("llama.cpp", "gpu_memory_utilization", 0.9),
        ("transformers", "block_size", 16),
        ("sglang", "kv_cache_memory_bytes", 10**9),
    ],
)
def test_a_setting_of_another_engine_does_not_apply(check: Any, engine: str, field: str, value: object) -> None:
    text = check("serving", engine=engine, **{field: value})[f"error {field}"]
    assert text.startswith("This does not apply: only ")
    assert text.endswith("such a setting.")


def test_images_are_made_by_models_that_make_images(check: Any) -> None:
    found = check("serving", engine="transformers", image_height=1024)
    assert found == {"error image_height": "This does not apply: the model makes no images."}


def test_values_of_another_format_than_keys_are_llama_cpps_alone(check: Any) -> None:
    llama = {"engine": "llama.cpp", "weights": "q4_k_m"}
    assert check("serving", **llama, value_cache_dtype="q4_0") == {}
    assert set(check("serving", value_cache_dtype="q4_0")) == {"error value_cache_dtype"}
    assert set(check("serving", **llama, value_cache_dtype="fp8")) == {"error value_cache_dtype"}
    # quantized keys alone need no flash attention
    assert check("serving", **llama, kv_cache_dtype="q8_0", value_cache_dtype="fp16", flash_attention=False) == {}
    assert set(check("serving", **llama, value_cache_dtype="q8_0", flash_attention=False)) == {
        "error value_cache_dtype"
    }


def test_settings_of_adapters_change_nothing_without_any(check: Any) -> None:
    assert set(check("serving", adapters={"rank": 64})) == {"warning adapters.rank"}
    assert check("serving", adapters={"count": 2, "rank": 64}) == {}
    sharded = {"count": 2, "fully_sharded": True}
    assert check("serving", adapters=sharded) == {}
    assert set(check("serving", engine="sglang", adapters=sharded)) == {"error adapters.fully_sharded"}


def test_a_smaller_model_that_drafts_must_be_named(check: Any) -> None:
    drafts = {"speculative_tokens": 4, "drafter": {"method": "draft-model"}}
    assert check("serving", **drafts) == {"error drafter.model": "Name the smaller model that guesses tokens."}
    named = {"method": "draft-model", "model": "meta-llama/Llama-3.2-1B-Instruct"}
    assert check("serving", speculative_tokens=4, drafter=named) == {}
    assert "warning drafter.method" in check("serving", drafter={"method": "eagle"})
