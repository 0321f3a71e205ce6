"""One rank of a divided step against operator-level traces of rank 0.

Source of the figures: torch 2.13.0 with transformers 5.24.0, fake CUDA tensors and process groups of 2 and 8 ranks;
Llama 3 8B and Llama 3.2 1B, one sequence of 2048 tokens, fp32 parameters with 16-bit compute (tensor parallel: bf16).
"""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.optimizer import ParameterTensor
from planner.engine.sharding import fullest_share
from planner.scenario import Scenario

CONFIGS: dict[str, dict[str, Any]] = {
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64},
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "head_dim": 128},
}
SHARED = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 131072, "hidden_act": "silu",
}  # fmt: skip
MOMENTS = ("start_of_step", "end_of_forward", "forward", "backward", "optimizer_step")


def needs(size: str, parallelism: dict[str, Any], **fields: Any) -> tuple[int, ...]:
    config = {**SHARED, **CONFIGS[size], "tie_word_embeddings": size == "1b"}
    training = {"precision": "amp-bf16", "sequence_length": 2048, "parallelism": parallelism, **fields}
    document = {"model": {"config": config, "task": "causal-lm"}, "phases": {"training": training}}
    phase = estimate(Scenario.of(document), load_catalog()).phases["training"]
    return tuple(phase.moments[moment].allocated_bytes for moment in MOMENTS)


FSDP = {"data": 8, "zero_stage": 3, "sharding_backend": "fsdp2", "fsdp_reduce_dtype": "fp32"}


@pytest.mark.parametrize(
    ("size", "fields", "traced"),
    [
        ("8b", {"optimizer_implementation": "fused"},
         (12045426316, 26326532508, 30440120732, 30965440916, 16060556940)),
        ("1b", {}, (1853754624, 6499757712, 8722751120, 9248071304, 3089569024)),
    ],
)  # fmt: skip
def test_fsdp2_gathers_units_and_scatters_their_gradients(
    size: str, fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    for found, expected in zip(needs(size, FSDP, **fields), traced, strict=True):
        assert found == pytest.approx(expected, rel=1e-6)


def test_what_fsdp_gathers_is_not_divided_by_the_ranks() -> None:
    few, many = needs("8b", {**FSDP, "data": 8}), needs("8b", {**FSDP, "data": 64})
    shards = [12 * -(-8030261248 // ranks) for ranks in (8, 64)]
    # States fall with the ranks; what the loss adds on top hardly changes.
    assert few[0] - many[0] == pytest.approx(shards[0] - shards[1], rel=1e-3)
    assert few[2] - few[0] == pytest.approx(many[2] - many[0], rel=1e-6)


def test_gradients_in_buckets_are_there_from_the_start() -> None:
    apart = needs("1b", {"data": 8})
    inside = needs("1b", {"data": 8, "gradient_as_bucket_view": True})
    assert apart[0] == inside[0]
    assert apart[4] - inside[4] == 4 * 1235814400


def test_tensor_parallel_ranks_keep_whole_logits_and_a_whole_gradient_of_the_table() -> None:
    one, eight = (needs("8b", {"tensor": ranks}, precision="bf16") for ranks in (1, 8))
    table = 2 * 128256 * 4096
    divided = 2 * 3 * 8030261248 // 8
    # Weights, gradients and both states, all divided but the table's gradient; and a copy of this rank's rows.
    assert eight[4] == pytest.approx(divided + 2 * 8030261248 // 8 * 2 + table - table // 8 + table // 8, rel=0.03)
    assert one[3] - one[0] > eight[3] - eight[0] > 12 * 2048 * 128256


def test_sequence_parallel_divides_what_norms_and_sums_keep() -> None:
    plain, split = (
        needs("8b", {"tensor": 8, "sequence_parallel": on}, precision="bf16", use_cache=False) for on in (False, True)
    )
    # T x (16h + 8) becomes T x ((12h + 8) / N + 4h) in each of 32 layers.
    per_layer = 2048 * (16 * 4096 + 8 - (12 * 4096 + 8) / 8 - 4 * 4096)
    # And once, for the final norm, T x (8h + 4) becomes T x ((6h + 4) / N + 2h).
    once = 2048 * (8 * 4096 + 4 - (6 * 4096 + 4) / 8 - 2 * 4096)
    assert (plain[1] - plain[0]) - (split[1] - split[0]) == 32 * per_layer + once


def test_a_table_that_outweighs_a_rank_s_share_makes_that_rank_the_fullest() -> None:
    tensors = (ParameterTensor((1000, 10)), ParameterTensor((10, 10), 30))
    # 13 000 elements over four ranks would be 3 250 each, but the table alone has 10 000.
    share = fullest_share(tensors, 4)
    assert sum(tensor.elements for tensor in share) == 10_000
