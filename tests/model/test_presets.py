"""The models that come with the planner."""

import json

import pytest

from planner.errors import ModelError
from planner.model import resolve_model
from planner.model.counts import parameters
from planner.model.preset_index import index_text
from planner.model.presets import families, find_preset, load_presets, search_presets
from planner.resources import resource
from planner.scenario.model_source import PresetModel


def test_there_are_at_least_eighty_presets_in_families() -> None:
    assert len(load_presets()) >= 80
    assert sum(len(members) for members in families().values()) == len(load_presets())


def test_the_families_of_today_come_first_and_all_are_placed() -> None:
    order = json.loads(resource("models", "family-order.json").read_text(encoding="utf-8"))["families"]
    assert list(families()) == order
    assert order[:3] == ["Llama", "Qwen 3", "Qwen 3.5 and Next"]


def test_the_index_is_what_the_configurations_give() -> None:
    assert resource("models", "index.json").read_text(encoding="utf-8") == index_text()


def test_every_preset_resolves_and_says_where_it_comes_from() -> None:
    for preset in load_presets().values():
        spec = resolve_model(PresetModel(preset=preset.id))
        assert parameters(spec) == preset.parameters
        assert spec.name == preset.id
        assert len(preset.source) > 20
        json.dumps(preset.config)


def test_an_unknown_preset_names_near_ones() -> None:
    with pytest.raises(ModelError, match=r"meta-llama/Llama-3\.1-8B"):
        find_preset("Llama-3.1-8B")


def test_a_search_finds_words_in_any_order() -> None:
    found = [preset.id for preset in search_presets("8b LLAMA")]
    assert "meta-llama/Llama-3.1-8B" in found
    assert all("8b" in identifier.lower() for identifier in found)


def test_stable_diffusion_1_5_is_the_sum_of_unet_text_encoder_and_autoencoder() -> None:
    # 859,520,964 + 123,060,480 + 83,653,863: the three components counted alone.
    assert load_presets()["runwayml/stable-diffusion-v1-5"].parameters == 1_066_235_307
