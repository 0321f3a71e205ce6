"""What decides which tensors exist, apart from their sizes: the structure of the model and the kind of step.

Everything here is hashable and holds no size, so one recording serves every workload of its kind.
"""

from dataclasses import dataclass
from typing import Literal

Loss = Literal["full_logits", "fused_cross_entropy", "chunked", "fused_linear", "none"]
Kernel = Literal["eager", "flash", "efficient", "math"]


@dataclass(frozen=True, slots=True)
class LayerShape:
    """One kind of layer: which operators it has."""

    name: str
    """Prefix of its dimensions where a model has several kinds of layer; empty for the first."""
    copies: int
    """How many are recorded: all of them up to three; with more, the middle one stands for the rest."""
    grouped_queries: bool
    kernel: Kernel
    masked: bool
    """An attention mask tensor is passed to the kernel."""
    qkv_bias: bool
    output_bias: bool
    qk_norm: bool
    attention_dropout: bool
    gated: bool
    activation: str
    mlp_bias: bool


@dataclass(frozen=True, slots=True)
class LoraRecipe:
    """Low-rank adapters beside frozen linear layers, as peft makes them."""

    targets: frozenset[str]
    dropout: bool
    dtype: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recorded step."""

    layers: tuple[LayerShape, ...]
    tied_embeddings: bool
    weight_dtype: str
    autocast: str | None
    checkpointing: Literal["none", "reentrant", "non-reentrant"]
    loss: Loss
    loss_upcast: bool
    keeps_outputs: bool
    gradients_from_start: Literal["none", "step", "accumulation"]
    """Gradients that are there before backward: since the last step, or of an earlier micro-batch of this one."""
    gradient_dtype: str
    lora: LoraRecipe | None
    quantized_base: bool
    mask: bool
    use_cache: bool
    cache_filled: bool
    """A decoding step: the cache already holds the context."""
    logits: Literal["all", "last"]
    training: bool
