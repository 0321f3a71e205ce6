"""Training steps of UNets against traces of diffusers' own class.

Source: diffusers 0.42.1 and peft 0.21.2 under torch 2.13.0 with fake CUDA tensors: `UNet2DConditionModel` in the step
of `examples/text_to_image/train_text_to_image.py`, with latents and embeddings at hand, or `AutoencoderKL` before it;
bytes alive beside the weights, at the highest point of forward, at its end, and at the highest point of backward.
"""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.model import resolve_model
from planner.model.counts import parameters
from planner.model.spec import ModelSpec
from planner.scenario import Scenario, validate

MOMENTS = ("forward", "end_of_forward", "backward")
SD = "runwayml/stable-diffusion-v1-5"
XL = "stabilityai/stable-diffusion-xl-base-1.0"
SMALL = {
    "_class_name": "UNet2DConditionModel", "block_out_channels": [32, 64], "layers_per_block": 2, "in_channels": 4,
    "out_channels": 4, "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "cross_attention_dim": 48,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], "attention_head_dim": 4, "sample_size": 64,
}  # fmt: skip
SMALL_XL = {
    **SMALL, "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"], "attention_head_dim": [2, 4],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"], "transformer_layers_per_block": [1, 2],
    "use_linear_projection": True, "addition_embed_type": "text_time", "addition_time_embed_dim": 32,
    "projection_class_embeddings_input_dim": 256,
}  # fmt: skip
AUTOENCODER = {
    "_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512], "in_channels": 3, "out_channels": 3,
    "latent_channels": 4, "layers_per_block": 2, "sample_size": 512, "force_upcast": True,
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4,
}  # fmt: skip
WIDTH = {"bf16": 2, "fp32": 4, "amp-bf16": 4}
ATTENTION = ("to_k", "to_q", "to_v", "to_out.0")
"""What the scripts adapt by default."""


def _pipeline(unet: dict[str, Any], name: str = "StableDiffusionPipeline", **others: Any) -> dict[str, Any]:
    return {"config": {"_class_name": name, "components": {"unet": unet, **others}}, "task": "diffusion"}


def _planned(model: dict[str, Any], phase: str = "training", **fields: Any) -> tuple[PhasePlan, ModelSpec]:
    fields = {"optimizer": "sgd", "encoded_ahead": "everything", **fields}
    scenario = Scenario.of({"model": model, "phases": {phase: fields}})
    catalog = load_catalog()
    return estimate(scenario, catalog).phases[phase], resolve_model(scenario.model, catalog.presets)


def _weights(phase: PhasePlan) -> int:
    """Bytes of weights that stand through the step."""
    return phase.moments["start_of_step"].components["weights"]


def _beside_weights(phase: PhasePlan) -> tuple[int, ...]:
    return tuple(phase.moments[moment].allocated_bytes - _weights(phase) for moment in MOMENTS)


WHOLE = {"image_size": 512, "precision": "bf16"}
LARGE = {"image_size": 1024, "precision": "bf16"}
TINY = {"image_size": 128, "micro_batch_size": 2, "precision": "bf16"}
AGAIN = {"activation_checkpointing": "full"}
AMP = {"precision": "amp-bf16"}
CASES = [
    ({"preset": SD}, WHOLE, (942030984, 936952076, 1959837656)),
    ({"preset": SD}, WHOLE | AGAIN, (199295368, 154894860, 1828528840)),
    ({"preset": SD}, WHOLE | AMP, (2976007304, 2920993676, 3750072928)),
    ({"preset": XL}, LARGE, (6920635060, 6889830072, 6902069828)),
    ({"preset": XL}, LARGE | AGAIN, (619397524, 588592536, 5405322068)),
    ({"preset": XL}, LARGE | AMP, (13816130236, 13082984888, 13114203084)),
    (_pipeline(SMALL), TINY, (8343152, 8298356, 8491136)),
    (_pipeline(SMALL_XL), TINY, (8862760, 8784556, 8825784)),
    (_pipeline(SMALL), TINY | AGAIN | {"precision": "fp32"}, (4060304, 2954900, 7423432)),
    (_pipeline(SMALL_XL), TINY | AGAIN | {"precision": "fp32"}, (2689984, 2500804, 9043960)),
    (_pipeline(SMALL, vae=AUTOENCODER), TINY | AMP | {"encoded_ahead": "text"}, (42532864, 13766772, 13902216)),
    (
        _pipeline(SMALL_XL, "StableDiffusionXLPipeline", vae=AUTOENCODER),
        TINY | AMP | {"encoded_ahead": "text"},
        (84279296, 15784876, 15877312),
    ),
]


