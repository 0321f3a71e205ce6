"""What a model is, structurally: stacks of layer groups, each a mixer and a feed-forward.

Parameters, KV bytes, saved activations, quantizable weights and shards are all derived from this description.
A reader's only task is to turn a file into a `ModelSpec`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from planner.model.spec.attention import Attention, LatentAttention
from planner.model.spec.feed_forward import FeedForward
from planner.model.spec.parts import RMS_NORM, Buffer, Norm, Part
from planner.model.spec.recurrent import (
    GatedDeltaNet,
    LightningAttention,
    Mamba,
    Mamba2,
    RealGatedRecurrence,
    Rwkv,
    ShortConvolution,
)
from planner.model.spec.rotary import PLAIN_ROTARY, RotaryTable

Task = Literal[
    "causal-lm",
    "masked-lm",
    "sequence-classification",
    "seq2seq-lm",
    "image-classification",
    "feature-extraction",
    "speech-seq2seq",
    "question-answering",
    "token-classification",
    "image-text-to-text",
    "audio-text-to-text",
    "diffusion",
]
TASKS: tuple[Task, ...] = get_args(Task)
DOWNSAMPLE = "downsample"
"""Kind of the block that reduces the image between two stages of a pyramid."""
Arrangement = Literal["pre", "post", "sandwich", "parallel"]


@dataclass(frozen=True, slots=True)
class Block:
    """A block known by its parts alone, such as a residual convolution block or a joint attention of a diffusion model.

    `kind` says what it does, for example `resnet-bottleneck`, `unet-resnet`, `flux-double`.
    """

    kind: str
    parts: tuple[Part, ...]
    heads: int | None = None
    """Heads of its attention, where its parts do not tell."""

    @property
    def cached_elements(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ParallelMixers:
    """Mixers that read the same input and add up (Falcon-H1: attention beside Mamba 2)."""

    mixers: "tuple[Mixer, ...]"

    @property
    def cached_elements(self) -> int:
        return sum(mixer.cached_elements for mixer in self.mixers)


RecurrentMixer = Mamba | Mamba2 | GatedDeltaNet | Rwkv | LightningAttention | ShortConvolution | RealGatedRecurrence
Mixer = Attention | LatentAttention | RecurrentMixer | Block | ParallelMixers


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`count` equal layers, each `x + mixer(norm(x))`, then `x + feed_forward(norm(x))`.

    `norms` norms of the layer's width; `arrangement` says where they stand: before each half (`pre`), after the sum
    (`post`), on both sides (`sandwich`), or before two halves that run side by side (`parallel`).
    """

    count: int
    mixer: Mixer | None
    feed_forward: FeedForward | None
    norm: Norm = RMS_NORM
    norms: int = 2
    arrangement: Arrangement = "pre"
    cross_attention: Attention | None = None
    """Attention to another stack's output between mixer and feed-forward; its norm is counted in `norms`."""
    extra: tuple[Part, ...] = ()
    """Further parameters of each layer: layer scales, modulation, per-layer gates."""
    width: int | None = None
    """Width of these layers where it is not the stack's (the stages of a pyramid)."""
    downsampling: int = 1
    """By how much the image's sides have shrunk in these layers, for pyramids."""
    weight_sets: int | None = None
    """Distinct sets of weights where layers share them (ALBERT); None: each layer has its own."""
    dropout: float = 0.0
    """Dropout of what the mixer and the feed-forward give."""
    mixer_drops: bool = True
    """False: only what the feed-forward gives is dropped (DistilBERT)."""
    drop_path: float = 0.0
    """Stochastic depth: how often a sample loses what a half gives; in a pyramid the rate grows from 0 to this."""
    residual_scaled: bool = False
    """What both give is multiplied by a constant before it is added (Granite)."""
    indices: tuple[int, ...] = ()
    """Which layers of the stack these are, where kinds alternate. Empty: they follow one another."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """The token table, (vocab, size)."""

    vocab: int
    size: int
    scaled: bool = False
    """Its rows are multiplied by a constant (Gemma, Granite)."""
    dropout: float = 0.0
    """Dropout of the sum of all embeddings."""
    positions_of_tokens: bool = False
    """Positions are counted from the tokens, padding left out, so each sequence has its own (RoBERTa)."""
    normed: bool = False
    """Its rows pass the final norm before the first layer too (nanochat)."""


@dataclass(frozen=True, slots=True)
class Head:
    """The output projection, (outputs, hidden). Tied: it is the token table itself.

    `kind`: `vocabulary` gives logits over tokens; `classification` over labels or answer positions.
    """

    outputs: int
    tied: bool = False
    bias: bool = False
    kind: Literal["vocabulary", "classification"] = "vocabulary"
    inputs: int | None = None
    """Width it reads where that is not the main stack's."""
    before: tuple[Part, ...] = ()
    """What stands between the stack and the projection: BERT's transform, a pooler, a classifier's dense layer."""
    name: str = "lm_head"
    softcap: bool = False
    """Logits are capped by a tanh (Gemma 2)."""
    scaled: bool = False
    """Logits are multiplied or divided by a constant (Cohere, Granite)."""
    activation: str | None = None
    """What follows the dense layer before the projection; None: the activation of the layers."""
    dropout: float = 0.0
    """Dropout of what the projection of a classifier reads."""
    averages: bool = False
    """A classifier of sequences reads the mean of all tokens, not the first one's state."""

    @property
    def kept_by_4bit_loaders(self) -> bool:
        """transformers keeps output embeddings, and a last module without bias, in full precision.

        `get_keys_to_not_convert` in transformers/quantizers/base.py names the last parameter; where that is a bias the
        name matches no module, so a classifier with bias is converted.
        """
        return self.kind == "vocabulary" or not self.bias


