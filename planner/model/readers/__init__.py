"""A configuration becomes a `ModelSpec`."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from planner.errors import ModelError
from planner.model.counts import parameters
from planner.model.readers.config import Config, class_defaults
from planner.model.readers.diffusion.pipeline import read_pipeline
from planner.model.readers.dtypes import published_dtype, published_quantization
from planner.model.readers.generic import read_generic
from planner.model.readers.prediction import with_prediction
from planner.model.readers.registry import reader_of
from planner.model.readers.rotary_tables import rotary_tables
from planner.model.spec import ModelSpec
from planner.resources import resource

SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "text_config",
    "llm_config",
    "language_config",
    "vision_config",
    "depths",
    "hidden_sizes",
    "n_embed",
    "num_layers",
    "block_out_channels",
    "base_dim",
    "embed_dim",
    "kv_channels",
    "num_attention_heads",
)
"""A file that states none of these describes no model; transformers would silently take all defaults."""
INFERRED = "_told_from_tensors"
"""A key of configurations that were not published but told from the shapes of weights."""
MOST_PARAMETERS = 10**15


def read_config(
    config: Mapping[str, Any], task: str | None = None, name: str = "", where: str = "config.json"
) -> ModelSpec:
    """The model that a `config.json` describes.

    Raises `ModelError` that names the file, the key and what would be right.
    """
    if not isinstance(config, Mapping):
        raise ModelError(f"{where}: a model configuration must be a JSON object with keys and values.")
    model_type = config.get("_class_name") or config.get("model_type") or type_of_class(config.get("architectures"))
    if not isinstance(model_type, str) or not model_type:
        raise ModelError(f"{where}: the key “model_type” is missing; it must name the architecture, such as “llama”.")
    keys = _keys(config, model_type, where)
    spec = _read(keys, task)
    if parameters(spec) > MOST_PARAMETERS:
        raise ModelError(f"{where}: the sizes stated give more than 10^15 parameters; please check them.")
    guessed = "the structure is told from the shapes of the weights; the width of a head may be guessed"
    return replace(
        spec,
        model_type=model_type if model_type in same_structure() else spec.model_type,
        approximate=guessed if config.get(INFERRED) is True else spec.approximate,
        name=name or str(config.get("_name_or_path") or model_type),
        dtype=published_dtype(config),
        quantization=published_quantization(config),
        assumed=tuple(dict.fromkeys(keys.assumed)),
        rotary=rotary_tables(config),
    )


@cache
def same_structure() -> Mapping[str, Mapping[str, Any]]:
    """Model types that are read as another one: `as`, and the `defaults` in which they differ."""
    with resource("models", "same-structure.json").open(encoding="utf-8") as file:
        types: Mapping[str, Mapping[str, Any]] = json.load(file)["types"]
    return types


def _keys(config: Mapping[str, Any], model_type: str, where: str) -> Config:
    same = same_structure().get(model_type)
    return (
        Config(config, model_type, where) if same is None else Config({**same["defaults"], **config}, same["as"], where)
    )


def type_of_class(architectures: object) -> str | None:
    """The model type whose name the first class begins with, for early files that state only `architectures`."""
    if not isinstance(architectures, list) or not architectures or not isinstance(architectures[0], str):
        return None
    name = re.split(r"For[A-Z]|LMHead|EncoderModel|Model", architectures[0])[0].lower()
    return next((known for known in class_defaults() if re.sub(r"[-_]", "", known) == name), None)


def _read(keys: Config, task: str | None) -> ModelSpec:
    if "components" in keys.stated or keys.model_type.endswith("Pipeline"):
        return read_pipeline(keys)
    reader = reader_of(keys.model_type)
    if reader is None:
        return read_generic(keys, task)
    if not any(keys.states(key) for key in SIZES):
        raise keys.missing("hidden_size", "the width of the model")
    return with_prediction(keys, reader(keys, task))
