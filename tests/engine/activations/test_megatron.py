"""Megatron Core's layers against the terms of Korthikanti et al. (arXiv:2205.05198), table 2."""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario

S, B, H, A, L, T = 2048, 4, 6144, 64, 48, 8
GPT_22B = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": H, "n_head": A, "n_layer": L,
    "n_positions": S, "n_ctx": S, "n_inner": 4 * H, "vocab_size": 51200, "activation_function": "gelu_new",
    "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "tie_word_embeddings": True,
}  # fmt: skip
NORM_ROWS = 4 * 4 * S * B * L
"""Mean and deviation of two norms per layer, which the paper leaves out."""


def kept(**step: Any) -> int:
    parallel = step.pop("parallelism", {})
    chosen = {
        "activation_profile": "megatron-core", "micro_batch_size": B, "sequence_length": S,
        "attention_implementation": "eager", "precision": "bf16-fp32-master", "parallelism": parallel,
    } | step  # fmt: skip
    scenario = Scenario.of({"model": {"config": GPT_22B, "task": "causal-lm"}, "phases": {"training": chosen}})
    return estimate(scenario, load_catalog()).phases["training"].layer_activation_bytes


@pytest.mark.parametrize(
    ("step", "per_sbh"),
    [
        ({}, 34 + 5 * A * S / H),
        ({"activation_checkpointing": "selective"}, 34),
        ({"activation_checkpointing": "full"}, 2),
        ({"parallelism": {"tensor": T}}, 10 + 24 / T + 5 * A * S / H / T),
        ({"parallelism": {"tensor": T}, "activation_checkpointing": "selective"}, 10 + 24 / T),
        ({"parallelism": {"tensor": T, "sequence_parallel": True}}, 34 / T + 5 * A * S / H / T),
        (
            {"parallelism": {"tensor": T, "sequence_parallel": True}, "activation_checkpointing": "selective"},
            34 / T,
        ),
    ],
)
def test_a_layer_keeps_what_the_paper_counts(step: dict[str, Any], per_sbh: float) -> None:
    paper = round(S * B * H * L * per_sbh)
    assert 0 <= kept(**step) - paper <= NORM_ROWS
