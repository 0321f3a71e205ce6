"""Which file reads which model type.

A new architecture is one small file beside this one and its line in `FAMILIES`. A worked example, for a decoder like
Llama whose attention has biases, whose norms are LayerNorms, and which has a table of positions:

    from planner.model.readers.config import Config
    from planner.model.readers.decoder import Traits, decoder_model
    from planner.model.spec import LAYER_NORM, ModelSpec, Table

    MODEL_TYPES = ("novel",)
    _TRAITS = Traits(norm=LAYER_NORM, qkv_bias=True, output_bias="attention_bias", rotary=False)

    def read(config: Config, task: str | None) -> ModelSpec:
        positions = Table("embed_positions", config.size("max_position_embeddings"), config.size("hidden_size"))
        return decoder_model(config, task, _TRAITS, before=(positions,))

`config.size`, `flag`, `number`, `text` and `part` check what they read and name the file and the key when it is wrong.
Layers that differ are built one by one and put together by `layers.merged`; what has no structure of its own is listed
as parts (`Linear`, `Convolution`, `Table`, `Tensor`, `NormPart`). Counts, shards, KV bytes and adapters follow.
Class defaults of the new type, for keys that files leave out, go into `resources/models/class-defaults.json`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from planner.model.readers.config import Config
from planner.model.spec import ModelSpec

Reader = Callable[[Config, str | None], ModelSpec]

FAMILIES = (
    "llama",
    "gpt",
    "bloom_opt_mpt",
    "falcon",
    "parallel",
    "gemma",
    "moe",
    "deepseek",
    "dbrx",
    "small_labs",
    "further_moe",
    "state_space",
    "hybrid",
    "qwen_next",
    "bert",
    "deberta",
    "deberta1",
    "rotary_encoders",
    "modernbert",
    "t5",
    "bart",
    "whisper",
    "vit",
    "pyramid",
    "clip",
    "dinov3",
    "wav2vec",
    "llama4",
    "multimodal",
    "mllama",
    "glm4v",
    "gemma4",
    "gemma3n",
    "hearing",
    "kimi_vision",
    "remote",
    "diffusion.unet",
    "diffusion.vae",
    "diffusion.video_vae",
    "diffusion.mmdit",
    "diffusion.joint",
    "diffusion.dit",
)
"""Modules of this package; each has `MODEL_TYPES` and `read(config, task)`."""


@cache
def reader_of(model_type: str) -> Reader | None:
    """The reader of a model type. Families are imported in turn until one knows it, so that starting stays quick."""
    for family in FAMILIES:
        module = import_module(f"planner.model.readers.{family}")
        if model_type in module.MODEL_TYPES:
            reader: Reader = module.read
            return reader
    return None


@cache
def readers() -> Mapping[str, Reader]:
    """Every model type that can be read, with its reader."""
    found: dict[str, Reader] = {}
    for family in FAMILIES:
        module = import_module(f"planner.model.readers.{family}")
        found |= {name: module.read for name in module.MODEL_TYPES if name not in found}
    return found
