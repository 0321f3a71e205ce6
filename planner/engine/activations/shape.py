"""One kind of decoder layer: which operators it has, without sizes."""

from dataclasses import dataclass

from planner.engine.activations.recipe import Kernel
from planner.model.spec import Rotary, Routing


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """The experts of a layer, and how its router chooses among them."""

    routing: Routing
    implementation: str
    """`grouped_mm`, or `batched_mm`, which copies the matrices of every row's expert."""
    gated: bool
    activation: str
    bias: bool
    transposed: bool
    clamped: bool
    router_bias: bool
    shared: bool
    """Every token also passes a feed-forward of its own, the layer's `ffn`."""
    shared_gate: bool
    shared_first: bool = False
    """The shared expert is computed before the router."""


@dataclass(frozen=True, slots=True)
class LatentShape:
    """Latent attention of a layer."""

    compresses_queries: bool
    bias: bool
    rotary: Rotary


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
    experts: ExpertShape | None = None
    latent: LatentShape | None = None
    narrow_softmax: bool = False
    """Eager attention computes its softmax in the model's dtype, without fp32 (Llama 4)."""
    qk_norm_rotated: bool = False
    """Queries and keys are normalised after they were rotated."""
    gated_queries: bool = False
    """The query projection is twice as wide; its second half gates the output (Qwen3-Next)."""
    whole_qk_norm: bool = False
    """Queries and keys are normalised over all heads at once, not head by head (OLMoE)."""
    single_kv_head: bool = False
    """All heads share one head of keys and values, which can be spread to them without a copy."""
    single_sequence: bool = False
    """The batch is one sequence: its heads can be viewed as a batch of matrices without a copy."""
    masks_scores: bool = False
    """Eager attention overwrites scores by a causal mask of its own (GPT-2 before transformers 5)."""
    shared_mask: bool = False
    """No sequence is padded: one boolean mask serves the whole batch."""
    windowed: bool = False
    """Its mask is that of the layers with a window, not that of those which see everything."""
    caches_all_heads: bool = False
    """Keys and values are repeated to all heads before they are cached (Falcon's new architecture)."""
    heads_first: bool = False
    """Queries lie in memory head by head; FlashAttention's output then does too and is copied."""
    rotates_all: bool = True
    """Rotary embedding turns whole heads, not a part of each."""
    rotates: bool = True
    """Positions are told by rotary embedding."""
    hidden_dropout: bool = False
    """Dropout after attention and feed-forward."""
