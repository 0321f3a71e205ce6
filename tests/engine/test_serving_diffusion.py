"""Diffusion pipelines: the denoiser's step, the autoencoder, and components that wait on the host."""

import json
from dataclasses import replace

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.servers import serving_workload
from planner.engine.servers.denoising import transformer_elements, unet_elements
from planner.engine.servers.diffusion import diffusion_terms
from planner.model import read_config, resolve_model
from planner.model.counts import parameters
from planner.scenario import Scenario
from planner.scenario.model_source import PresetModel
from planner.scenario.serving import Serving
from planner.units import GIB, MIB

CATALOG = load_catalog()
SD15, SDXL = "runwayml/stable-diffusion-v1-5", "stabilityai/stable-diffusion-xl-base-1.0"
SD3, FLUX = "stabilityai/stable-diffusion-3-medium", "black-forest-labs/FLUX.1-dev"


def serving(preset, gpu="a100-sxm4-40gb", **fields):
    fields = {"engine": "transformers", "weights": "fp16", **fields}
    scenario = Scenario.of(
        {
            "format": "vram-planner/scenario", "version": 1, "name": preset, "model": {"preset": preset},
            "phases": {"serving": fields}, "hardware": {"gpus": [gpu]},
        }
    )  # fmt: skip
    return estimate(scenario, CATALOG).to_json()["phases"]["serving"]


def term(answer, name):
    return next(item for item in answer["terms"] if item["name"] == name)["bytes"]


def scores(preset, **fields):
    return working(preset, "attention scores", **fields)


def decoding(preset, **fields):
    return working(preset, "decoding of the images", **fields)


def working(preset, name, **fields):
    phase = Serving.model_validate_json(json.dumps({"engine": "transformers", "weights": "fp16", **fields}))
    terms = diffusion_terms(serving_workload(phase, resolve_model(PresetModel(preset=preset))))
    return next((item.bytes for item in terms if item.name == name), 0)


def stack(preset):
    return resolve_model(PresetModel(preset=preset)).stack


