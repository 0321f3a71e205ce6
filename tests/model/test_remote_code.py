"""Decoders whose code comes with the checkpoint, against totals that others print of the loaded models.

foldl/chatllm.cpp prints the parameters of what it serves (docs/tool_calling.md: InternLM 2.5 and GLM-4; docs/rag.md:
MiniCPM and Qwen-7B). For ChatGLM2 and 3, PEFT's `all params` in logs of fine-tuning; for EXAONE, a test of MLX that
counts its model; `total_size` of Qwen-7B's index is twice the figure here. Nobody's total of Baichuan 2 was found: it
is counted by hand.
"""

from typing import Any

import pytest

from planner.model import read_config
from planner.model.counts import parameters

GLM: dict[str, Any] = {
    "model_type": "chatglm",
    "architectures": ["ChatGLMModel"],
    "add_bias_linear": False,
    "add_qkv_bias": True,
    "ffn_hidden_size": 13696,
    "hidden_size": 4096,
    "kv_channels": 128,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "num_attention_heads": 32,
    "tie_word_embeddings": False,
}
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "internlm/internlm2_5-7b-chat": (
        {
            "model_type": "internlm2",
            "bias": False,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "vocab_size": 92544,
            "tie_word_embeddings": False,
        },
        7_737_708_544,
    ),
    "THUDM/chatglm3-6b": (GLM | {"num_layers": 28, "padded_vocab_size": 65024}, 6_243_584_000),
    "THUDM/glm-4-9b-chat": (GLM | {"num_layers": 40, "padded_vocab_size": 151552}, 9_399_951_360),
    "Qwen/Qwen-7B": (
        {
            "model_type": "qwen",
            "hidden_size": 4096,
            "intermediate_size": 22016,
            "kv_channels": 128,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "vocab_size": 151936,
            "tie_word_embeddings": False,
        },
        7_721_324_544,
    ),
    "openbmb/MiniCPM-2B-sft-bf16": (
        {
            "model_type": "minicpm",
            "hidden_size": 2304,
            "intermediate_size": 5760,
            "num_attention_heads": 36,
            "num_hidden_layers": 40,
            "num_key_value_heads": 36,
            "vocab_size": 122753,
        },
        2_724_880_896,
    ),
    "LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct": (
        {
            "model_type": "exaone",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_layers": 32,
            "num_key_value_heads": 8,
            "vocab_size": 102400,
            "tie_word_embeddings": False,
        },
        7_818_448_896,
    ),
}


@pytest.mark.parametrize(("config", "total"), PUBLISHED.values(), ids=PUBLISHED.keys())
def test_the_total_is_that_of_the_published_weights(config: dict[str, Any], total: int) -> None:
    spec = read_config(config)
    assert parameters(spec) == total
    assert spec.approximate is None


def test_baichuan_2_packs_queries_keys_and_values_and_unties_its_head() -> None:
    """modeling_baichuan.py: W_pack of three widths, o_proj, gate, up and down, two norms, no biases."""
    hidden, inner, layers, words = 4096, 11008, 32, 125696
    config = {
        "model_type": "baichuan",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": 32,
        "num_hidden_layers": layers,
        "vocab_size": words,
        "tie_word_embeddings": False,
    }
    layer = 3 * hidden * hidden + hidden * hidden + 3 * hidden * inner + 2 * hidden
    assert parameters(read_config(config)) == layers * layer + 2 * words * hidden + hidden


def test_the_output_of_minicpm_is_its_token_table_unless_the_file_says_otherwise() -> None:
    config, total = PUBLISHED["openbmb/MiniCPM-2B-sft-bf16"]
    assert parameters(read_config(config | {"tie_word_embeddings": False})) == total + 122753 * 2304
