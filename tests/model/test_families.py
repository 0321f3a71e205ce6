"""Models by hand, of a family: the structure of the published model to the last switch."""

from dataclasses import replace
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.errors import ModelError
from planner.model import load_presets, read_config
from planner.model.counts import parameters
from planner.model.dimensions import from_dimensions
from planner.scenario import Scenario
from planner.scenario.families import families

TYPED: dict[str, dict[str, Any]] = {
    "meta-llama/Llama-3.1-8B": {
        "family": "llama",
        "layers": 32,
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "ffn_hidden_size": 14336,
        "vocab_size": 128256,
        "max_positions": 131072,
    },
    "mistralai/Mistral-7B-v0.1": {
        "family": "mistral",
        "layers": 32,
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "ffn_hidden_size": 14336,
        "vocab_size": 32000,
        "max_positions": 32768,
        "sliding_window": 4096,
    },
    "Qwen/Qwen2.5-0.5B": {
        "family": "qwen2",
        "layers": 24,
        "hidden_size": 896,
        "attention_heads": 14,
        "kv_heads": 2,
        "ffn_hidden_size": 4864,
        "vocab_size": 151936,
        "max_positions": 32768,
        "tied_embeddings": True,
    },
    "Qwen/Qwen3-4B": {
        "family": "qwen3",
        "layers": 36,
        "hidden_size": 2560,
        "attention_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "ffn_hidden_size": 9728,
        "vocab_size": 151936,
        "max_positions": 40960,
        "tied_embeddings": True,
    },
    "Qwen/Qwen3-30B-A3B": {
        "family": "qwen3-moe",
        "layers": 48,
        "hidden_size": 2048,
        "attention_heads": 32,
        "kv_heads": 4,
        "head_dim": 128,
        "ffn_hidden_size": 6144,
        "vocab_size": 151936,
        "max_positions": 40960,
        "experts": 128,
        "experts_per_token": 8,
        "expert_ffn_hidden_size": 768,
    },
    "mistralai/Mixtral-8x7B-v0.1": {
        "family": "mixtral",
        "layers": 32,
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "vocab_size": 32000,
        "max_positions": 32768,
        "experts": 8,
        "expert_ffn_hidden_size": 14336,
    },
    "deepseek-ai/DeepSeek-V3": {
        "family": "deepseek-v3",
        "layers": 61,
        "hidden_size": 7168,
        "attention_heads": 128,
        "head_dim": 128,
        "kv_rank": 512,
        "query_rank": 1536,
        "rotary_head_dim": 64,
        "value_head_dim": 128,
        "ffn_hidden_size": 18432,
        "vocab_size": 129280,
        "max_positions": 163840,
        "dense_layers": 3,
        "shared_experts": 1,
        "experts": 256,
        "experts_per_token": 8,
        "expert_ffn_hidden_size": 2048,
    },
    "google/gemma-2-2b": {
        "family": "gemma2",
        "layers": 26,
        "hidden_size": 2304,
        "attention_heads": 8,
        "kv_heads": 4,
        "head_dim": 256,
        "ffn_hidden_size": 9216,
        "vocab_size": 256000,
        "max_positions": 8192,
    },
    "google/gemma-3-1b-it": {
        "family": "gemma3",
        "layers": 26,
        "hidden_size": 1152,
        "attention_heads": 4,
        "kv_heads": 1,
        "head_dim": 256,
        "ffn_hidden_size": 6912,
        "vocab_size": 262144,
        "max_positions": 32768,
        "sliding_window": 512,
    },
    "openai-community/gpt2": {
        "family": "gpt2",
        "layers": 12,
        "hidden_size": 768,
        "attention_heads": 12,
        "vocab_size": 50257,
    },
    "EleutherAI/pythia-1b": {
        "family": "gpt-neox",
        "layers": 16,
        "hidden_size": 2048,
        "attention_heads": 8,
        "vocab_size": 50304,
        "max_positions": 2048,
    },
    "google-bert/bert-base-uncased": {
        "family": "bert",
        "layers": 12,
        "hidden_size": 768,
        "attention_heads": 12,
        "vocab_size": 30522,
    },
    "answerdotai/ModernBERT-base": {
        "family": "modernbert",
        "layers": 22,
        "hidden_size": 768,
        "attention_heads": 12,
        "ffn_hidden_size": 1152,
        "vocab_size": 50368,
        "max_positions": 8192,
    },
    "google/t5-v1_1-xxl": {
        "family": "t5",
        "layers": 24,
        "hidden_size": 4096,
        "attention_heads": 64,
        "ffn_hidden_size": 10240,
        "vocab_size": 32128,
    },
    "google/vit-base-patch16-224": {
        "family": "vit",
        "layers": 12,
        "hidden_size": 768,
        "attention_heads": 12,
        "labels": 1000,
    },
    "AntonV/mamba2-780m-hf": {
        "family": "mamba2",
        "layers": 48,
        "hidden_size": 1536,
        "attention_heads": 48,
        "vocab_size": 50288,
        "tied_embeddings": True,
    },
}
"""The sizes of real models, as a person would type them from a paper; the rest follows from the family."""
CATALOG = load_catalog()


