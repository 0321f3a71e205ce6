"""Sizes of published files, to the byte where only the file's own header lies between.

Unverified: the figures have not been compared with the pages named beside them, so they count as regression guards,
not as independent evidence.
"""

import pytest

from planner.engine.kv_cache import total_bytes
from planner.engine.quantization import weight_terms
from planner.model import read_config, resolve_model
from planner.scenario.model_source import PresetModel


def decoder(layers, hidden, heads, kv_heads, size, vocab, tied=False, model_type="llama"):
    return read_config(
        {
            "model_type": model_type, "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "intermediate_size": size, "vocab_size": vocab,
            "tie_word_embeddings": tied, "max_position_embeddings": 4096,
        }
    )  # fmt: skip


def size(spec, name):
    return total_bytes(weight_terms(spec, name, 1, ("load",), experts_as_linear=True))


def preset(name):
    return resolve_model(PresetModel(preset=name))


LLAMA_2_7B = decoder(32, 4096, 32, 32, 11008, 32000)
MISTRAL_7B = decoder(32, 4096, 32, 8, 14336, 32000, model_type="mistral")


@pytest.mark.parametrize(
    ("file_type", "file_bytes"),
    # TheBloke/Llama-2-7B-GGUF on Hugging Face; every file has the same header of names and words
    [
        ("q3_k_s", 2948304576), ("q3_k_m", 3298004672), ("q3_k_l", 3597110976), ("q4_0", 3825807040),
        ("q4_k_s", 3856739904), ("q4_k_m", 4081004224), ("q5_0", 4651691712), ("q5_k_m", 4783156928),
        ("q6_k", 5529194176), ("q8_0", 7161089728),
    ],
)  # fmt: skip
def test_files_of_llama_2_7b_differ_by_their_header_alone(file_type, file_bytes):
    # tensors start at multiples of 32 bytes
    assert file_bytes - size(LLAMA_2_7B, file_type) == pytest.approx(741056, abs=256)


@pytest.mark.parametrize(
    ("file_type", "file_bytes"),
    # TheBloke/Mistral-7B-v0.1-GGUF on Hugging Face
    [("q3_k_m", 3518985504), ("q4_k_m", 4368439584), ("q5_k_m", 5131409696), ("q8_0", 7695857952)],
)
def test_files_of_mistral_7b_differ_by_their_header_alone(file_type, file_bytes):
    assert 0 < file_bytes - size(MISTRAL_7B, file_type) < 10**6


@pytest.mark.parametrize(
    ("spec", "total_size"),
    # metadata.total_size of model.safetensors.index.json
    [
        (decoder(32, 4096, 32, 8, 14336, 32000, model_type="mistral"), 14483464192),
        (preset("meta-llama/Llama-3.1-8B"), 16060522496),
        (preset("mistralai/Mixtral-8x7B-v0.1"), 93405585408),
        (decoder(64, 5120, 40, 8, 27648, 152064, model_type="qwen2"), 65527752704),
    ],
)
def test_published_weights_in_16_bits_are_met_to_the_byte(spec, total_size):
    assert size(spec, "bf16") == total_size


@pytest.mark.parametrize(
    ("name", "weights", "published_gb"),
    # sums of the files that Qwen, OpenAI, Meta and Moonshot publish, as Hugging Face lists them
    [
        ("Qwen/Qwen3-8B", "fp8", 9.44), ("Qwen/Qwen3-30B-A3B", "fp8", 31.2), ("Qwen/Qwen3-235B-A22B", "fp8", 236.5),
        ("openai/gpt-oss-20b", "mxfp4", 13.76), ("moonshotai/Kimi-K2-Instruct", "fp8", 1029),
        ("meta-llama/Llama-3.1-405B", "fp8", 410), ("Qwen/Qwen3-32B", "awq-int4", 19.3),
    ],
)  # fmt: skip
def test_published_weights_in_8_and_4_bits_are_met(name, weights, published_gb):
    assert size(preset(name), weights) == pytest.approx(published_gb * 1e9, rel=0.003)
