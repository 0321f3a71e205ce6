"""Configurations: errors that name file, key and what would be right; windows; tasks; unknown types."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import ModelError, PlannerError
from planner.model import load_presets, read_config
from planner.model.counts import kv_bytes_per_token, parameters
from planner.model.spec import Attention, Stack

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


def _windows(stack: Stack) -> dict[int | None, int]:
    found: dict[int | None, int] = {}
    for group in stack.groups:
        assert isinstance(group.mixer, Attention)
        found[group.mixer.window] = found.get(group.mixer.window, 0) + group.count
    return found


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("hidden_size", -1, "a whole number from 1"),
        ("hidden_size", "4096", "a whole number from 1"),
        ("hidden_size", float("nan"), "a whole number from 1"),
        ("hidden_size", 10**30, "a whole number from 1"),
        ("hidden_size", True, "a whole number from 1"),
        ("hidden_size", 4095, "a multiple of “num_attention_heads”"),
        ("num_hidden_layers", 0, "a whole number from 1"),
        ("num_key_value_heads", 7, "a divisor of the 32 attention heads"),
        ("attention_bias", "yes", "true or false"),
        ("attention_dropout", 2, "a number from 0 to 1"),
        ("vocab_size", [1], "a whole number from 1"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(key: str, value: Any, right: str) -> None:
    with pytest.raises(ModelError) as error:
        read_config({**LLAMA, key: value}, where="some/config.json")
    assert "some/config.json" in error.value.message
    assert key in error.value.message
    assert right in error.value.message


def test_a_model_of_more_than_10_to_the_15_parameters_is_refused() -> None:
    with pytest.raises(ModelError, match="10"):
        read_config({**LLAMA, "hidden_size": 2**25, "num_hidden_layers": 1000})


def test_keys_taken_from_class_defaults_are_told() -> None:
    assert "num_attention_heads" in read_config({k: v for k, v in LLAMA.items() if k != "num_attention_heads"}).assumed
    assert "hidden_size" not in read_config(LLAMA).assumed


def test_a_configuration_without_sizes_is_no_model() -> None:
    with pytest.raises(ModelError, match="hidden_size"):
        read_config({"model_type": "llama"})


def test_mistral_7b_slides_in_every_layer() -> None:
    spec = read_config({**LLAMA, "model_type": "mistral", "sliding_window": 4096})
    assert _windows(spec.stack) == {4096: 32}


def test_qwen2_slides_only_when_told_and_only_in_its_last_layers() -> None:
    config = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 28}
    assert _windows(read_config(config).stack) == {None: 32}
    assert _windows(read_config({**config, "use_sliding_window": True}).stack) == {None: 28, 4096: 4}


def test_gemma_3_looks_far_in_every_sixth_layer() -> None:
    spec = read_config(load_presets()["google/gemma-3-27b-it"].config)
    assert _windows(spec.stack) == {1024: 52, None: 10}
    assert spec.stack.groups[1].indices[:2] == (5, 11)


def test_layer_types_stated_in_the_file_win() -> None:
    types = ["full_attention"] * 31 + ["sliding_attention"]
    spec = read_config({**LLAMA, "model_type": "qwen3", "use_sliding_window": True, "layer_types": types})
    assert _windows(spec.stack) == {None: 31, 4096: 1}


def test_the_task_decides_the_head() -> None:
    classifier = read_config({**LLAMA, "num_labels": 3}, "sequence-classification")
    assert classifier.head is not None
    assert (classifier.head.outputs, classifier.head.kind) == (3, "classification")
    assert read_config({**LLAMA, "architectures": ["LlamaModel"]}).head is None
    with pytest.raises(ModelError, match="no head for the task"):
        read_config(LLAMA, "masked-lm")
    with pytest.raises(ModelError, match="is not known"):
        read_config(LLAMA, "dancing")


def test_an_unknown_type_is_read_by_its_keys_and_marked() -> None:
    spec = read_config({**LLAMA, "model_type": "novel"})
    assert spec.approximate is not None
    assert "novel" in spec.approximate
    assert parameters(spec) == parameters(read_config(LLAMA))


def test_an_unknown_type_without_the_needed_keys_is_refused_naming_them() -> None:
    with pytest.raises(ModelError, match="“intermediate_size”"):
        read_config(
            {key: value for key, value in LLAMA.items() if key != "intermediate_size"} | {"model_type": "novel"}
        )


def test_an_unknown_mixture_of_latent_attention_is_read_by_its_keys() -> None:
    known = dict(load_presets()["deepseek-ai/DeepSeek-V3"].config)
    spec = read_config(known | {"model_type": "novel"})
    exact = read_config(known)
    assert parameters(spec) == parameters(exact)
    assert kv_bytes_per_token(spec) == kv_bytes_per_token(exact) == 70272


def test_published_precision_and_quantization_are_kept() -> None:
    spec = read_config(load_presets()["deepseek-ai/DeepSeek-V3"].config)
    assert spec.dtype == "bf16"
    assert spec.quantization is not None
    assert (spec.quantization.method, spec.quantization.bits) == ("fp8", 8.0)


BAD = (None, -1, 0, 3, 10**30, float("inf"), float("nan"), 1.5, "", "x", True, [], [0], ["a"], {}, {"a": 1}, [[1]])


@given(st.sampled_from(sorted(load_presets())), st.randoms(use_true_random=False))
def test_whatever_is_changed_in_a_real_configuration_only_the_product_s_own_error_comes_out(
    identifier: str, chance: random.Random
) -> None:
    config = json.loads(json.dumps(dict(load_presets()[identifier].config)))
    node = config
    while True:
        key = chance.choice(sorted(node))
        if not isinstance(node[key], dict) or not node[key]:
            break
        node = node[key]
    node[key] = chance.choice(BAD)
    try:
        parameters(read_config(config))
    except PlannerError as error:
        message = error.message
    else:
        message = "read"
    assert message


def test_an_unknown_multimodal_model_is_read_by_its_language_model() -> None:
    known = {key: value for key, value in LLAMA.items() if key != "model_type"}
    spec = read_config({"model_type": "novel_vl", "llm_config": known | {"model_type": "llama"}, "vision_config": {}})
    assert parameters(spec) == parameters(read_config(LLAMA))
    assert spec.approximate is not None
    assert "vision_config" in spec.approximate


@pytest.mark.parametrize(
    ("architecture", "model_type"),
    [("BertForMaskedLM", "bert"), ("XLMRobertaModel", "xlm-roberta"), ("GPT2LMHeadModel", "gpt2")],
)
def test_the_type_of_an_early_file_is_told_from_its_class(architecture: str, model_type: str) -> None:
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    assert read_config({"architectures": [architecture], **sizes}).model_type == model_type


def test_a_block_of_a_pruned_llama_that_is_no_object_is_named() -> None:
    sizes = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}
    config = {"model_type": "nemotron-nas", **sizes, "block_configs": [{"attention": 7, "ffn": {"no_op": True}}]}
    with pytest.raises(ModelError, match="the key “attention” is 7; it must be an object"):
        read_config(config)


def test_a_type_of_the_same_structure_is_read_exactly_under_its_own_name() -> None:
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    spec = read_config({"model_type": "internlm3", "intermediate_size": 128, "num_key_value_heads": 2, **sizes})
    llama = read_config({"model_type": "llama", "intermediate_size": 128, "num_key_value_heads": 2, **sizes})
    assert spec.model_type == "internlm3"
    assert spec.approximate is None
    assert spec.stacks == llama.stacks


def test_the_names_of_kimi_k2_5_s_own_code_are_understood() -> None:
    text = dict(load_presets()["moonshotai/Kimi-K2-Instruct"].config)
    tower = {"vt_hidden_size": 1152, "vt_num_hidden_layers": 27, "vt_num_attention_heads": 16}
    own = {"model_type": "kimi_k25", "text_config": text, "vision_config": tower | {"vt_intermediate_size": 4304}}
    assert read_config(own).stacks == read_config(own | {"vision_config": {}}).stacks
    assert read_config(own | {"vision_config": tower | {"vt_num_hidden_layers": 3}}).stacks[1].layers == 3
