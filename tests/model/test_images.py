"""How many tokens an image becomes."""

import pytest

from planner.model import load_presets, read_config


@pytest.mark.parametrize(
    ("identifier", "sides", "tokens"),
    [
        ("llava-hf/llava-1.5-7b-hf", (336, 336), 576),  # 24 x 24 patches
        ("google/gemma-3-4b-it", (896, 896), 256),
        ("Qwen/Qwen2-VL-7B-Instruct", (448, 448), 256),  # (448 / 28)^2
        ("Qwen/Qwen3-VL-8B-Instruct", (1024, 768), 768),  # 32 x 24
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", (336, 336), 144),
    ],
)
def test_images_become_as_many_tokens_as_the_model_s_processor_makes(
    identifier: str, sides: tuple[int, int], tokens: int
) -> None:
    preset = load_presets()[identifier]
    image = read_config(preset.config, preset.task).stacks[1].image
    assert image is not None
    assert image.tokens(*sides) == tokens
