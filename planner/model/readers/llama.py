"""Dense decoders that are Llama but for biases, norms and windows: one record each.

To add such an architecture, write its record here; one that differs in more needs a small file like `gemma.py` and a
line in `registry.py`.
"""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, decoder_model
from planner.model.readers.layers import every, windows
from planner.model.spec import LAYER_NORM, ModelSpec, Norm


def _all_sliding(config: Config, layers: int) -> list[int | None]:
    """Mistral, Phi-3, Starcoder2: a window, where there is one, holds for every layer."""
    return windows(config, layers, [True] * layers)


def _last_sliding(config: Config, layers: int) -> list[int | None]:
    """Qwen 2 and 3: only with `use_sliding_window`, and only from layer `max_window_layers` on."""
    if not config.flag("use_sliding_window"):
        return [None] * layers
    first = config.count("max_window_layers", layers)
    return windows(config, layers, [index >= first for index in range(layers)])


def _three_to_one(config: Config, layers: int) -> list[int | None]:
    """OLMo 3, Cohere 2, EXAONE 4: every fourth layer, or as `sliding_window_pattern` says, sees everything."""
    pattern = config.raw("sliding_window_pattern", 4)
    period = len(pattern) if isinstance(pattern, str) else config.size("sliding_window_pattern", 4)
    return windows(config, layers, every(period, layers))


def _smollm3(config: Config, layers: int) -> list[int | None]:
    """SmolLM 3: windows, if asked, in the layers without rotary positions, which is every fourth one."""
    if not config.flag("use_sliding_window"):
        return [None] * layers
    period = config.size("no_rope_layer_interval", 4)
    rotated = config.sizes("no_rope_layers", layers) if config.raw("no_rope_layers") else None
    slides = [not flag for flag in rotated] if rotated else [not flag for flag in every(period, layers)]
    return windows(config, layers, slides)


_NO_WEIGHT = Norm("layernorm", weight=False, code="kernel-in-fp32")
_CENTRED = Norm("layernorm", code="centred-in-fp32")
_WEIGHT_IN_FP32 = Norm(code="weight-in-fp32")

TRAITS: dict[str, Traits] = {
    "llama": Traits(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias"),
    "mistral": Traits(windows=_all_sliding),
    "ministral": Traits(windows=_all_sliding),
    "ministral3": Traits(windows=_all_sliding),
    "qwen2": Traits(qkv_bias=True, windows=_last_sliding),
    "qwen3": Traits(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, windows=_last_sliding),
    "olmo": Traits(norm=_NO_WEIGHT, qkv_bias="attention_bias", output_bias="attention_bias", rotary_upcast="tables"),
    "olmo2": Traits(
        norm=_WEIGHT_IN_FP32,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        qk_norm_kind=_WEIGHT_IN_FP32,
        qk_norm_scope="all",
        arrangement="post",
        rotary_upcast="tables",
    ),
    "olmo3": Traits(
        norm=_WEIGHT_IN_FP32,
        qk_norm_kind=_WEIGHT_IN_FP32,
        rotary_upcast="tables",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        qk_norm_scope="all",
        arrangement="post",
        windows=_three_to_one,
    ),
    "exaone4": Traits(qk_norm=True, arrangement="post", windows=_three_to_one),
    "smollm3": Traits(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias", windows=_smollm3),
    "seed_oss": Traits(
        qkv_bias="attention_bias",
        output_bias="attention_out_bias",
        mlp_bias="mlp_bias",
        hidden_dropout="residual_dropout",
    ),
    "granite": Traits(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        scaled_embedding=True,
        scaled_residual=True,
        scaled_logits=True,
    ),
    "arcee": Traits(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias", gated=False),
    "hunyuan_v1_dense": Traits(
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, qk_norm_rotated=True
    ),
    "ernie4_5": Traits(
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        rotary_pairs="neighbours",
        rotary_upcast="products",
    ),
    "helium": Traits(norm=_WEIGHT_IN_FP32, qkv_bias="attention_bias", mlp_bias="mlp_bias", rotary_pairs="neighbours"),
    "nemotron": Traits(
        norm=replace(LAYER_NORM, code="kernel-one-plus"),
        rotary_share=0.5,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        gated=False,
    ),
    "starcoder2": Traits(
        norm=LAYER_NORM,
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        gated=False,
        mlp_names=("", "c_fc", "c_proj"),
        windows=_all_sliding,
        hidden_dropout="residual_dropout",
        embedding_dropout="embedding_dropout",
    ),
    "phi3": Traits(
        fused_qkv=True,
        fused_mlp=True,
        attention_names=("qkv_proj", "", "", "o_proj"),
        mlp_names=("", "gate_up_proj", "down_proj"),
        windows=_all_sliding,
        hidden_dropout="resid_pdrop",
    ),
    "glm": Traits(
        qkv_bias="attention_bias",
        fused_mlp=True,
        mlp_names=("", "gate_up_proj", "down_proj"),
        rotary_pairs="neighbours",
        rotary_share=0.5,
    ),
    "glm4": Traits(
        rotary_pairs="neighbours",
        rotary_share=0.5,
        qkv_bias="attention_bias",
        fused_mlp=True,
        mlp_names=("", "gate_up_proj", "down_proj"),
        norms=4,
        arrangement="sandwich",
    ),
    "cohere": Traits(
        norm=_CENTRED,
        norms=1,
        arrangement="parallel",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm="use_qk_norm",
        qk_norm_kind=_CENTRED,
        qk_norm_scope="all",
        rotary_pairs="neighbours",
        rotary_upcast="all",
        scaled_logits=True,
    ),
    "cohere2": Traits(
        norm=_CENTRED,
        norms=1,
        arrangement="parallel",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        windows=_three_to_one,
        rotary_pairs="neighbours",
        rotary_upcast="all",
        scaled_logits=True,
    ),
}

TRAITS |= {
    "qwen2_vl_text": TRAITS["qwen2"],
    "qwen2_5_vl_text": TRAITS["qwen2"],
    "glm4v_text": replace(TRAITS["glm4"], qkv_bias=True),
    "qwen3_vl_text": Traits(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True),
}
MODEL_TYPES = tuple(TRAITS)


def read(config: Config, task: str | None) -> ModelSpec:
    """A Llama-shaped decoder."""
    return decoder_model(config, task, TRAITS[config.model_type])
