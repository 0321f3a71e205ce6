"""Where the model comes from: a preset, a config.json, the manual form, or only a size."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Discriminator, Tag
from pydantic_core import PydanticCustomError

from planner.scenario.choices import Activation, FamilyChoice, NormChoice, PositionEmbedding, Task
from planner.scenario.declaration import Declared, declare
from planner.scenario.families import CUSTOM
from planner.scenario.json_tree import flaw_of

MAX_PARAMETERS = 10**15
MAX_LAYERS = 100_000
MAX_WIDTH = 10_000_000
MAX_VOCABULARY = 1_000_000_000


class PresetModel(Declared):
    """A model that the planner knows."""

    preset: str = declare(..., "Model", "One of the models that come with the planner.", max_length=300)


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    flaw = flaw_of(config)
    if flaw:
        raise PydanticCustomError("bad_config", "{flaw}", {"flaw": flaw})
    return config


class ConfigModel(Declared):
    """A model described by its config.json, kept in the scenario as it was read."""

    config: Annotated[dict[str, Any], AfterValidator(_plain)] = declare(
        ..., "Configuration", "The content of a config.json, or of a pipeline with its components."
    )
    task: Task | None = declare(
        None, "Task", "What the model is used for, which decides its head. Automatic: by the configuration."
    )

    def __hash__(self) -> int:
        return hash((json.dumps(self.config, sort_keys=True), self.task))


class Dimensions(Declared):
    """The manual form: a model that has no file yet."""

    form_order: ClassVar[tuple[str, ...]] = (
        "family",
        "task",
        "layers",
        "hidden_size",
        "attention_heads",
        "kv_heads",
        "head_dim",
    )

    family: FamilyChoice = declare(
        CUSTOM,
        "Family",
        "The structure: where its norms, biases and windows are, what its layers keep for backward, which parts are "
        "tied. Any transformer: each of these is a switch of its own.",
    )
    task: Task | None = declare(
        None, "Task", "What the model is used for, which decides its head. Automatic: what the family is known for."
    )
    layers: int = declare(..., "Layers", "Transformer layers.", unit="layers", ge=1, le=MAX_LAYERS)
    hidden_size: int = declare(..., "Hidden size", "Width of the residual stream.", ge=1, le=MAX_WIDTH, step=128)
    attention_heads: int = declare(..., "Attention heads", "Query heads per layer.", unit="heads", ge=1, le=MAX_WIDTH)
    kv_heads: int | None = declare(
        None,
        "Key-value heads",
        "Heads that keys and values have; fewer than query heads is grouped-query attention. Automatic: as many.",
        unit="heads",
        ge=1,
        le=MAX_WIDTH,
    )
    head_dim: int | None = declare(
        None, "Head dimension", "Width of one head. Automatic: hidden size ÷ heads.", ge=1, le=MAX_WIDTH, step=16
    )
    ffn_hidden_size: int | None = declare(
        None,
        "Feed-forward size",
        "Inner width of the feed-forward. Automatic: 4 × hidden size, or 8/3 of it when gated.",
        ge=1,
        le=MAX_WIDTH,
        step=256,
    )
    gated_mlp: bool = declare(True, "Gated feed-forward", "Three projections (SwiGLU) instead of two.")
    vocab_size: int | None = declare(
        None, "Vocabulary", "Entries of the token table.", unit="tokens", ge=1, le=MAX_VOCABULARY, step=1024
    )
    tied_embeddings: bool = declare(False, "Tied embeddings", "The output head is the token table itself.")
    max_positions: int | None = declare(
        None, "Longest sequence", "Positions that the model is built for.", unit="tokens", ge=1, le=10**9, step=1024
    )
    position_embedding: PositionEmbedding = declare("rope", "Positions", "How the model knows the order of tokens.")
    activation: Activation = declare("silu", "Activation", "Non-linearity of the feed-forward.", advanced=True)
    norm: NormChoice = declare("rmsnorm", "Norm", "Normalisation before attention and feed-forward.", advanced=True)
    bias: bool = declare(False, "Biases", "Linear layers have biases.", advanced=True)
    dropout: float | None = declare(
        None,
        "Dropout",
        "Share of values dropped in training. Above 0, masks are kept for backward. Automatic: none.",
        ge=0.0,
        le=0.99,
        step=0.05,
        advanced=True,
    )
    experts: int | None = declare(
        None, "Experts", "Experts per layer of a mixture of experts.", unit="experts", ge=1, le=100_000, advanced=True
    )
    experts_per_token: int | None = declare(
        None, "Experts per token", "Experts that each token goes to.", unit="experts", ge=1, le=100_000, advanced=True
    )
    expert_ffn_hidden_size: int | None = declare(
        None, "Expert size", "Inner width of one expert.", ge=1, le=MAX_WIDTH, step=128, advanced=True
    )
    shared_experts: int | None = declare(
        None,
        "Shared experts",
        "Experts that every token goes to, beside its own. Automatic: none.",
        unit="experts",
        ge=0,
        le=1000,
        advanced=True,
    )
    dense_layers: int | None = declare(
        None,
        "Dense layers",
        "First layers, which have a plain feed-forward instead of experts. Automatic: none.",
        unit="layers",
        ge=0,
        le=MAX_LAYERS,
        advanced=True,
    )
    kv_rank: int | None = declare(
        None,
        "Latent of keys and values",
        "Width that keys and values are compressed to, which is what the cache holds. Automatic: 512.",
        ge=1,
        le=MAX_WIDTH,
        step=64,
        advanced=True,
    )
    query_rank: int | None = declare(
        None,
        "Latent of queries",
        "Width that queries are compressed to. Automatic: they are not.",
        ge=1,
        le=MAX_WIDTH,
        step=64,
        advanced=True,
    )
    rotary_head_dim: int | None = declare(
        None,
        "Rotary head dimension",
        "Width of the rotated part of a key, which all heads share. Automatic: 64.",
        ge=1,
        le=MAX_WIDTH,
        step=16,
        advanced=True,
    )
    value_head_dim: int | None = declare(
        None,
        "Value head dimension",
        "Width of the values of one head. Automatic: 128.",
        ge=1,
        le=MAX_WIDTH,
        step=16,
        advanced=True,
    )
    sliding_window: int | None = declare(
        None,
        "Sliding window",
        "Tokens that layers with a window look back at. Automatic: as the family has it.",
        unit="tokens",
        ge=1,
        le=10**9,
        step=128,
        advanced=True,
    )
    global_every: int | None = declare(
        None,
        "Global layers",
        "Every so many layers, one without a window. Automatic: as the family has it.",
        unit="layers",
        ge=1,
        le=MAX_LAYERS,
        advanced=True,
    )
    state_size: int | None = declare(
        None, "State size", "Width of the state of a head. Automatic: 128.", ge=1, le=MAX_WIDTH, step=16
    )
    image_size: int | None = declare(
        None, "Image size", "Side of the image. Automatic: 224.", unit="pixels", ge=1, le=100_000, step=32
    )
    patch_size: int | None = declare(
        None, "Patch size", "Side of a patch. Automatic: 16.", unit="pixels", ge=1, le=100_000
    )
    labels: int | None = declare(
        None,
        "Classes",
        "What a classifier tells apart. Automatic: 2.",
        unit="classes",
        ge=1,
        le=MAX_VOCABULARY,
        advanced=True,
    )


class DimensionsModel(Declared):
    """A model given by its dimensions."""

    dimensions: Dimensions = declare(..., "Dimensions", "Layers, widths, heads and vocabulary.")


class SizeModel(Declared):
    """A model of which only the size is known; activations are then rough."""

    parameters: int = declare(..., "Parameters", "Number of weights.", ge=1, le=MAX_PARAMETERS, step=10**9)
    active_parameters: int | None = declare(
        None, "Active parameters", "Weights that one token uses, for a mixture of experts.", ge=1, le=MAX_PARAMETERS
    )
    task: Task = declare("causal-lm", "Task", "What the model is used for.")
    vocab_size: int | None = declare(
        None, "Vocabulary", "Entries of the token table, if known.", unit="tokens", ge=1, le=MAX_VOCABULARY
    )
    max_positions: int | None = declare(
        None, "Longest sequence", "Positions that the model is built for, if known.", unit="tokens", ge=1, le=10**9
    )


SOURCES: Mapping[str, type[Declared]] = {
    "preset": PresetModel,
    "config": ConfigModel,
    "dimensions": DimensionsModel,
    "parameters": SizeModel,
}


def _source_of(value: Any) -> str | None:
    """Tag of the description that this is; None when it is none of them, or more than one."""
    if isinstance(value, Declared):
        return f"<{type(value).__name__}>"
    found = [part for key, part in SOURCES.items() if key in value] if isinstance(value, Mapping) else []
    return f"<{found[0].__name__}>" if len(found) == 1 else None


ModelSource = Annotated[
    Annotated[PresetModel, Tag("<PresetModel>")]
    | Annotated[ConfigModel, Tag("<ConfigModel>")]
    | Annotated[DimensionsModel, Tag("<DimensionsModel>")]
    | Annotated[SizeModel, Tag("<SizeModel>")],
    Discriminator(
        _source_of,
        custom_error_type="model_source",
        custom_error_message="A model needs exactly one of preset, config, dimensions or parameters.",
    ),
]
