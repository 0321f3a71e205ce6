"""Sizes of published files, to the byte where only the file's own header lies between.

Each figure was looked up in public material that copies what the Hub lists; who copied it stands beside it.
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
    # TheBloke/Llama-2-7B-GGUF and -Chat-GGUF on Hugging Face, whose files have the same header of names and words:
    # sizes in the Hub's answer on the tree of the repository (path, oid, size) and in lists of downloads checked by
    # SHA-256 (08a5566d61d7… for Q4_K_M, e0b99920cf47… for Q5_K_M); `ollama pull llama2` prints that of Q4_0, too
    [
        ("q4_0", 3825807040), ("q4_k_m", 4081004224), ("q5_k_m", 4783156928), ("q6_k", 5529194176),
        ("q8_0", 7161089728),
    ],
)  # fmt: skip
def test_files_of_llama_2_7b_differ_by_their_header_alone(file_type, file_bytes):
    # tensors start at multiples of 32 bytes
    assert file_bytes - size(LLAMA_2_7B, file_type) == pytest.approx(741056, abs=256)


@pytest.mark.parametrize(
    ("file_type", "file_bytes"),
    # TheBloke/Mistral-7B-Instruct-v0.2-GGUF on Hugging Face, in its answer on the repository (rfilename, size) and in
    # lists of downloads checked by SHA-256 (3e0039fd0273… for Q4_K_M)
    [("q4_k_m", 4368439584), ("q5_k_m", 5131409696), ("q8_0", 7695857952)],
)
def test_files_of_mistral_7b_differ_by_their_header_alone(file_type, file_bytes):
    assert 0 < file_bytes - size(MISTRAL_7B, file_type) < 10**6


@pytest.mark.parametrize(
    ("spec", "total_size"),
    # metadata.total_size of model.safetensors.index.json: of mistralai/Mistral-7B-Instruct-v0.2; of Llama-3.1-8B, as
    # the guide to models of transformers prints it; of Mixtral-8x7B; of Qwen2.5-32B and DeepSeek-R1-Distill-Qwen-32B
    [
        (decoder(32, 4096, 32, 8, 14336, 32000, model_type="mistral"), 14483464192),
        (preset("meta-llama/Llama-3.1-8B"), 16060522496),
        (preset("mistralai/Mixtral-8x7B-v0.1"), 93405585408),
        (decoder(64, 5120, 40, 8, 27648, 152064, model_type="qwen2"), 65527752704),
    ],
)
def test_published_weights_in_16_bits_are_met_to_the_byte(spec, total_size):
    assert size(spec, "bf16") == total_size


def test_published_mxfp4_weights_of_gpt_oss_20b_are_met_to_the_byte():
    # metadata.total_size of openai/gpt-oss-20b
    assert size(preset("openai/gpt-oss-20b"), "mxfp4") == 13761264768


def test_published_nvfp4_weights_of_llama_3_1_8b_differ_by_header_and_activation_scales():
    # Files of nvidia/Llama-3.1-8B-Instruct-FP4 (ModelOpt), 6 027 861 376 bytes in the tests of VRTX Checker. Beside
    # weights they hold an fp32 input scale for each of 224 matrices, fp32 scales of the fp8 cache for keys and values
    # of 32 layers, and the names of 4 x 224 + 64 + 67 tensors.
    short = 6027861376 - size(preset("meta-llama/Llama-3.1-8B"), "nvfp4")
    header = short - 4 * 224 - 4 * 64
    assert 80 < header / (4 * 224 + 64 + 67) < 140


def test_nvfp4_is_nine_sixteenths_of_a_byte_and_a_scale_per_matrix():
    layers, hidden, inner, words = 32, 4096, 14336, 128256
    linear = layers * (2 * hidden * hidden + 2 * hidden * 1024 + 3 * hidden * inner)
    kept = 2 * words * hidden + (2 * layers + 1) * hidden
    expected = linear // 2 + linear // 16 + 4 * 7 * layers + 2 * kept
    assert size(preset("meta-llama/Llama-3.1-8B"), "nvfp4") == expected


def test_published_awq_weights_of_qwen3_32b_are_met_to_the_byte():
    # 707 tensors in bf16 and 896 of 32-bit words in the four files of Qwen/Qwen3-32B-AWQ, counted from their headers
    # (metadata.total_size states 13 107 200 bytes more than the files hold)
    assert size(preset("Qwen/Qwen3-32B"), "awq-int4") == 19325298688


@pytest.mark.parametrize(("weights", "gib"), [("fp8", 9.87), ("nvfp4", 7.04)])
def test_published_sizes_of_a_vision_language_model_are_met(weights, gib):
    # huggingface.co/mbehr90/Qwen3-VL-8B-Instruct-nvfp4: 252 matrices of the language model in nvfp4 or fp8; vision
    # tower, projector, table and head in bf16
    assert size(preset("Qwen/Qwen3-VL-8B-Instruct"), weights) / 2**30 == pytest.approx(gib, abs=0.01)
