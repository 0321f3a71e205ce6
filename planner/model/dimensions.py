"""Models without a file: from the dimensions of the manual form, or from a parameter count alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.errors import ModelError
from planner.model.counts import active_parameters, parameters
from planner.model.readers import read_config
from planner.model.readers.config import Config
from planner.model.readers.tasks import decoder_head, task_of
from planner.model.spec import (
    LAYER_NORM,
    RMS_NORM,
    Attention,
    DenseFeedForward,
    Embedding,
    FeedForward,
    Head,
    LayerGroup,
    MixtureOfExperts,
    ModelSpec,
    Stack,
    Table,
    Task,
)
from planner.scenario.families import Family, families

WHERE = "The model's dimensions"
_MULTIPLE = 256


def from_dimensions(dimensions: Mapping[str, Any], name: str = "Custom model") -> ModelSpec:
    """The model of the manual form; the keys are those of `model.dimensions` in a scenario."""
    family = families().get(str(dimensions.get("family")))
    if family is not None:
        return _of_family(family, dimensions, name)
    keys = Config({**dimensions, "num_labels": dimensions.get("labels")}, "dimensions", WHERE)
    task = task_of(keys, keys.text("task", "causal-lm"), "causal-lm")
    hidden, vocab = keys.size("hidden_size"), keys.size("vocab_size")
    norm = LAYER_NORM if keys.text("norm", "rmsnorm") == "layernorm" else RMS_NORM
    positions = keys.text("position_embedding", "rope")
    longest = keys.optional_size("max_positions")
    before: tuple[Table, ...] = ()
    if positions == "learned":
        before = (Table("embed_positions", keys.size("max_positions"), hidden),)
    dropout = keys.number("dropout", 0.0, maximum=1.0)
    causal = task in ("causal-lm", "image-text-to-text", "audio-text-to-text", "seq2seq-lm", "speech-seq2seq")
    layer = LayerGroup(
        count=keys.size("layers", maximum=100_000),
        mixer=_attention(keys, causal, positions == "rope"),
        feed_forward=_feed_forward(keys),
        norm=norm,
        dropout=dropout,
    )
    table = Embedding(vocab, hidden, dropout=dropout)
    stack = Stack("decoder" if causal else "encoder", hidden, table, (layer,), final_norm=norm, before=before)
    return ModelSpec(name, "dimensions", task, (stack,), _head(keys, task, vocab), longest)


def _of_family(family: Family, dimensions: Mapping[str, Any], name: str) -> ModelSpec:
    """A model of a family, read as if its configuration had been published: the same structure to the last switch."""
    keys = Config(dimensions, "dimensions", WHERE)
    hidden, heads = keys.size("hidden_size"), keys.size("attention_heads")
    size = keys.size("ffn_hidden_size", _usual_size(hidden, family.gated))
    values: dict[str, Any] = {"kv_heads": heads, "ffn_hidden_size": size, "expert_ffn_hidden_size": size}
    values |= {"dense_layers": 0, "shared_experts": 0}
    if family.head_width is not None and "head_dim" in family.keys and keys.raw("head_dim") is None:
        whole = family.head_width * hidden
        if whole % heads:
            raise keys.error("attention_heads", heads, f"a divisor of {whole}, or a “head_dim” must be given")
        values["head_dim"] = whole // heads
    experts = keys.optional_size("experts")
    if experts is not None:
        values["experts_per_token"] = min(2, experts)
    needed = [field for field in ("layers", "vocab_size", "experts") if field in family.keys]
    values |= {field: keys.size(field) for field in needed}
    values |= {field: value for field, value in dimensions.items() if value is not None}
    config = {"model_type": family.model_type, **family.fixed}
    config |= {key: values[field] for field, key in family.keys.items() if field in values}
    spec = read_config(config, keys.text("task", family.task), name, WHERE)
    # What the class assumes is the family's own, not something that a file left out.
    return replace(spec, assumed=())


def _attention(keys: Config, causal: bool, rotary: bool) -> Attention:
    heads = keys.size("attention_heads")
    kv_heads = keys.size("kv_heads", heads)
    if heads % kv_heads:
        raise keys.error("kv_heads", kv_heads, f"a divisor of the {heads} attention heads")
    stated = keys.optional_size("head_dim")
    bias = keys.flag("bias")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=keys.divisible("hidden_size", "attention_heads") if stated is None else stated,
        qkv_bias=bias,
        output_bias=bias,
        dropout=keys.number("dropout", 0.0, maximum=1.0),
        causal=causal,
        rotary_share=1.0 if rotary else 0.0,
    )


def _feed_forward(keys: Config) -> FeedForward:
    hidden, gated = keys.size("hidden_size"), keys.flag("gated_mlp", True)
    activation, bias = keys.text("activation", "silu"), keys.flag("bias")
    size = keys.size("ffn_hidden_size", _usual_size(hidden, gated))
    experts = keys.optional_size("experts")
    if experts is None or experts == 1:
        return DenseFeedForward(size, gated, activation, bias)
    visited = keys.size("experts_per_token", min(2, experts), maximum=experts)
    own = keys.size("expert_ffn_hidden_size", size)
    return MixtureOfExperts(experts, visited, own, gated, activation, bias)


def _head(keys: Config, task: Task, vocab: int) -> Head | None:
    if task == "masked-lm":
        return Head(vocab, keys.flag("tied_embeddings"))
    if task == "diffusion":
        return None
    if task == "image-classification":
        return Head(keys.labels(), bias=True, kind="classification", name="classifier")
    return decoder_head(keys, task, vocab, tied=keys.flag("tied_embeddings"))


def _usual_size(hidden: int, gated: bool) -> int:
    """Four times the width, or 8/3 of it up to a multiple of 256 when gated, as Llama chooses its feed-forward."""
    return -int(-(hidden * 8 / 3) // _MULTIPLE) * _MULTIPLE if gated else 4 * hidden


SHAPES = (
    (0.4e9, 1024, 128, 8),
    (2e9, 2048, 128, 8),
    (20e9, 4096, 128, 8),
    (150e9, 8192, 128, 8),
    (2e12, 16384, 128, 8),
    (float("inf"), 65536, 128, 8),
)
"""Up to so many parameters: hidden size, head width and KV heads of the generic shape, as Llama and Qwen have them."""
SMALLEST = 1_000_000


def from_parameter_count(
    count: int,
    active: int | None = None,
    task: Task = "causal-lm",
    vocab_size: int | None = None,
    max_positions: int | None = None,
) -> ModelSpec:
    """A generic Llama-like model with about `count` parameters; only its size is meant to be right.

    Layers are as many as fit the width of such a model, and the feed-forward takes what is left, so that the total
    comes within one row of the feed-forward per layer (rounding) of `count`. With `active`, routed experts
    hold the rest.
    """
    if count < SMALLEST:
        raise ModelError(f"A model of {count} parameters is too small to estimate; please give its dimensions instead.")
    dense = min(active or count, count)
    hidden, head_dim, kv_heads = next((h, d, k) for limit, h, d, k in SHAPES if dense <= limit)
    vocab = vocab_size or (128_256 if dense >= 1e9 else 32_000)
    while hidden > 64 and 2 * vocab * hidden > dense / 2:
        hidden //= 2
        if hidden < 1024 and vocab_size is None:
            vocab = 32_000
        if hidden <= 256 and vocab_size is None:
            vocab = 4_096
    head_dim = min(head_dim, hidden // 8)
    layers = max(1, round((dense - 2 * vocab * hidden) / (hidden * hidden * 12.5)))
    base: dict[str, Any] = {
        "task": task,
        "hidden_size": hidden,
        "attention_heads": hidden // head_dim,
        "kv_heads": kv_heads,
        "layers": layers,
        "vocab_size": vocab,
        "max_positions": max_positions,
    }
    size = _fitting_size(base, dense, layers * 3 * hidden)
    spec = from_dimensions(base | {"ffn_hidden_size": size}, "Generic model")
    if active is not None and active < count:
        spec = _with_experts(base, size, count, layers * 3 * hidden)
    reason = "only the number of parameters is known; the shape is that of a generic Llama-like model"
    return replace(spec, model_type="parameters", approximate=reason)


def _fitting_size(base: dict[str, Any], count: int, per_row: int) -> int:
    empty = parameters(from_dimensions(base | {"ffn_hidden_size": 1})) - per_row
    return max(1, round((count - empty) / per_row))


def _with_experts(base: dict[str, Any], size: int, count: int, per_row: int) -> ModelSpec:
    """Eight experts visited of as many as hold `count`; each a part of the dense feed-forward."""
    visited = min(8, size)
    own = max(1, size // visited)
    dense = from_dimensions(base | {"ffn_hidden_size": 1})
    experts = max(visited, round((count - parameters(dense)) / (per_row * own)))
    spec = from_dimensions(base | {"experts": experts, "experts_per_token": visited, "expert_ffn_hidden_size": own})
    return spec if active_parameters(spec) <= count else dense
