"""One kind of decoder layer: which operators it has, without sizes."""

from dataclasses import dataclass

from planner.engine.activations.recipe import Kernel


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
