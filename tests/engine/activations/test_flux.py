"""Training steps of FLUX.1's transformer against traces of diffusers' own class.

Source: diffusers 0.42.1 and peft 0.21.2 under torch 2.13.0 with fake CUDA tensors: `FluxTransformer2DModel` in the step
of `examples/dreambooth/train_dreambooth_lora_flux.py` with latents and embeddings of 512 tokens at hand, head norms
by PyTorch's fused kernel; bytes alive beside the weights, at the highest point of forward, at its end, and at the
highest point of backward.
"""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.scenario import Scenario

FLUX = {"preset": "black-forest-labs/FLUX.1-dev"}
SMALL = {
    "config": {
        "_class_name": "FluxPipeline",
        "components": {
            "transformer": {
                "_class_name": "FluxTransformer2DModel", "num_layers": 2, "num_single_layers": 2, "in_channels": 64,
                "num_attention_heads": 2, "attention_head_dim": 32, "joint_attention_dim": 48, "patch_size": 1,
                "pooled_projection_dim": 24, "guidance_embeds": True, "axes_dims_rope": [8, 12, 12],
            }
        },
    },
    "task": "diffusion",
}  # fmt: skip
TARGETS = (
    *("attn.to_k", "attn.to_q", "attn.to_v", "attn.to_out.0"),
    *("attn.add_k_proj", "attn.add_q_proj", "attn.add_v_proj", "attn.to_add_out"),
    *("ff.net.0.proj", "ff.net.2", "ff_context.net.0.proj", "ff_context.net.2"),
)
"""What the script adapts by default."""
LORA = {"method": "lora", "lora": {"rank": 4, "target_modules": TARGETS}}
TINY = {"image_size": 256, "micro_batch_size": 2, "precision": "bf16"}
AGAIN = {"activation_checkpointing": "full"}


def _planned(model: dict[str, Any], **fields: Any) -> PhasePlan:
    name = "fine_tuning" if "method" in fields else "training"
    phase = {"optimizer": "sgd", "encoded_ahead": "everything", **fields}
    return estimate(Scenario.of({"model": model, "phases": {name: phase}}), load_catalog()).phases[name]


@pytest.mark.parametrize(
    ("model", "fields", "traced"),
    [
        (SMALL, TINY, (18694636, 17908204, 18690280)),
        (SMALL, TINY | AGAIN, (4503180, 1946508, 6611744)),
        (SMALL, TINY | {"precision": "fp32"}, (36971320, 35263276, 36962608)),
        (SMALL, TINY | AGAIN | LORA, (6312076, 1811596, 10089632)),
        (FLUX, {"image_size": 512, "precision": "bf16"} | AGAIN | LORA, (802598422, 557480472, 951084592)),
    ],
)
def test_a_step_holds_what_the_class_was_traced_to_hold(
    model: dict[str, Any], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    phase = _planned(model, **fields)
    assert not phase.warnings
    weights = phase.moments["start_of_step"].components["weights"]
    moments = ("forward", "end_of_forward", "backward")
    assert [phase.moments[name].allocated_bytes - weights for name in moments] == pytest.approx(traced, rel=3e-3)


def test_gradients_are_those_of_all_weights() -> None:
    # 980 352 bytes of weights in bf16, as the traced class has them.
    phase = _planned(SMALL, **TINY)
    assert phase.moments["optimizer_step"].components["gradients"] == 980_352
    assert phase.moments["start_of_step"].components["weights"] == 980_352


def test_adapters_are_those_that_peft_makes_for_the_script() -> None:
    # 44 826 624 bytes of adapters in fp32, as peft made them for the whole model.
    phase = _planned(FLUX, precision="bf16", **AGAIN, **LORA)
    adapters = [term.bytes for term in phase.terms if term.name == "adapters"]
    assert adapters == [44_826_624]


def test_another_denoiser_is_marked_as_approximated() -> None:
    transformer = {
        "_class_name": "PixArtTransformer2DModel", "num_attention_heads": 2, "attention_head_dim": 32, "num_layers": 2,
        "cross_attention_dim": 64, "caption_channels": 48, "in_channels": 4, "sample_size": 32, "patch_size": 2,
    }  # fmt: skip
    model = {
        "config": {"_class_name": "PixArtAlphaPipeline", "components": {"transformer": transformer}},
        "task": "diffusion",
    }
    phase = _planned(model, precision="bf16")
    assert [text for text in phase.warnings if text.startswith("Activations of this denoiser are approximated")]
