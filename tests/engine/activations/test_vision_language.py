"""Vision-language models: tower, projector and image tokens, against traces of their classes.

Source of the numbers: transformers 5.24.0 under torch 2.13 fake tensors (device `cuda`), two sequences of 64 tokens
with one image each; bytes above weights, buffers and batch.
"""

from collections.abc import Callable
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.activations.lower import NO_IMAGES
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.scenario import Scenario

TEXT = {
    "vocab_size": 320, "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 128,
}  # fmt: skip
PLAIN_TOWER = {
    "hidden_size": 48, "intermediate_size": 144, "num_attention_heads": 3, "num_hidden_layers": 3, "image_size": 32,
    "patch_size": 8, "projection_dim": 48,
}  # fmt: skip
LLAVA = {
    "model_type": "llava", "text_config": {**TEXT, "model_type": "llama"},
    "vision_config": {**PLAIN_TOWER, "model_type": "clip_vision_model"}, "vision_feature_layer": -2,
}  # fmt: skip
GEMMA_3 = {
    "model_type": "gemma3", "mm_tokens_per_image": 4, "text_config": {
        **TEXT, "model_type": "gemma3_text", "head_dim": 16, "sliding_window": 32,
        "layer_types": ["sliding_attention", "full_attention"],
    }, "vision_config": {**PLAIN_TOWER, "model_type": "siglip_vision_model"},
}  # fmt: skip
QWEN_2_5 = {
    "model_type": "qwen2_5_vl", "text_config": {**TEXT, "head_dim": 16, "model_type": "qwen2_5_vl_text"},
    "vision_config": {
        "depth": 3, "hidden_size": 48, "intermediate_size": 144, "num_heads": 3, "patch_size": 8,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 64, "window_size": 32,
        "fullatt_block_indexes": [1],
    },
}  # fmt: skip
QWEN_2 = {
    "model_type": "qwen2_vl", "text_config": {**TEXT, "head_dim": 16, "model_type": "qwen2_vl_text"},
    "vision_config": {
        "depth": 2, "embed_dim": 48, "hidden_size": 64, "mlp_ratio": 3, "num_heads": 3, "patch_size": 8,
        "spatial_merge_size": 2, "temporal_patch_size": 2,
    },
}  # fmt: skip


def step(config: dict[str, Any], **fields: Any) -> PhasePlan:
    phase = {"precision": "bf16", "micro_batch_size": 2, "sequence_length": 64, "optimizer": "sgd", **fields}
    document = {"model": {"config": config, "task": "image-text-to-text"}, "phases": {"training": phase}}
    return estimate(Scenario.of(document), load_catalog()).phases["training"]


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (LLAVA, {}, (1_433_352, 1_122_728, 1_449_384)),
        (GEMMA_3, {}, (2_009_184, 1_758_288, 2_084_944)),
        (QWEN_2, {"image_size": 64}, (1_815_336, 1_564_440, 1_891_096)),
        (QWEN_2_5, {"image_size": 64}, (2_356_856, 2_093_672, 2_420_328)),
        (QWEN_2_5, {"image_size": 64, "activation_checkpointing": "full"}, (663_192, 400_008, 939_720)),
    ],
    ids=["llava", "gemma-3", "qwen-2", "qwen-2.5", "qwen-2.5-checkpointed"],
)
def test_a_step_is_that_of_its_trace(
    config: dict[str, Any], fields: dict[str, Any], traced: tuple[int, int, int]
) -> None:
    phase = step(config, **fields)
    assert not phase.warnings
    start = phase.moments["start_of_step"].allocated_bytes
    for moment, real in zip(("forward", "end_of_forward", "backward"), traced, strict=True):
        own = phase.moments[moment].allocated_bytes - start
        # Positions of text and images differ from sequence to sequence, of which one table is told.
        assert own == pytest.approx(real, rel=1.2e-2 if "activation_checkpointing" in fields else 3e-3), moment


def test_larger_images_keep_more() -> None:
    small, large = (step(LLAVA, image_size=size).moments["end_of_forward"].allocated_bytes for size in (32, 64))
    assert large > small


def test_images_of_any_size_have_to_be_stated() -> None:
    assert NO_IMAGES in step(QWEN_2_5).warnings
    assert not step(QWEN_2_5, image_tokens=16).warnings


def test_every_weight_that_is_read_has_a_gradient(has_gradients_for_all: Callable[..., None]) -> None:
    has_gradients_for_all(QWEN_2, task="image-text-to-text", image_size=64)
