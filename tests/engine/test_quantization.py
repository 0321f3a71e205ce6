"""Bytes of weights in each format, against papers, loader rules and published file and log sizes."""

import pytest

from planner.engine.gguf import gguf_sizes
from planner.engine.quantization import cache_element_bytes, formats, weight_format, weight_terms
from planner.errors import PlannerError
from planner.model.spec import Attention, DenseFeedForward, Embedding, Head, LayerGroup, ModelSpec, Stack
from planner.units import GIB

LOAD = ("load",)


def llama(layers, hidden, heads, kv_heads, ffn, vocab=128256, tied=False) -> ModelSpec:
    group = LayerGroup(layers, Attention(heads, kv_heads, 128), DenseFeedForward(ffn))
    stack = Stack("decoder", hidden, Embedding(vocab, hidden), (group,))
    return ModelSpec("Llama", "llama", "causal-lm", (stack,), Head(vocab, tied=tied), 131072)


LLAMA_8B = llama(32, 4096, 32, 8, 14336)
LLAMA_70B = llama(80, 8192, 64, 8, 28672)
LINEAR_8B = 6_979_321_856
"""Weights of Llama 3.1 8B that transformers' bitsandbytes loader converts."""


def total(name, spec=LLAMA_8B, tensor_parallel=1, **options) -> int:
    return sum(item.bytes for item in weight_terms(spec, name, tensor_parallel, LOAD, **options))


def part(name, title, spec=LLAMA_8B) -> int:
    return next(item.bytes for item in weight_terms(spec, name, 1, LOAD) if item.name == title)


@pytest.mark.parametrize(("name", "width"), [("fp32", 4), ("bf16", 2), ("fp16", 2)])
def test_plain_formats_are_parameters_times_width(name, width):
    assert total(name) == 8_030_261_248 * width


def test_nf4_packs_two_weights_in_a_byte_and_scales_64_of_them_in_fp32():
    assert part("nf4", "packed weights") == LINEAR_8B // 2
    assert part("nf4", "block scales") == LINEAR_8B // 64 * 4
    assert total("nf4") == LINEAR_8B * 0.5625 + (8_030_261_248 - LINEAR_8B) * 2


def test_double_quantization_costs_0_127_bits_per_weight_as_the_qlora_paper_says():
    stored = sum(
        part("nf4-double", title)
        for title in ("packed weights", "8-bit block scales", "scales of the scales", "mean of the scales")
    )
    assert stored * 8 / LINEAR_8B == pytest.approx(4.127, abs=0.0005)


def test_embeddings_and_head_stay_in_16_bits_when_quantized():
    assert part("nf4", "embeddings") == part("nf4", "head") == 128256 * 4096 * 2


def test_fp8_llama_70b_is_what_vllm_loaded_on_an_mi300x():
    # vLLM 0.6.5 log: 67.70 GiB, of which 32 MiB are the rotary table.
    assert total("fp8", LLAMA_70B) + 131072 * 128 * 2 == pytest.approx(67.70 * GIB, rel=0.0005)


def test_tensor_parallel_halves_matrices_but_not_norms():
    # vLLM 0.19 log of Llama 3.1 8B on two GPUs: 7.51 GiB, of which 32 MiB are the rotary table.
    assert total("bf16", tensor_parallel=2) == 8_030_261_248 + 65 * 4096
    assert total("bf16", tensor_parallel=2) + 131072 * 128 * 2 == pytest.approx(7.51 * GIB, rel=0.001)


def test_the_first_of_four_pipeline_stages_holds_eight_layers_and_the_embeddings():
    # vLLM 0.19 log: 4.26 GiB, of which 32 MiB are the rotary table.
    assert total("bf16", pipeline=4) + 131072 * 128 * 2 == pytest.approx(4.26 * GIB, rel=0.001)


def test_group_of_128_adds_scale_and_zero_point_to_awq():
    stored = sum(part("awq-int4", title) for title in ("packed weights", "group scales", "packed zero points"))
    assert stored * 8 / LINEAR_8B == 4 + 16 / 128 + 4 / 128


def test_nvfp4_takes_four_and_a_half_bits_and_mxfp4_four_and_a_quarter():
    assert (part("nvfp4", "packed weights") + part("nvfp4", "block scales")) * 8 / LINEAR_8B == 4.5
    assert (part("mxfp4", "packed weights") + part("mxfp4", "block scales")) * 8 / LINEAR_8B == 4.25


@pytest.mark.parametrize(
    ("name", "published_bytes"),
    [  # llama.cpp tools/quantize/README.md, sizes of Llama 3.1 8B, printed in GiB with two digits
        ("iq2_xxs", 2394444268),
        ("iq2_m", 2942052598),
        ("iq3_m", 3779571220),
        ("iq4_xs", 4477503406),
        ("iq4_nl", 4702989189),
        ("q2_k", 3167538381),
        ("q3_k_s", 3661459620),
        ("q3_k_l", 4316442132),
        ("q4_k_s", 4681514353),
        ("q4_k_m", 4917737554),
        ("q5_k_s", 5594194903),
        ("q5_k_m", 5723043922),
        ("q6_k", 6592774799),
        ("q8_0", 8536247501),
        ("f16", 16063177687),
    ],
)
def test_gguf_mixtures_reproduce_the_published_sizes(name, published_bytes):
    assert total(name) == pytest.approx(published_bytes, rel=0.0015)


def test_a_tied_head_is_no_second_tensor_in_a_gguf_file():
    tied = llama(16, 2048, 32, 8, 8192, tied=True)
    sizes = gguf_sizes(tied, weight_format("q4_k_m"))
    assert sizes.output == 2048 * 4
    assert sizes.token_embedding == 128256 * 2048 // 256 * 210


def test_rows_that_are_no_whole_number_of_k_blocks_fall_back():
    # Qwen2.5 0.5B has rows of 896 = 3.5 x 256 weights: Q4_K becomes Q5_0.
    group = LayerGroup(24, Attention(14, 2, 64), DenseFeedForward(4864))
    qwen = ModelSpec("Qwen", "qwen2", "causal-lm", (Stack("decoder", 896, Embedding(151936, 896), (group,)),), None)
    assert gguf_sizes(qwen, weight_format("q4_k_s")).token_embedding == 151936 * 896 // 32 * 22


def test_every_format_counts_and_names_its_source():
    for name, known in formats().items():
        assert known.source
        assert 0 < total(name) <= 8_030_261_248 * 4


def test_an_unknown_format_is_refused_by_name():
    with pytest.raises(PlannerError, match="'q9'"):
        weight_terms(LLAMA_8B, "q9", 1, LOAD)


def test_block_types_of_the_cache_include_their_scales():
    assert cache_element_bytes("q8_0") == 34 / 32
    assert cache_element_bytes("q4_0") == 18 / 32
    assert cache_element_bytes("bf16") == 2
