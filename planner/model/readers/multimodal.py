"""Vision-language models: a language model, a vision tower, and a projector between them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.errors import ModelError
from planner.model.readers.config import Config
from planner.model.readers.registry import reader_of
from planner.model.readers.tasks import task_of
from planner.model.readers.towers import tower
from planner.model.spec import (
    LAYER_NORM,
    RMS_NORM,
    Head,
    ImageInput,
    Linear,
    ModelSpec,
    NormPart,
    Part,
    Stack,
    Task,
    Tensor,
)

Projector = Callable[[Config, Stack, Config, int], tuple[Part, ...]]
"""(whole configuration, vision stack, vision configuration, width of the language model) to the parts between."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """How one architecture joins tower and language model."""

    text: str
    """Model type of a `text_config` that does not state its own."""
    vision: str
    projector: Projector
    text_ties: bool = False
    """A tie stated in `text_config` counts too."""
    never_ties: bool = False
    tokens: Callable[[Config, Config], int | None] = lambda _whole, _vision: None
    chosen_layer: bool = False
    """`vision_feature_layer` says which states of the tower are projected."""
    mutual: bool = False
    """Tokens of one image see each other."""


def _no_projector(_whole: Config, _stack: Stack, _vision: Config, _width: int) -> tuple[Part, ...]:
    """The tower itself ends in the language model's width."""
    return ()


def _two_layers(whole: Config, stack: Stack, _vision: Config, width: int) -> tuple[Part, ...]:
    """LLaVA: two linear layers; several feature layers are stacked side by side."""
    layers = whole.raw("vision_feature_layer", -2)
    stacked = len(layers) if isinstance(layers, list) and layers else 1
    bias = whole.flag("multimodal_projector_bias", True)
    inputs = stacked * stack.hidden_size
    return Linear("linear_1", inputs, width, bias), Linear("linear_2", width, width, bias)


def _llava_next(whole: Config, stack: Stack, vision: Config, width: int) -> tuple[Part, ...]:
    """LLaVA-NeXT: the two layers, and a learned token at the end of each row of an image."""
    return *_two_layers(whole, stack, vision, width), Tensor("image_newline", (width,))


def _mistral3(whole: Config, stack: Stack, vision: Config, width: int) -> tuple[Part, ...]:
    """Mistral 3: a norm, a merger of patches, two linear layers."""
    merged = whole.size("spatial_merge_size") ** 2 * stack.hidden_size
    return (
        NormPart("norm", stack.hidden_size, RMS_NORM),
        Linear("merging_layer", merged, stack.hidden_size),
        *_two_layers(whole, stack, vision, width),
    )


def _paligemma(whole: Config, stack: Stack, _vision: Config, _width: int) -> tuple[Part, ...]:
    return (Linear("linear", stack.hidden_size, whole.size("projection_dim"), bias=True),)


def _gemma3(_whole: Config, stack: Stack, _vision: Config, width: int) -> tuple[Part, ...]:
    """Gemma 3: a bare matrix behind a norm, after averaging patches to `mm_tokens_per_image`."""
    return (
        NormPart("mm_soft_emb_norm", stack.hidden_size, RMS_NORM),
        Tensor("mm_input_projection_weight", (stack.hidden_size, width)),
    )


def _idefics(whole: Config, stack: Stack, _vision: Config, width: int) -> tuple[Part, ...]:
    """Idefics 3 and SmolVLM: a pixel shuffle by `scale_factor`, then one linear layer."""
    return (Linear("modality_projection", stack.hidden_size * whole.size("scale_factor") ** 2, width),)


def _internvl(whole: Config, stack: Stack, _vision: Config, width: int) -> tuple[Part, ...]:
    ratio = whole.number("downsample_ratio", 0.5, minimum=0.01, maximum=1.0)
    shuffled = stack.hidden_size * int(1 / ratio) ** 2
    return (
        NormPart("layer_norm", shuffled, LAYER_NORM),
        Linear("linear_1", shuffled, width, bias=True),
        Linear("linear_2", width, width, bias=True),
    )


