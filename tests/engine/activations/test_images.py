"""Models of images against traces of the real classes.

Source: torch 2.13.0 with transformers 5.24.0 on fake CUDA tensors, as in `resources/evidence/optrace-others.json`. Of
ConvNeXt (stochastic depth at a rate of zero) and CLIP (12 layers of text beside 24 of images) the classes were traced
again at their full depth, since the traces in that file were drawn out from fewer layers of another structure.
"""

from collections.abc import Callable
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario

VIT = {
    "model_type": "vit", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "qkv_bias": True, "num_labels": 1000,
}  # fmt: skip
DINOV2 = {**VIT, "model_type": "dinov2", "patch_size": 14, "mlp_ratio": 4, "drop_path_rate": 0.0}
RESNET = {
    "model_type": "resnet", "depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048], "embedding_size": 64,
    "layer_type": "bottleneck", "num_channels": 3, "num_labels": 1000,
}  # fmt: skip
RESNET_18 = {**RESNET, "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
CONVNEXT = {
    "model_type": "convnext", "depths": [3, 3, 9, 3], "hidden_sizes": [96, 192, 384, 768], "patch_size": 4,
    "num_channels": 3, "image_size": 224, "drop_path_rate": 0.0, "layer_scale_init_value": 1e-6, "num_labels": 1000,
}  # fmt: skip
SWIN = {
    "model_type": "swin", "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "embed_dim": 96, "patch_size": 4,
    "window_size": 7, "image_size": 224, "num_channels": 3, "mlp_ratio": 4.0, "qkv_bias": True, "drop_path_rate": 0.1,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": 1000,
}  # fmt: skip
CLIP = {
    "model_type": "clip", "projection_dim": 768,
    "text_config": {
        "model_type": "clip_text_model", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "max_position_embeddings": 77, "vocab_size": 49408, "hidden_act": "quick_gelu",
    },
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "image_size": 224, "patch_size": 14, "num_channels": 3, "hidden_act": "quick_gelu",
    },
}  # fmt: skip
BATCH = {"precision": "fp32", "micro_batch_size": 32, "image_size": 224}
CLASSES = "image-classification"
MASK_TOKEN = 768


@pytest.mark.parametrize(
    ("config", "fields", "traced"),
    [
        (VIT, {}, (1058079712, 4820579752, 4820707752, 4891021384, 1750620960)),
        (VIT, {"precision": "amp-bf16"}, (1058079712, 3588704264, 3608303576, 3643093672, 1750620960)),
        (VIT, {"attention_implementation": "eager"}, (1058079712, 5531778280, 5531906280, 5602219912, 1750620960)),
        (RESNET, {}, (326165128, 3056342160, 3068797064, 3089838128, 530621384)),
        (RESNET, {"precision": "amp-bf16"}, (326165128, 1777817616, 1779821064, 1794439600, 530621384)),
        (SWIN, {}, (358958584, 3653875520, 3668087352, 3690243552, 585265416)),
        (SWIN, {"precision": "amp-bf16"}, (358958584, 2500664320, 2518221880, 2516310688, 585265416)),
        (CONVNEXT, {}, (362337376, 3836183656, 3845492576, 3872468744, 591050400)),
        (CONVNEXT, {"precision": "amp-bf16"}, (362337376, 2359065128, 2410257632, 2379445448, 591050400)),
    ],
)
def test_a_classifier_of_images_holds_what_was_traced(
    holds_what_was_traced: Callable[..., None], config: dict[str, Any], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    holds_what_was_traced(config, traced, task=CLASSES, **{**BATCH, **fields})


@pytest.mark.parametrize(
    ("precision", "traced"),
    [
        ("fp32", (5150688124, 23231607500, 23239181016, 23303541704, 8571620228)),
        ("amp-bf16", (5150688124, 16822780908, 16831157240, 16858537192, 8571620228)),
    ],
)
def test_clip_holds_what_was_traced(
    holds_what_was_traced: Callable[..., None], precision: str, traced: tuple[int, ...]
) -> None:
    fields = {**BATCH, "precision": precision, "sequence_length": 77}
    holds_what_was_traced(CLIP, traced, task="feature-extraction", **fields)


@pytest.mark.parametrize(("config", "traced"), [(VIT, 849587104), (RESNET, 860301384)])
def test_evaluation_frees_what_no_later_layer_reads(config: dict[str, Any], traced: int) -> None:
    document = {
        "model": {"config": config, "task": CLASSES},
        "phases": {"evaluation": {"precision": "fp32", "batch_size": 64, "image_size": 224}},
    }
    phase = estimate(Scenario.of(document), load_catalog()).phases["evaluation"]
    assert abs(phase.peak.allocated_bytes - traced) <= 4096


@pytest.mark.parametrize(
    ("config", "task", "untrained"),
    [
        (VIT, CLASSES, 0),
        (VIT, "feature-extraction", 0),
        (DINOV2, CLASSES, MASK_TOKEN),
        (RESNET, CLASSES, 0),
        (RESNET_18, CLASSES, 0),
        (CONVNEXT, CLASSES, 0),
        (SWIN, CLASSES, 0),
        (CLIP, "feature-extraction", 0),
    ],
)
def test_gradients_are_as_many_as_parameters_that_are_read(
    has_gradients_for_all: Callable[..., None], config: dict[str, Any], task: str, untrained: int
) -> None:
    has_gradients_for_all(config, task, untrained, sequence_length=77)


@pytest.mark.parametrize("config", [VIT, RESNET, CONVNEXT, SWIN])
def test_a_larger_image_needs_more(config: dict[str, Any]) -> None:
    def peak(image_size: int) -> int:
        document = {
            "model": {"config": config, "task": CLASSES},
            "phases": {"training": {**BATCH, "image_size": image_size}},
        }
        return estimate(Scenario.of(document), load_catalog()).phases["training"].peak.allocated_bytes

    assert peak(224) < peak(448)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("phase", ["training", "evaluation"])
def test_pyramids_without_rules_of_their_own_are_planned_roughly(phase: str, attention: str) -> None:
    config = {
        "model_type": "swinv2", "image_size": 64, "patch_size": 4, "num_channels": 3, "embed_dim": 32,
        "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "mlp_ratio": 4.0, "num_labels": 10,
    }  # fmt: skip
    model = {"config": config, "task": CLASSES}
    scenario = Scenario.of(
        {"name": "Swin v2", "model": model, "phases": {phase: {"attention_implementation": attention}}}
    )
    plan = estimate(scenario, load_catalog()).phases[phase]  # type: ignore[index]
    assert plan.warnings
    assert plan.components["activations"] + plan.components["temporaries"] > 0
