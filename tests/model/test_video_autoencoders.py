"""Autoencoders of videos, against parameters of the classes of diffusers 0.42.1, built on the meta device."""

from typing import Any

import pytest

from planner.errors import ModelError
from planner.model import read_config
from planner.model.counts import parameters

WAN_2_2: dict[str, Any] = {
    "base_dim": 160,
    "decoder_base_dim": 256,
    "z_dim": 48,
    "is_residual": True,
    "in_channels": 12,
    "out_channels": 12,
    "patch_size": 2,
    "temperal_downsample": [False, True, True],
}
BUILT: dict[str, tuple[str, dict[str, Any], int]] = {
    "Wan 2.1, and 2.2 of 14B": ("AutoencoderKLWan", {"base_dim": 96, "z_dim": 16}, 126_892_531),
    "Wan 2.2 of 5B": ("AutoencoderKLWan", WAN_2_2, 704_688_668),
    "CogVideoX": ("AutoencoderKLCogVideoX", {"block_out_channels": [128, 256, 256, 512]}, 215_583_907),
    "CogVideoX, small with quantizing convolutions": (
        "AutoencoderKLCogVideoX",
        {
            "use_quant_conv": True,
            "use_post_quant_conv": True,
            "layers_per_block": 2,
            "block_out_channels": [64, 128, 256, 256],
            "latent_channels": 8,
        },
        57_010_313,
    ),
    "HunyuanVideo": ("AutoencoderKLHunyuanVideo", {"block_out_channels": [128, 256, 512, 512]}, 246_478_803),
    "HunyuanVideo, small without attention": (
        "AutoencoderKLHunyuanVideo",
        {
            "block_out_channels": [64, 128, 128, 256],
            "layers_per_block": 1,
            "latent_channels": 8,
            "mid_block_add_attention": False,
        },
        34_118_571,
    ),
}


@pytest.mark.parametrize(("kind", "config", "built"), BUILT.values(), ids=BUILT.keys())
def test_the_count_is_that_of_the_built_class(kind: str, config: dict[str, Any], built: int) -> None:
    spec = read_config({"_class_name": kind, **config})
    assert parameters(spec) == built
    assert [stack.name for stack in spec.stacks] == ["video-decoder", "video-encoder"]


def test_attention_between_the_blocks_of_wan_is_refused_rather_than_left_out() -> None:
    with pytest.raises(ModelError, match="attn_scales"):
        read_config({"_class_name": "AutoencoderKLWan", "base_dim": 96, "attn_scales": [1.0]})