@dataclass(frozen=True, slots=True)
class ImageInput:
    """How an image becomes tokens of a stack."""

    patch_size: int
    image_size: int | None = None
    """Side in pixels where it is fixed; None where any size is taken."""
    channels: int = 3
    temporal_patch_size: int = 1
    merge_size: int = 1
    """Sides of the square of patches that become one token of the language model."""
    tokens_per_image: int | None = None
    """Tokens that the language model sees for one image of `image_size`, where that is fixed."""
    unread_layers: int = 0
    """Layers at the end of the tower whose output the language model does not see (LLaVA reads the last but one)."""
    mutual: bool = False
    """Tokens of one image see each other, so that every layer of the language model is given a mask."""

    def tokens(self, height: int, width: int) -> int:
        """Tokens that the language model sees for an image of these sides in pixels."""
        if self.tokens_per_image is not None:
            return self.tokens_per_image
        side = self.patch_size * self.merge_size
        return -(-height // side) * -(-width // side)


@dataclass(frozen=True, slots=True)
class Stack:
    """A run of layer groups of one width, with what stands before and after it."""

    name: str
    hidden_size: int
    embedding: Embedding | None
    groups: tuple[LayerGroup, ...]
    final_norm: Norm | None = RMS_NORM
    before: tuple[Part, ...] = ()
    """Position tables, patch projections, embedding norms and projections."""
    after: tuple[Part, ...] = ()
    """Poolers, projectors, output projections."""
    image: ImageInput | None = None
    buffers: tuple[Buffer, ...] = ()
    """What the modules of the whole stack keep beside parameters, rotary frequencies left out."""
    upcasts: bool = False
    """Whether it overflows in fp16, so that pipelines run it in fp32 (`force_upcast` of an autoencoder)."""

    @property
    def layers(self) -> int:
        """Repeated layers; the reductions between the stages of a pyramid are none."""
        return sum(
            group.count
            for group in self.groups
            if not (isinstance(group.mixer, Block) and group.mixer.kind == DOWNSAMPLE)
        )


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the published weights are stored when they are quantized."""

    method: str
    bits: float
    group_size: int | None = None
    stored_bytes: int | None = None
    """Exact bytes of the tensors, where a file of weights was read."""


@dataclass(frozen=True)
class ModelSpec:
    """A whole model. `stacks[0]` is the main one; further stacks are encoders or towers."""

    name: str
    model_type: str
    task: Task
    stacks: tuple[Stack, ...]
    head: Head | None
    max_positions: int | None = None
    dtype: str = "bf16"
    """Precision of the published weights."""
    approximate: str | None = None
    """Why the structure is only approximately known, for a model read generically; None when exact."""
    quantization: Quantization | None = None
    assumed: tuple[str, ...] = ()
    """Keys the file does not state, taken from the defaults of the model's configuration class."""
    prediction: Stack | None = None
    """Layers for multi-token prediction that the file holds beside the model; no count but their own includes them."""
    rotary: tuple[RotaryTable, ...] = PLAIN_ROTARY
    """How positions reach into the rotary tables of serving engines, by kind of layer."""

    def __hash__(self) -> int:
        """Computed once: a specification is the key of many caches, and deep."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.model_type, self.task, self.stacks, self.head, self.max_positions, self.dtype))

    @property
    def stack(self) -> Stack:
        return self.stacks[0]

    @property
    def layers(self) -> int:
        return sum(stack.layers for stack in self.stacks)
