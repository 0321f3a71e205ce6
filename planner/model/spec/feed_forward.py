"""What follows the mixer in a layer: a dense network or a mixture of experts."""

from dataclasses import dataclass
from typing import Literal

from planner.model.spec.parts import LinearKind, Part


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    """Two projections (up, down), or three when gated."""

    size: int
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    fused: bool = False
    """Gate and up are one stored matrix."""
    down_bias: bool | None = None
    """Bias of the last projection where it differs from `bias`."""
    linear: LinearKind = "linear"
    down_linear: LinearKind | None = None
    """Kind of the last projection where it differs from `linear` (T5 keeps its own in fp32)."""
    dropout: float = 0.0
    """Dropout of what the activation gives."""
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    """Names of the projections; an ungated or fused one uses the last two."""


RouterScores = Literal["softmax", "softmax-of-chosen", "grouped-softmax", "sigmoid", "grouped-sigmoid"]


@dataclass(frozen=True, slots=True)
class Routing:
    """How a router weighs the experts that a token visits.

    `scores`: softmax over all experts, of which the best are taken (Mixtral), or only over the chosen ones (Granite);
    sigmoid with a correction for the choice (MiniMax-M2). `grouped`: the choice is narrowed to the best groups of
    experts first (DeepSeek).
    """

    scores: RouterScores = "softmax"
    normalised: bool = True
    """The weights of the chosen experts are divided by their sum."""
    fp32: bool = False
    """The router's matrix is kept in fp32 and multiplied in it, whatever the model's precision."""
    scaled: bool = False
    """A constant factor is multiplied in at the end."""
    fp32_weights: bool = True
    """The experts' outputs are weighed in fp32; False: the weights are first brought to the model's dtype."""
    fp32_scores: bool = True
    """The softmax is computed in fp32; False: in the model's dtype (gpt-oss)."""


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """A router and `experts` feed-forwards, of which each token visits `experts_per_token`.

    transformers 5 stores the experts of a layer as two parameters, (experts, outputs, inputs), no linear layers.
    """

    experts: int
    experts_per_token: int
    size: int
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    shared: DenseFeedForward | None = None
    """Experts that every token visits, as one feed-forward."""
    shared_gate: bool = False
    """A (1, hidden) linear layer weighs the shared expert (Qwen2-MoE)."""
    shared_first: bool = False
    """The shared expert is computed before the router (Hunyuan, ERNIE), not after the others."""
    router: LinearKind = "subclass"
    router_bias: bool = False
    expert_kind: LinearKind = "subclass"
    transposed: bool = False
    """The experts are stored (experts, inputs, outputs), as gpt-oss and Llama 4 do."""
    clamped: bool = False
    """Gate and up are interleaved and clamped, and the gate's sigmoid is written out (gpt-oss)."""
    dense: DenseFeedForward | None = None
    """A dense feed-forward that runs beside the experts with norms of its own in the layer (Gemma 4, Arctic)."""
    latent_size: int | None = None
    """Width the experts work in where tokens are projected down first (Nemotron 3)."""
    extra: tuple[Part, ...] = ()
    """Loose parameters, such as per-expert scales."""
    routing: Routing = Routing()
    visits_all: bool = False
    """Every expert computes every token, weighed by zero where it was not chosen (Llama 4 in transformers)."""
    groups: int = 1
    """Groups of experts, of which a token first chooses `chosen_groups` where the routing is grouped."""
    chosen_groups: int = 1


@dataclass(frozen=True, slots=True)
class ChannelMix:
    """The feed-forward of RWKV-4: key, value and receptance with two mixing vectors."""

    size: int
    hidden_size: int


FeedForward = DenseFeedForward | MixtureOfExperts | ChannelMix