class TestDenoising:
    @pytest.mark.parametrize(
        ("preset", "side", "traced_mib"),
        # diffusers 0.42 UNet2DConditionModel.forward on meta tensors, two rows of fp16, fused attention, no gradients
        [
            (SD15, 512, 130.2), (SD15, 768, 292.7), (SD15, 1024, 520.2),
            (SDXL, 512, 79.4), (SDXL, 768, 177.8), (SDXL, 1024, 315.6),
        ],
    )  # fmt: skip
    def test_a_unet_holds_what_was_traced(self, preset, side, traced_mib):
        assert 2 * 2 * unet_elements(stack(preset), (side // 8) ** 2) / MIB == pytest.approx(traced_mib, rel=0.01)

    @pytest.mark.parametrize(
        ("preset", "rows", "side", "text", "traced_mib"),
        [(FLUX, 1, 1024, 512, 468.1), (FLUX, 2, 512, 512, 315.8), (SD3, 2, 1024, 333, 323.1), (SD3, 2, 512, 333, 89.1)],
    )
    def test_a_transformer_holds_what_was_traced(self, preset, rows, side, text, traced_mib):
        elements = transformer_elements(stack(preset), (side // 16) ** 2, text)
        assert rows * 2 * elements / MIB == pytest.approx(traced_mib, rel=0.05)

    def test_guidance_doubles_the_batch_of_pipelines_that_join_both_passes(self):
        guided, plain = (serving(SDXL, images=images) for images in ({}, {"guidance": False}))
        assert term(guided, "denoising step") == 2 * term(plain, "denoising step")
        assert term(serving(FLUX, images={"guidance": True}), "denoising step") == 2 * term(
            serving(FLUX), "denoising step"
        )

    def test_a_step_grows_with_images_and_pixels_alone(self):
        one, four = (serving(SD15, concurrent_sequences=count) for count in (1, 4))
        assert term(four, "denoising step") == 4 * term(one, "denoising step")
        large = serving(SD15, image_height=1024, image_width=1024)
        assert term(large, "denoising step") == 4 * term(one, "denoising step")


class TestAttention:
    def test_fused_attention_keeps_no_scores(self):
        assert all(item["name"] != "attention scores" for item in serving(SD15)["terms"])

    def test_eager_attention_keeps_the_scores_of_all_heads(self):
        # two rows, 8 heads, 64 x 64 tokens: 512 MiB of scores in fp16, and as much of their softmax
        assert scores(SD15, attention_implementation="eager") == 2 * 2 * 8 * 4096**2 * 2
        # Stable Diffusion XL attends at half and a quarter of the latent's sides only
        assert scores(SDXL, attention_implementation="eager") == 2 * 2 * 10 * 4096**2 * 2

    def test_slices_keep_the_scores_of_half_the_heads_of_one_row(self):
        sliced = {"images": {"attention_slicing": True}}
        assert scores(SD15, **sliced) == 2 * 4 * 4096**2 * 2
        assert scores(SD15, concurrent_sequences=4, **sliced) == scores(SD15, **sliced)

    def test_a_transformer_has_fused_attention_only(self):
        assert scores(FLUX, attention_implementation="eager") == 0


class TestDecoding:
    def test_sdxl_decodes_in_fp32_what_was_made_in_fp16(self):
        half, brain = (serving(SDXL, weights=weights) for weights in ("fp16", "bf16"))
        assert term(half, "decoding of the images") == 2 * term(brain, "decoding of the images")
        # 83.65 million parameters of the autoencoder
        assert term(half, "autoencoder in fp32") == pytest.approx(2 * 83.65e6, rel=0.001)
        assert all(item["name"] != "autoencoder in fp32" for item in serving(SD15)["terms"])

    def test_sdxl_of_four_images_is_near_what_was_measured(self):
        # huggingface/blog simple_sdxl_optimizations.md, A100 of 40 GB: 21.72 in fp16, 28.09 in fp32
        half, full = (serving(SDXL, weights=weights, concurrent_sequences=4) for weights in ("fp16", "fp32"))
        assert half["peak"]["allocated_bytes"] == pytest.approx(21.72 * GIB, rel=0.05)
        assert full["peak"]["allocated_bytes"] == pytest.approx(28.09 * GIB, rel=0.05)

    def test_images_one_by_one_decode_like_one(self):
        one, four = serving(SDXL), serving(SDXL, concurrent_sequences=4, images={"vae_slicing": True})
        assert term(four, "decoding of the images") == term(one, "decoding of the images")

    def test_tiles_are_as_large_as_the_images_the_autoencoder_was_made_for(self):
        whole = decoding(SDXL, image_height=4096, image_width=4096)
        tiled = decoding(SDXL, image_height=4096, image_width=4096, images={"vae_tiling": True})
        assert whole == 16 * tiled
        assert decoding(SDXL, images={"vae_tiling": True}) == tiled


class TestWaiting:
    def test_components_take_turns(self):
        whole, turns = serving(FLUX, "rtx-4090", weights="bf16"), serving(FLUX, "rtx-4090", weights="bf16",
                                                                          images={"offload": "model"})  # fmt: skip
        whole_spec = resolve_model(PresetModel(preset=FLUX))
        denoiser = parameters(replace(whole_spec, stacks=whole_spec.stacks[:1]))
        assert whole["verdicts"]["rtx-4090"]["verdict"] == "oom"
        step = term(turns, "denoising step")
        assert turns["moments"]["decode"]["allocated_bytes"] == pytest.approx(2 * denoiser + step, rel=0.002)
        # the whole pipeline waits in host memory
        assert turns["host_ram"]["components that wait"] == pytest.approx(33.74e9, rel=0.001)

    def test_layer_by_layer_the_weights_hardly_count(self):
        layers = serving(FLUX, "rtx-4090", weights="bf16", images={"offload": "sequential"})
        assert layers["verdicts"]["rtx-4090"]["verdict"] == "fits"
        assert layers["peak"]["allocated_bytes"] < 3 * GIB
        assert layers["engine_budget"]["rtx-4090"]["weights_bytes"] < 0.3 * GIB


def test_settings_of_a_pipeline_are_refused_for_a_language_model():
    from planner.model.presets import load_presets
    from planner.scenario.issues import validate

    scenario = Scenario.of(
        {
            "format": "vram-planner/scenario", "version": 1, "model": {"preset": "Qwen/Qwen3-8B"},
            "phases": {"serving": {"images": {"vae_tiling": True}}}, "hardware": {"gpus": ["l40s"]},
        }
    )  # fmt: skip
    spec = resolve_model(PresetModel(preset="Qwen/Qwen3-8B"), load_presets())
    assert [issue.code for issue in validate(scenario, spec, None)] == ["cannot_apply"]


def test_a_pipeline_of_videos_has_exact_weights_and_says_what_it_leaves_out():
    # 126 892 531 in the autoencoder, as diffusers 0.42.1 builds it
    transformer = {
        "_class_name": "WanTransformer3DModel", "num_layers": 30, "num_attention_heads": 12, "attention_head_dim": 128,
        "ffn_dim": 8960, "in_channels": 16, "out_channels": 16, "text_dim": 4096, "freq_dim": 256,
        "patch_size": [1, 2, 2], "cross_attn_norm": True, "qk_norm": "rms_norm_across_heads",
    }  # fmt: skip
    vae = {"_class_name": "AutoencoderKLWan", "base_dim": 96, "z_dim": 16}
    model = {"config": {"_class_name": "WanPipeline", "components": {"transformer": transformer, "vae": vae}}}
    scenario = Scenario.of({"name": "Wan", "model": model, "phases": {"serving": {"engine": "transformers"}},
                            "hardware": {"gpus": ["l40s"]}})  # fmt: skip
    answer = estimate(scenario, CATALOG).phases["serving"]
    assert answer.moments["load"].components["weights"] == 2 * (parameters(read_config(transformer)) + 126_892_531)
    assert any("frames of a video" in text for text in answer.warnings)
    assert not any(term.name == "decoding of the images" for term in answer.terms)
