"""Training steps of Stable Diffusion 3's transformer against traces of diffusers' own class.

Source: diffusers 0.42.1 and peft 0.21.2 under torch 2.13.0 with fake CUDA tensors: `SD3Transformer2DModel` in the step
of `examples/dreambooth/train_dreambooth_lora_sd3.py` without preconditioned outputs, latents and embeddings of 154
tokens at hand; bytes alive beside the weights, at the highest point of forward, at its end, and at the highest point of
backward.
"""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.scenario import Scenario

TRANSFORMER = {
    "_class_name": "SD3Transformer2DModel", "num_layers": 3, "num_attention_heads": 2, "attention_head_dim": 32,
    "joint_attention_dim": 48, "pooled_projection_dim": 24, "caption_projection_dim": 64, "pos_embed_max_size": 24,
    "sample_size": 16, "in_channels": 16, "out_channels": 16, "patch_size": 2,
}  # fmt: skip
LORA = {"method": "lora", "lora": {"rank": 4, "target_modules": ("to_k", "to_q", "to_v", "to_out.0")}}
TINY = {"image_size": 128, "precision": "bf16"}
AGAIN = {"activation_checkpointing": "full"}


def _planned(transformer: dict[str, Any], **fields: Any) -> PhasePlan:
    pipeline = {"_class_name": "StableDiffusion3Pipeline", "components": {"transformer": transformer}}
    name = "fine_tuning" if "method" in fields else "training"
    phase = {"optimizer": "sgd", "encoded_ahead": "everything", **fields}
    document = {"model": {"config": pipeline, "task": "diffusion"}, "phases": {name: phase}}
    return estimate(Scenario.of(document), load_catalog()).phases[name]


@pytest.mark.parametrize(
    ("fields", "traced"),
    [
        (TINY, (1653704, 1620940, 1686476)),
        (TINY | AGAIN, (351610, 182404, 1304972)),
        (TINY | {"precision": "fp32"}, (3075888, 3043124, 3201080)),
        (TINY | AGAIN | LORA, (403834, 181252, 755468)),
    ],
)
def test_a_step_holds_what_the_class_was_traced_to_hold(fields: dict[str, Any], traced: tuple[int, ...]) -> None:
    phase = _planned(TRANSFORMER, **fields)
    assert not phase.warnings
    weights = phase.moments["start_of_step"].components["weights"]
    moments = ("forward", "end_of_forward", "backward")
    assert [phase.moments[name].allocated_bytes - weights for name in moments] == pytest.approx(traced, rel=1e-4)


def test_the_table_of_positions_stands_beside_the_weights() -> None:
    phase = _planned(TRANSFORMER, **TINY)
    # 24 x 24 positions of 64 numbers in bf16.
    assert [term.bytes for term in phase.terms if term.name == "pos_embed"] == [24 * 24 * 64 * 2]


def test_blocks_that_attend_twice_are_marked_as_approximated() -> None:
    twice = {**TRANSFORMER, "dual_attention_layers": [0], "qk_norm": "rms_norm"}
    assert any("denoiser" in text for text in _planned(twice, **TINY).warnings)
