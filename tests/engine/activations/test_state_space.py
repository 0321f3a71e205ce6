"""Mamba, Mamba 2 and its mixtures with attention against traces of their classes, run without fused kernels.

Sources: `resources/evidence/optrace-others.json` for the published model; the same class on a CPU for the small one.
"""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.model import read_config
from planner.model.counts import parameters
from planner.scenario import Scenario

MAMBA2_130M = {
    "model_type": "mamba2", "hidden_size": 768, "num_heads": 24, "head_dim": 64, "state_size": 128, "n_groups": 1,
    "expand": 2, "conv_kernel": 4, "chunk_size": 256, "num_hidden_layers": 24, "vocab_size": 50288,
    "tie_word_embeddings": False, "use_conv_bias": True, "use_bias": False,
}  # fmt: skip
SMALL = {
    **MAMBA2_130M, "hidden_size": 32, "num_heads": 4, "head_dim": 16, "state_size": 8, "chunk_size": 16,
    "num_hidden_layers": 2, "vocab_size": 64,
}  # fmt: skip

BAMBA = {
    "model_type": "bamba", "hidden_size": 32, "intermediate_size": 56, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 64, "attn_layer_indices": [1], "mamba_n_heads": 4,
    "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_expand": 2, "mamba_chunk_size": 16,
    "mamba_d_conv": 4, "tie_word_embeddings": False, "partial_rotary_factor": 0.5,
}  # fmt: skip
NEMOTRON_H = {
    "model_type": "nemotron_h", "hidden_size": 32, "intermediate_size": 56, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 3, "layers_block_type": ["mamba", "attention", "mlp"],
    "vocab_size": 64, "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 1, "ssm_state_size": 8, "chunk_size": 16,
    "conv_kernel": 4, "tie_word_embeddings": False,
}  # fmt: skip

MAMBA = {
    "model_type": "mamba", "hidden_size": 32, "state_size": 8, "num_hidden_layers": 1, "vocab_size": 64, "expand": 2,
    "conv_kernel": 4, "time_step_rank": 4, "tie_word_embeddings": False, "use_conv_bias": True, "use_bias": False,
}  # fmt: skip

JAMBA = {
    "model_type": "jamba", "hidden_size": 32, "intermediate_size": 56, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 4, "vocab_size": 64, "num_experts": 4, "num_experts_per_tok": 2,
    "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
    "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 4, "tie_word_embeddings": False,
}  # fmt: skip


def plan(config: dict[str, Any], name: str = "training", **fields: Any) -> PhasePlan:
    document = {"model": {"config": config, "task": "causal-lm"}, "phases": {name: fields}}
    return estimate(Scenario.of(document), load_catalog()).phases[name]


def test_a_step_of_the_published_model() -> None:
    phase = plan(MAMBA2_130M, precision="fp32", micro_batch_size=4, sequence_length=1024)
    traced = {
        "start_of_step": 2011395328,
        "end_of_forward": 25962696632,
        "backward": 27610501048,
        "optimizer_step": 3352281856,
    }
    for moment, expected in traced.items():
        assert 0 <= expected - phase.moments[moment].allocated_bytes <= 4, moment
    assert phase.moments["forward"].allocated_bytes == pytest.approx(26786648024, rel=1e-5)


def test_an_evaluation_of_the_published_model() -> None:
    phase = plan(MAMBA2_130M, "evaluation", precision="fp32", batch_size=4, sequence_length=1024)
    assert phase.peak.allocated_bytes == 1506977536


@pytest.mark.parametrize(
    ("precision", "kept", "forward", "backward"),
    [("fp32", 1069124, 1105728, 1109448), ("bf16", 978884, 1039168, 1021832)],
)
def test_a_small_model_whose_sequence_is_no_whole_number_of_chunks(
    precision: str, kept: int, forward: int, backward: int
) -> None:
    phase = plan(SMALL, precision=precision, micro_batch_size=2, sequence_length=40)
    start = phase.moments["start_of_step"].allocated_bytes
    assert phase.moments["end_of_forward"].allocated_bytes - start == kept
    assert phase.moments["forward"].allocated_bytes - start == forward
    assert phase.moments["backward"].allocated_bytes - start == backward


@pytest.mark.parametrize(
    ("config", "precision", "kept", "backward"),
    [
        (BAMBA, "bf16", 739844, 780168),
        (BAMBA, "fp32", 890564, 930888),
        (NEMOTRON_H, "fp32", 750724, 791048),
    ],
)
def test_a_small_mixture_of_mamba_2_and_attention(
    config: dict[str, Any], precision: str, kept: int, backward: int
) -> None:
    phase = plan(config, precision=precision, attention_implementation="eager", micro_batch_size=2, sequence_length=40)
    start = phase.moments["start_of_step"].allocated_bytes
    assert phase.moments["end_of_forward"].allocated_bytes - start == kept
    assert phase.moments["backward"].allocated_bytes - start == backward


@pytest.mark.parametrize(
    ("config", "precision", "kept"),
    [(MAMBA, "fp32", 795652), (MAMBA, "bf16", 783236), (JAMBA, "fp32", 2463332), (JAMBA, "bf16", 2121700)],
)
def test_mamba_1_keeps_the_state_of_every_token(config: dict[str, Any], precision: str, kept: int) -> None:
    phase = plan(config, precision=precision, attention_implementation="eager", micro_batch_size=2, sequence_length=40)
    start = phase.moments["start_of_step"].allocated_bytes
    assert phase.moments["end_of_forward"].allocated_bytes - start == kept


@pytest.mark.parametrize("config", [MAMBA2_130M, SMALL, BAMBA, NEMOTRON_H, MAMBA, JAMBA])
def test_gradients_are_as_many_as_parameters(config: dict[str, Any]) -> None:
    held = plan(config, precision="bf16", sequence_length=256).moments["optimizer_step"].components["gradients"]
    assert held == 2 * parameters(read_config(config, "causal-lm", ""))


def test_memory_grows_by_whole_chunks() -> None:
    def kept(tokens: int) -> int:
        phase = plan(SMALL, precision="fp32", sequence_length=tokens)
        return phase.moments["end_of_forward"].allocated_bytes - phase.moments["start_of_step"].allocated_bytes

    within, beyond = kept(47) - kept(46), kept(49) - kept(48)
    assert beyond > 10 * within


def test_generation_keeps_a_state_of_fixed_size() -> None:
    def decode(context: int) -> int:
        phase = plan(SMALL, "serving", engine="transformers", weights="bf16", context_length=context)
        return phase.moments["decode"].allocated_bytes

    assert decode(4096) - decode(2048) < 2048 * 16