def _plan(model: dict[str, Any], length: int = 512) -> dict[str, dict[str, int]]:
    phases = {"training": {"sequence_length": length}, "fine_tuning": {"method": "lora", "sequence_length": length}}
    tree = {
        "format": "vram-planner/scenario",
        "version": 1,
        "model": model,
        "phases": phases,
        "hardware": {"gpus": ["h100-sxm5-80gb"]},
    }
    plan = estimate(Scenario.of(tree), CATALOG)
    return {name: {**phase.components, "peak": phase.peak.allocated_bytes} for name, phase in plan.phases.items()}


@pytest.mark.parametrize("identifier", TYPED)
def test_the_typed_sizes_of_a_model_give_its_own_structure(identifier: str) -> None:
    preset = load_presets()[identifier]
    published = read_config(preset.config, preset.task)
    typed = from_dimensions(TYPED[identifier])
    assert parameters(typed) == parameters(published) == preset.parameters
    # How many groups DeepSeek's router chooses among is no dimension of the form.
    groups = [
        replace(group, feed_forward=replace(group.feed_forward, groups=1, chosen_groups=1))
        if identifier == "deepseek-ai/DeepSeek-V3" and hasattr(group.feed_forward, "groups")
        else group
        for group in published.stack.groups
    ]
    assert typed.stacks == (replace(published.stack, groups=tuple(groups)), *published.stacks[1:])
    assert typed.head == published.head
    assert typed.task == published.task


@pytest.mark.parametrize("identifier", TYPED)
def test_the_typed_sizes_of_a_model_give_its_peaks_to_the_byte(identifier: str) -> None:
    length = 197 if identifier.startswith("google/vit") else 512
    assert _plan({"dimensions": TYPED[identifier]}, length) == _plan({"preset": identifier}, length)


def test_every_family_is_held_to_a_published_model() -> None:
    assert {typed["family"] for typed in TYPED.values()} == set(families())


def test_a_family_keeps_its_structure_where_the_general_transformer_has_switches() -> None:
    gpt2 = TYPED["openai-community/gpt2"]
    switched = gpt2 | {"norm": "rmsnorm", "bias": False, "gated_mlp": True, "position_embedding": "none"}
    assert from_dimensions(switched) == from_dimensions(gpt2)


def test_the_other_task_of_a_family_puts_another_head_on_it() -> None:
    bert = TYPED["google-bert/bert-base-uncased"] | {"task": "sequence-classification", "labels": 3}
    # 109,482,240 of the body with its pooler, 768 x 3 + 3 of the classifier.
    assert parameters(from_dimensions(bert)) == 109_482_240 + 768 * 3 + 3


def test_a_task_that_a_family_has_no_head_for_is_refused() -> None:
    with pytest.raises(ModelError, match="no head for the task"):
        from_dimensions(TYPED["google/vit-base-patch16-224"] | {"task": "causal-lm"})


@pytest.mark.parametrize("family", families().values(), ids=list(families()))
def test_what_a_family_cannot_do_without_is_named(family: Any) -> None:
    least = {"family": family.id, "layers": 2, "hidden_size": 64, "attention_heads": 4}
    needed = [name for name in ("vocab_size", "experts") if name in family.keys]
    if not needed:
        assert parameters(from_dimensions(least)) > 0
        return
    with pytest.raises(ModelError, match=needed[0]):
        from_dimensions(least)
    assert parameters(from_dimensions(least | {"vocab_size": 1000, "experts": 4})) > 0
