"""Relatives of Llama against traces of the real classes.

Sources: for the published models torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, as in
`resources/evidence/optrace-others.json`; for the small ones the same classes run on a CPU with eager attention, every
storage counted from its first operator to its release (in fp32 where a norm is PyTorch's own kernel, whose statistics
are 16-bit on a CPU and fp32 on a GPU).
"""

from collections.abc import Callable
from typing import Any

import pytest

PHI_3 = {
    "attention_dropout": 0.0, "embd_pdrop": 0.0, "hidden_act": "silu", "hidden_size": 3072,
    "intermediate_size": 8192, "max_position_embeddings": 131072, "model_type": "phi3", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 32, "resid_pdrop": 0.0, "tie_word_embeddings": False,
    "vocab_size": 32064,
}  # fmt: skip
GEMMA_2 = {
    "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
    "intermediate_size": 9216, "max_position_embeddings": 131072, "model_type": "gemma2", "num_attention_heads": 8,
    "num_hidden_layers": 26, "num_key_value_heads": 4, "sliding_window": 4096, "tie_word_embeddings": True,
    "vocab_size": 256000,
}  # fmt: skip

SMALL: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 320, "max_position_embeddings": 128, "num_hidden_layers": 2,
}  # fmt: skip
STABLELM_2 = {
    "model_type": "stablelm", "partial_rotary_factor": 0.25, "qk_layernorm": True, "use_parallel_residual": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (PHI_3, {}, (22926510464, 33584000144, 33978002576, 34109320328, 38210828672)),
        (
            PHI_3,
            {"precision": "amp-bf16", "micro_batch_size": 4, "sequence_length": 1024},
            (45853020544, 76247749768, 77086119080, 77298390152, 76421656960),
        ),
        (
            PHI_3,
            {"attention_implementation": "eager"},
            (22926510464, 58942761360, 59336763792, 59592202632, 38210828672),
        ),
        (
            GEMMA_2,
            {"attention_implementation": "eager"},
            (15686085122, 35077148178, 38222876178, 39271435786, 26143452674),
        ),
        (
            GEMMA_2,
            {
                "precision": "amp-bf16",
                "attention_implementation": "eager",
                "micro_batch_size": 4,
                "sequence_length": 1024,
            },
            (31372169220, 69872309260, 76201546796, 78260884492, 52286904324),
        ),
    ],
)
def test_a_published_model_holds_what_was_traced(
    holds_what_was_traced: Callable[..., None], config: dict[str, Any], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    holds_what_was_traced(config, traced, **fields)


@pytest.mark.parametrize(
    ("config", "precision", "forward", "kept", "backward"),
    [
        ({**SMALL, "model_type": "phi3"}, "bf16", 1663512, 1416712, 1743368),
        ({**SMALL, "model_type": "gemma", "num_key_value_heads": 1, "head_dim": 32}, "bf16", 1881880, 1635080, 1961736),
        ({**SMALL, "model_type": "gemma2", "head_dim": 32, "sliding_window": 16}, "bf16", 2360088, 2113288, 2439944),
        (
            {
                **SMALL,
                "model_type": "gemma3_text",
                "head_dim": 32,
                "sliding_window": 16,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            "bf16",
            2555160,
            2308360,
            2635016,
        ),
        ({**SMALL, "model_type": "olmo", "num_key_value_heads": None}, "bf16", 1588248, 1341448, 1668104),
        ({**SMALL, "model_type": "olmo2"}, "bf16", 1948184, 1701384, 2028040),
        (
            {
                **SMALL,
                "model_type": "olmo3",
                "sliding_window": 16,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            "bf16",
            1956376,
            1709576,
            2036232,
        ),
        ({**SMALL, "model_type": "cohere"}, "bf16", 1679640, 1432840, 1759496),
        ({**SMALL, "model_type": "cohere", "use_qk_norm": True}, "bf16", 1981464, 1734664, 2061320),
        (
            {
                **SMALL,
                "model_type": "cohere2",
                "sliding_window": 16,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            "bf16",
            1679640,
            1432840,
            1759496,
        ),
        ({**SMALL, "model_type": "glm", "head_dim": 16}, "bf16", 1663512, 1416712, 1743368),
        ({**SMALL, "model_type": "glm4", "head_dim": 16}, "bf16", 1862168, 1615368, 1942024),
        ({**SMALL, "model_type": "granite"}, "bf16", 1663512, 1416712, 1743368),
        ({**SMALL, "model_type": "ernie4_5", "head_dim": 16}, "bf16", 1675800, 1429000, 1755656),
        (
            {
                **SMALL,
                "model_type": "exaone4",
                "sliding_window": 16,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            "bf16",
            1817112,
            1570312,
            1896968,
        ),
        (
            {**SMALL, "model_type": "phi", "partial_rotary_factor": 0.5, "num_key_value_heads": None},
            "fp32",
            2040856,
            1875976,
            2202632,
        ),
        (
            {
                **SMALL,
                "model_type": "phi",
                "partial_rotary_factor": 0.5,
                "qk_layernorm": True,
                "num_key_value_heads": None,
            },
            "fp32",
            2188312,
            2023432,
            2350088,
        ),
        ({**SMALL, "model_type": "starcoder2"}, "fp32", 1588248, 1423368, 1750024),
        ({**SMALL, "model_type": "stablelm", "partial_rotary_factor": 0.25}, "fp32", 1975320, 1810440, 2137096),
        ({**SMALL, **STABLELM_2}, "fp32", 1952792, 1787912, 2114568),
        (
            {
                "model_type": "gptj",
                "n_embd": 64,
                "n_head": 4,
                "n_layer": 2,
                "n_positions": 128,
                "rotary_dim": 8,
                "vocab_size": 320,
            },
            "fp32",
            2380824,
            2215944,
            2542600,
        ),
    ],
)
def test_a_small_model_keeps_and_peaks_as_its_class_does(
    keeps_and_peaks: Callable[..., None], config: dict[str, Any], precision: str, forward: int, kept: int, backward: int
) -> None:
    keeps_and_peaks(config, precision, forward, kept, backward)


@pytest.mark.parametrize("config", [PHI_3, GEMMA_2])
def test_gradients_are_as_many_as_parameters(
    has_gradients_for_all: Callable[..., None], config: dict[str, Any]
) -> None:
    has_gradients_for_all(config)
