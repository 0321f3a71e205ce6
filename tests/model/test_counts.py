"""Shards, adapters and caches, against hand counts."""

import pytest

from planner.model import load_presets, read_config
from planner.model.counts import (
    largest_tensor,
    layer_parameters,
    linear_4bit_parameters,
    lora_parameters,
    shard_parameters,
    state_elements,
    weight_bytes,
)
from planner.model.spec import ModelSpec


def preset(identifier: str) -> ModelSpec:
    found = load_presets()[identifier]
    return read_config(found.config, found.task, found.id)


def test_lora_on_queries_and_values_of_llama_2_7b() -> None:
    # 32 layers x 2 matrices x rank 16 x (4096 + 4096)
    assert lora_parameters(preset("meta-llama/Llama-2-7b-hf"), 16, ("q_proj", "v_proj")) == 8_388_608


def test_lora_on_all_linear_layers_of_llama_3_1_8b() -> None:
    # per layer 16 x (8192 + 5120 + 5120 + 8192 + 3 x 18432), 32 layers; peft prints 41,943,040
    assert lora_parameters(preset("meta-llama/Llama-3.1-8B"), 16) == 41_943_040


def test_lora_on_attention_leaves_the_feed_forward_alone() -> None:
    assert lora_parameters(preset("meta-llama/Llama-3.1-8B"), 16, "attention") == 32 * 16 * (8192 + 5120 + 5120 + 8192)


def test_lora_takes_the_transposed_layers_of_gpt_2() -> None:
    # 12 layers: (768 + 2304) + (768 + 768) + (768 + 3072) + (3072 + 768), rank 8
    assert lora_parameters(preset("openai-community/gpt2"), 8) == 12 * 8 * (3072 + 1536 + 3840 + 3840)


def test_eight_ranks_divide_llama_3_1_8b_evenly() -> None:
    layer = (4096 * 4096 * 2 + 1024 * 4096 * 2 + 3 * 14336 * 4096) // 8 + 2 * 4096
    assert shard_parameters(preset("meta-llama/Llama-3.1-8B"), 8) == 32 * layer + 2 * (128256 // 8 * 4096) + 4096


def test_kv_heads_are_repeated_when_there_are_more_ranks() -> None:
    # 16 ranks, 8 KV heads: each rank holds one whole head of keys and values
    layer = (4096 * 4096 * 2 + 3 * 14336 * 4096) // 16 + 2 * 128 * 4096 + 2 * 4096
    assert shard_parameters(preset("meta-llama/Llama-3.1-8B"), 16) == 32 * layer + 2 * (128256 // 16 * 4096) + 4096


def test_fused_projections_are_divided_by_heads_too() -> None:
    spec = preset("microsoft/phi-4")  # 40 heads, 10 KV heads of 128, hidden 5120
    one, four = shard_parameters(spec, 1), shard_parameters(spec, 4)
    # KV heads: 10 / 4 rounds up to 3 on the fullest rank
    kept = 40 * 5120 * (10 * 128 + 2 * 3 * 128) + 40 * (1280 * 5120 + 3 * 4480 * 5120 + 2 * 5120)
    assert four == kept + 2 * (100352 // 4 * 5120) + 5120
    assert one == 14_659_507_200


def test_a_vocabulary_is_padded_before_it_is_divided() -> None:
    spec = preset("openai-community/gpt2")
    plain, padded = shard_parameters(spec, 2), shard_parameters(spec, 2, vocab_multiple=128)
    # 50257 rows: 25129 on the fuller rank; padded to 50304, 25152
    assert padded - plain == (25152 - 25129) * 768


def test_experts_are_spread_whole_over_expert_parallel_ranks() -> None:
    spec = preset("mistralai/Mixtral-8x7B-v0.1")
    experts = 32 * 8 * 3 * 14336 * 4096
    assert shard_parameters(spec) - shard_parameters(spec, expert_parallel=4) == experts * 3 // 4


def test_transformers_4_quantizes_experts_too() -> None:
    spec = preset("Qwen/Qwen3-30B-A3B")
    routed = 48 * 128 * 3 * 768 * 2048
    assert linear_4bit_parameters(spec, experts_as_linear=True) - linear_4bit_parameters(spec) == routed


@pytest.mark.parametrize(
    ("identifier", "role"), [("meta-llama/Llama-3.1-8B", "embed_tokens"), ("openai/gpt-oss-20b", "embed_tokens")]
)
def test_the_largest_tensor_is_found(identifier: str, role: str) -> None:
    assert largest_tensor(preset(identifier)).role == role


def test_mamba_2_780m_keeps_a_state_of_fixed_size() -> None:
    # 48 heads x 64 x 128 recurrent, (3072 + 2 x 128) x 4 convolution, in each of 48 layers
    recurrent, convolution = state_elements(preset("AntonV/mamba2-780m-hf"))
    assert recurrent == 48 * 48 * 64 * 128
    assert convolution == 48 * 3328 * 4


def test_weights_are_two_bytes_each_unless_told_otherwise() -> None:
    spec = preset("meta-llama/Llama-3.1-8B")
    assert weight_bytes(spec) == 16_060_522_496
    assert weight_bytes(spec, 4) == 32_121_044_992


def test_each_kind_of_layer_is_counted() -> None:
    # Three Gated DeltaNet layers to one of gated attention; sums of the layer objects of transformers 5.23.
    kinds = layer_parameters(preset("Qwen/Qwen3.5-35B-A3B"))
    assert kinds[:2] == (("decoder", 30, 842_700_992), ("decoder", 10, 836_246_016))
