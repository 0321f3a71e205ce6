"""Totals that the makers, the Hub or torchvision state for models that no file of the planner describes."""

from typing import Any

import pytest

from planner.model import read_config
from planner.model.counts import active_parameters, parameters
from planner.model.preset_index import kind_of
from planner.scenario.choices import TASKS

LLAMA_VISION: dict[str, Any] = {
    "model_type": "mllama",
    "text_config": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
    },
    "vision_config": {
        "hidden_size": 1280,
        "attention_heads": 16,
        "image_size": 560,
        "intermediate_size": 5120,
        "max_num_tiles": 4,
        "num_global_layers": 8,
        "num_hidden_layers": 32,
        "patch_size": 14,
        "vision_output_dim": 7680,
        "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
    },
}


def llama_shaped(
    model_type: str, hidden: int, layers: int, heads: int, kv: int, ffn: int, vocab: int
) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": ffn,
        "vocab_size": vocab,
    }


KNOWN: dict[str, tuple[dict[str, Any], str | None, int]] = {
    "GPT-J 6B": ({"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16}, None, 6_050_882_784),
    "GPT-NeoX 20B": (
        {"model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44, "vocab_size": 50432},
        None,
        20_554_567_680,
    ),
    "OPT 6.7B": (
        {
            "model_type": "opt",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "ffn_dim": 16384,
            "word_embed_proj_dim": 4096,
        },
        None,
        6_658_473_984,
    ),
    "BLOOM 176B": (
        {"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880},
        None,
        176_247_271_424,
    ),
    "Mistral Nemo": (
        llama_shaped("mistral", 5120, 40, 32, 8, 14336, 131072) | {"head_dim": 128},
        None,
        12_247_782_400,
    ),
    "Yi 34B": (llama_shaped("llama", 7168, 60, 56, 8, 20480, 64000), None, 34_388_917_248),
    "Gemma 2B": (llama_shaped("gemma", 2048, 18, 8, 1, 16384, 256000) | {"head_dim": 256}, None, 2_506_172_416),
    "Gemma 2 9B": (llama_shaped("gemma2", 3584, 42, 16, 8, 14336, 256000) | {"head_dim": 256}, None, 9_241_705_984),
    "Gemma 2 27B": (llama_shaped("gemma2", 4608, 46, 32, 16, 36864, 256000) | {"head_dim": 128}, None, 27_227_128_320),
    "Mixtral 8x22B": (llama_shaped("mixtral", 6144, 56, 48, 8, 16384, 32000), None, 140_620_634_112),
    "Phi 1.5": ({"model_type": "phi", "hidden_size": 2048, "num_hidden_layers": 24}, None, 1_418_270_720),
    "StableLM 2 1.6B": (
        llama_shaped("stablelm", 2048, 24, 32, 32, 5632, 100352) | {"use_qkv_bias": True},
        None,
        1_644_515_328,
    ),
    "Mamba 130M": (
        {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50280},
        None,
        129_135_360,
    ),
    "Llama 3.2 11B Vision": (LLAMA_VISION, None, 10_670_220_835),
    "ResNet-18": (
        {
            "model_type": "resnet",
            "layer_type": "basic",
            "hidden_sizes": [64, 128, 256, 512],
            "depths": [2, 2, 2, 2],
            "num_labels": 1000,
        },
        "image-classification",
        11_689_512,
    ),
    "Swin-B": (
        {
            "model_type": "swin",
            "embed_dim": 128,
            "depths": [2, 2, 18, 2],
            "num_heads": [4, 8, 16, 32],
            "num_labels": 1000,
        },
        "image-classification",
        87_768_224,
    ),
    "ConvNeXt-B": (
        {
            "model_type": "convnext",
            "depths": [3, 3, 27, 3],
            "hidden_sizes": [128, 256, 512, 1024],
            "num_labels": 1000,
        },
        "image-classification",
        88_591_464,
    ),
    "DINOv2 giant": (
        {
            "model_type": "dinov2",
            "hidden_size": 1536,
            "num_hidden_layers": 40,
            "num_attention_heads": 24,
            "use_swiglu_ffn": True,
            "image_size": 518,
        },
        "feature-extraction",
        1_136_480_768,
    ),
    "Qwen2-Audio 7B": (
        {
            "model_type": "qwen2_audio",
            "audio_config": {"model_type": "qwen2_audio_encoder", "d_model": 1280, "encoder_layers": 32},
            "text_config": {"model_type": "qwen2", "intermediate_size": 11008, "vocab_size": 156032},
        },
        None,
        8_397_094_912,
    ),
    "Whisper medium": (
        {
            "model_type": "whisper",
            "d_model": 1024,
            "encoder_layers": 24,
            "decoder_layers": 24,
            "encoder_attention_heads": 16,
            "decoder_attention_heads": 16,
            "encoder_ffn_dim": 4096,
            "decoder_ffn_dim": 4096,
            "vocab_size": 51865,
        },
        None,
        763_857_920,
    ),
}


@pytest.mark.parametrize(("config", "task", "total"), KNOWN.values(), ids=KNOWN.keys())
def test_the_total_is_the_one_that_is_known(config: dict[str, Any], task: str | None, total: int) -> None:
    assert parameters(read_config(config, task)) == total


def test_gpt_oss_120b_has_5_1_billion_active_of_116_8() -> None:
    config = {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_hidden_layers": 36,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
    }
    spec = read_config(config)
    assert parameters(spec) == 116_829_156_672
    # The model card's 5.13 B leaves the input embedding (201,088 x 2880) out.
    assert active_parameters(spec) - 201_088 * 2880 == pytest.approx(5.13e9, rel=2e-3)


def test_a_head_that_only_the_language_part_unties_is_counted() -> None:
    """The Hub states 24,011,361,280 parameters for Mistral Small 3.1 24B."""
    config = {
        "model_type": "mistral3",
        "text_config": {
            "model_type": "mistral",
            "hidden_size": 5120,
            "intermediate_size": 32768,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 131072,
            "tie_word_embeddings": False,
        },
        "vision_config": {
            "model_type": "pixtral",
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "image_size": 1540,
            "patch_size": 14,
        },
        "spatial_merge_size": 2,
        "multimodal_projector_bias": False,
    }
    assert parameters(read_config(config)) == 24_011_361_280


def test_a_model_that_hears_is_not_called_one_that_sees() -> None:
    spec = read_config(KNOWN["Qwen2-Audio 7B"][0])
    assert spec.task == "audio-text-to-text"
    assert kind_of(spec) == "sound and language"
    assert read_config(KNOWN["Qwen2-Audio 7B"][0], "image-text-to-text").head == spec.head
    assert TASKS[spec.task] == "Sound and language"
