"""Decoders whose code comes with the checkpoint, against the totals that the Hub states for their safetensors.

Unverified: totals said to be the Hub's have not been compared with its pages, so they count as regression guards, not
as independent evidence.
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
    "baichuan-inc/Baichuan2-7B-Base": (
        {
            "model_type": "baichuan",
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "vocab_size": 125696,
            "tie_word_embeddings": False,
        },
        7_505_973_248,
    ),
    "internlm/internlm2-7b": (
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


def test_the_output_of_minicpm_is_its_token_table_unless_the_file_says_otherwise() -> None:
    config, total = PUBLISHED["openbmb/MiniCPM-2B-sft-bf16"]
    assert parameters(read_config(config | {"tie_word_embeddings": False})) == total + 122753 * 2304