def _cohere(whole: Config, stack: Stack, _vision: Config, width: int) -> tuple[Part, ...]:
    """Command A Vision and Aya Vision: a pixel shuffle, then a gated pair of layers; Aya normalises first."""
    merged = stack.hidden_size * whole.size("downsample_factor") ** 2
    usual = width if whole.model_type == "aya_vision" else None
    inner = whole.size("alignment_intermediate_size", usual)
    layers = (Linear("linear_1", merged, inner, bias=True), Linear("linear_2", inner // 2, width, bias=True))
    return (NormPart("layernorm", merged, LAYER_NORM), *layers) if whole.model_type == "aya_vision" else layers


def _llama4(_whole: Config, _stack: Stack, vision: Config, width: int) -> tuple[Part, ...]:
    return (Linear("linear_1", vision.size("vision_output_dim"), width),)


def _tokens_key(key: str) -> Callable[[Config, Config], int | None]:
    return lambda whole, _vision: whole.optional_size(key)


def _patch_tokens(_whole: Config, vision: Config) -> int | None:
    """One token for each patch; CLIP's class token is dropped."""
    return (vision.size("image_size") // vision.size("patch_size")) ** 2


def _shuffled_tokens(whole: Config, vision: Config) -> int | None:
    """Idefics 3 and SmolVLM: patches of one tile, put together by `scale_factor`."""
    side = vision.size("image_size") // vision.size("patch_size")
    return (side // whole.size("scale_factor")) ** 2 or None


def _llama4_tokens(_whole: Config, vision: Config) -> int | None:
    side = vision.size("image_size") // vision.size("patch_size")
    return int(side * side * vision.number("pixel_shuffle_ratio", 0.5) ** 2) or None


def _qwen(version: str) -> Pairing:
    ties = version in ("qwen2_vl", "qwen2_5_vl")
    return Pairing(f"{version}_text", f"{version}_vision", _no_projector, text_ties=ties)


PAIRINGS = {
    "llava": Pairing("llama", "clip_vision_model", _two_layers, True, tokens=_patch_tokens, chosen_layer=True),
    "llava_next": Pairing("llama", "clip_vision_model", _llava_next),
    "llava_onevision": Pairing("qwen2", "siglip_vision_model", _llava_next),
    "cohere2_vision": Pairing("cohere2", "siglip_vision_model", _cohere),
    "aya_vision": Pairing("cohere2", "siglip_vision_model", _cohere),
    "mistral3": Pairing("mistral", "pixtral", _mistral3),
    "paligemma": Pairing("gemma", "siglip_vision_model", _paligemma, tokens=_patch_tokens, mutual=True),
    "gemma3": Pairing(
        "gemma3_text", "siglip_vision_model", _gemma3, tokens=_tokens_key("mm_tokens_per_image"), mutual=True
    ),
    "idefics3": Pairing("llama", "idefics3_vision", _idefics, tokens=_shuffled_tokens),
    "smolvlm": Pairing("llama", "smolvlm_vision", _idefics, tokens=_shuffled_tokens),
    "internvl": Pairing("qwen2", "internvl_vision", _internvl, tokens=_tokens_key("image_seq_length")),
    "llama4": Pairing("llama4_text", "llama4_vision_model", _llama4, never_ties=True, tokens=_llama4_tokens),
    "qwen2_vl": _qwen("qwen2_vl"),
    "qwen2_5_vl": _qwen("qwen2_5_vl"),
    "qwen3_vl": _qwen("qwen3_vl"),
    "qwen3_vl_moe": _qwen("qwen3_vl_moe"),
    "qwen3_5": _qwen("qwen3_5"),
    "qwen3_5_moe": _qwen("qwen3_5_moe"),
}
MODEL_TYPES = tuple(PAIRINGS)


def text_part(config: Config, usual: str) -> Config:
    """`text_config`; older files keep its keys beside `vision_config`."""
    if config.states("text_config"):
        return config.part("text_config", usual)
    flat = {key: value for key, value in config.stated.items() if not key.endswith("_config")}
    return Config(flat, usual, config.where)


def text_model(text: Config) -> ModelSpec:
    """The language model of a multimodal one."""
    reader = reader_of(text.model_type)
    if reader is None:
        raise ModelError(f"{text.where}: language models of type “{text.model_type}” cannot be read yet.")
    return reader(text, "causal-lm")


def joined(
    config: Config,
    task: str | None,
    text: Config,
    language: ModelSpec,
    towers: tuple[Stack, ...],
    ties: bool,
    usual: Task = "image-text-to-text",
) -> ModelSpec:
    """Language model first, then towers; the head is tied as the whole configuration says.

    Where only the text part says it, its word counts: servers build the language model from that
    part alone (vLLM `init_vllm_registered_model`), and transformers asks `get_text_config` (4.x).
    """
    kind = task_of(config, task, usual)
    speaker = text if text.states("tie_word_embeddings") and not config.states("tie_word_embeddings") else config
    tied = speaker.flag("tie_word_embeddings") or (ties and text.flag("tie_word_embeddings"))
    head: Head | None = None
    if kind != "feature-extraction":
        head = replace(language.head or Head(text.size("vocab_size")), tied=tied)
    config.assumed += text.assumed
    return replace(
        language,
        name=config.model_type,
        model_type=config.model_type,
        task=kind,
        stacks=(*language.stacks, *towers),
        head=head,
    )


def read(config: Config, task: str | None) -> ModelSpec:
    """A vision-language model."""
    pairing = PAIRINGS[config.model_type]
    text = text_part(config, pairing.text)
    language = text_model(text)
    vision = _vision_part(config, pairing)
    stack = tower(vision)
    parts = pairing.projector(config, stack, vision, language.stack.hidden_size)
    image = replace(
        stack.image or ImageInput(1),
        tokens_per_image=pairing.tokens(config, vision),
        unread_layers=_unread_layers(config) if pairing.chosen_layer else 0,
        mutual=pairing.mutual,
    )
    if config.states("spatial_merge_size"):
        image = replace(image, merge_size=config.size("spatial_merge_size"))
    stack = replace(stack, after=(*stack.after, *parts), image=image)
    if pairing.never_ties:
        config = config.with_values(tie_word_embeddings=False)
    return joined(config, task, text, language, (stack,), pairing.text_ties)


def _unread_layers(config: Config) -> int:
    """`vision_feature_layer` counts from the end: -1 is the last layer's output."""
    layer = config.raw("vision_feature_layer", -2)
    return -1 - layer if isinstance(layer, int) and layer < 0 else 0


def _vision_part(config: Config, pairing: Pairing) -> Config:
    vision = config.part("vision_config", pairing.vision)
    if vision.model_type == config.model_type:
        # Early files repeat the whole model's type inside `vision_config`.
        return Config(vision.stated, pairing.vision, vision.where)
    return vision
