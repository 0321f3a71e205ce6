"""Invariants of what makes long sequences fit, under every profile that has it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.phases.step import plan_step
from planner.model import resolve_model
from planner.scenario import Scenario

DIMENSIONS = {
    "layers": 4, "hidden_size": 512, "attention_heads": 16, "kv_heads": 16, "ffn_hidden_size": 2048, "vocab_size": 4096,
    "max_positions": 65536,
}  # fmt: skip
PRECISIONS = {"megatron-core": "bf16-fp32-master"}
PROFILES = ("hf-transformers", "megatron-core", "torchtitan", "torchtune")


def step(profile: str, tokens: int, **fields: Any) -> Any:
    chosen = {
        "precision": PRECISIONS.get(profile, "bf16"), "sequence_length": tokens, "activation_profile": profile,
        "attention_implementation": "flash_attention_2",
    } | fields  # fmt: skip
    scenario = Scenario.of({"model": {"dimensions": DIMENSIONS}, "phases": {"training": chosen}})
    assert scenario.phases.training is not None
    return plan_step(scenario.phases.training, resolve_model(scenario.model, {}))


def peak(profile: str, tokens: int, **fields: Any) -> int:
    return int(step(profile, tokens, **fields).peak_bytes())


@pytest.mark.parametrize("profile", PROFILES)
@given(tokens=st.sampled_from([4096, 8192, 32768]), ranks=st.sampled_from([2, 4, 8]))
@settings(max_examples=6, deadline=None)
def test_each_further_context_rank_keeps_less(profile: str, tokens: int, ranks: int) -> None:
    few, many = (step(profile, tokens, parallelism={"context": degree}) for degree in (ranks // 2, ranks))
    assert int(many.kept_bytes()) == pytest.approx(int(few.kept_bytes()) / 2, rel=0.01)
    assert int(many.peak_bytes()) < int(few.peak_bytes())


@pytest.mark.parametrize("profile", ["hf-transformers", "megatron-core"])
@given(tokens=st.sampled_from([4096, 16384]), ranks=st.sampled_from([2, 4, 8]))
@settings(max_examples=5, deadline=None)
def test_exchanging_heads_and_going_round_a_ring_keep_a_rank_s_share(profile: str, tokens: int, ranks: int) -> None:
    ring, exchange = (
        step(profile, tokens, parallelism={"context": ranks, "context_parallel_mode": mode})
        for mode in ("ring", "ulysses")
    )
    whole = step(profile, tokens)
    for split in (ring, exchange):
        # Exchanged values are copies, so that the fused projection that they were cut from is not kept.
        assert int(split.kept_bytes()) == pytest.approx(int(whole.kept_bytes()) / ranks, rel=0.1)
        assert int(split.peak_bytes()) < int(whole.peak_bytes())


@pytest.mark.parametrize("profile", PROFILES)
@given(tokens=st.sampled_from([2048, 8192, 32768]), full=st.booleans())
@settings(max_examples=5, deadline=None)
def test_what_waits_in_host_ram_is_not_kept(profile: str, tokens: int, full: bool) -> None:
    checkpointing = {"activation_checkpointing": "full"} if full else {}
    stays, waits = (
        step(profile, tokens, offload={"activations": target}, **checkpointing) for target in ("none", "cpu")
    )
    assert int(waits.kept_bytes()) < int(stays.kept_bytes())
    assert int(waits.peak_bytes()) <= int(stays.peak_bytes())


@given(tokens=st.sampled_from([4096, 16384, 65536]))
@settings(max_examples=3, deadline=None)
def test_tiles_need_no_more_than_a_whole_feed_forward(tokens: int) -> None:
    assert peak("hf-transformers", tokens, tiled_mlp=True) < peak("hf-transformers", tokens)


@pytest.mark.parametrize("profile", ["hf-transformers", "torchtitan", "torchtune"])
@given(tokens=st.sampled_from([8192, 32768]), chunks=st.sampled_from([4, 8, 32]))
@settings(max_examples=5, deadline=None)
def test_more_chunks_of_the_loss_need_no_more(profile: str, tokens: int, chunks: int) -> None:
    whole = peak(profile, tokens)
    needs = [peak(profile, tokens, loss_implementation="chunked", loss_chunks=count) for count in (chunks, 2 * chunks)]
    assert needs[1] <= needs[0] <= whole