@pytest.mark.parametrize(("model", "fields", "traced"), CASES)
def test_a_step_holds_what_the_class_was_traced_to_hold(
    model: dict[str, Any], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    phase, _ = _planned(model, **fields)
    assert not phase.warnings
    assert _beside_weights(phase) == pytest.approx(traced, rel=6e-4)


LORA_CASES = [
    ({"preset": XL}, LARGE, (7759550356, 7705199896, 7736395036)),
    ({"preset": XL}, LARGE | AGAIN, (628429716, 533446168, 721930268)),
    (_pipeline(SMALL), TINY, (10814000, 10530100, 10783416)),
    (_pipeline(SMALL_XL), TINY, (10749480, 10586028, 10676144)),
]


@pytest.mark.parametrize(("model", "fields", "traced"), LORA_CASES)
def test_adapters_hold_what_was_traced_with_peft(
    model: dict[str, Any], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    """Frozen weights in bf16 under autocast, as `train_text_to_image_lora_sdxl.py` has them."""
    lora = {"rank": 4, "target_modules": ATTENTION}
    phase, _ = _planned(model, "fine_tuning", method="lora", lora=lora, **fields)
    assert not phase.warnings
    assert _beside_weights(phase) == pytest.approx(traced, rel=3e-3)


@pytest.mark.parametrize("model", [_pipeline(SMALL), _pipeline(SMALL_XL), {"preset": SD}, {"preset": XL}])
def test_gradients_are_those_of_the_denoiser_alone(model: dict[str, Any]) -> None:
    phase, spec = _planned(model, precision="bf16")
    unet = parameters(type(spec)(**{**_fields(spec), "stacks": spec.stacks[:1]}))
    assert phase.moments["optimizer_step"].components["gradients"] == 2 * unet
    assert _weights(phase) == 2 * unet


def _fields(spec: ModelSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}


def test_frozen_encoders_stand_in_16_bits_until_their_work_is_done_ahead() -> None:
    held = {
        ahead: _weights(_planned({"preset": SD}, precision="amp-bf16", encoded_ahead=ahead)[0])
        for ahead in ("nothing", "text", "latents", "everything")
    }
    # 123 060 480 parameters of CLIP ViT-L/14's text encoder, 83 653 863 of the autoencoder, each in bf16.
    assert held["nothing"] - held["text"] == 2 * 123_060_480
    assert held["nothing"] - held["latents"] == 2 * 83_653_863
    assert held["everything"] == 4 * 859_520_964


def test_the_autoencoder_of_sdxl_stays_in_fp32() -> None:
    held = [
        _weights(_planned({"preset": XL}, precision="amp-bf16", encoded_ahead=ahead)[0])
        for ahead in ("text", "everything")
    ]
    assert held[0] - held[1] == 4 * 83_653_863


def test_larger_images_and_more_of_them_never_need_less() -> None:
    peaks = [
        _planned(_pipeline(SMALL), precision="bf16", image_size=side, micro_batch_size=batch)[0].peak.allocated_bytes
        for side, batch in ((128, 1), (128, 2), (256, 2), (512, 2), (512, 3))
    ]
    assert peaks == sorted(peaks)


def test_checkpointing_keeps_less_until_backward() -> None:
    plain, checkpointed = (
        _planned({"preset": SD}, precision="bf16", activation_checkpointing=how)[0].moments["end_of_forward"]
        for how in ("none", "full")
    )
    assert checkpointed.allocated_bytes - 1_719_041_928 < (plain.allocated_bytes - 1_719_041_928) / 5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attention_implementation": "eager"}, "Eager attention"),
        ({"activation_checkpointing": "full", "checkpointing_reentrant": True}, "without reentrance"),
        ({"activation_checkpointing": "selective", "selective_policy": "every-2nd-layer"}, "attention core"),
    ],
)
def test_what_diffusers_does_otherwise_is_said(fields: dict[str, Any], words: str) -> None:
    phase, _ = _planned(_pipeline(SMALL), precision="bf16", **fields)
    assert len(phase.warnings) == 1
    assert words in phase.warnings[0]


def test_what_is_encoded_ahead_is_refused_for_a_model_of_text() -> None:
    training = {"encoded_ahead": "text", "sequence_length": 1024}
    scenario = Scenario.of({"model": {"preset": "openai-community/gpt2"}, "phases": {"training": training}})
    model = resolve_model(scenario.model, load_catalog().presets)
    found = validate(scenario, model, None)
    assert [(issue.code, issue.path) for issue in found] == [("cannot_apply", "phases.training.encoded_ahead")]
