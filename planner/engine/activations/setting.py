"""What a model family is told of the workload, and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from planner.engine.activations.recipe import Body, Recipe
from planner.engine.term import Factor, Number

RECORDED = 3
"""Layers of a kind that are recorded where there are more; further ones repeat the middle one."""


@dataclass(frozen=True, slots=True)
class Loads:
    """The numeric side of a workload, per GPU; any of them may be an array over the points of a sweep."""

    batch: Number
    sequence: Number
    context: Number = 0
    rank: Number = 1
    virtual_tokens: Number = 0
    loss_chunk: Number = 1
    """Tokens whose logits exist at once, where the loss is computed piece by piece."""
    decoder_sequence: Number | None = None
    """Tokens on the decoder's side of an encoder-decoder; None: as many as on the encoder's."""
    image_size: Number | None = None
    """Sides of an image in pixels; None: those that the model was built for."""
    image_tokens: Number | None = None
    """Tokens of a sequence that come from images; None: those of one image."""
    tensor_parallel: int = 1
    context_parallel: int = 1
    """GPUs that share a sequence; `sequence` is the part of one."""
    expert_parallel: int = 1
    """GPUs over which the experts of a layer are spread."""
    expert_tensor: int | None = None
    """GPUs that share one expert; None: as many as share other layers."""
    sequence_parallel: bool = False
    loss_parallel: bool = False
    """Logits stay divided along the vocabulary over tensor-parallel GPUs."""
    pipeline: int = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """How the step is run, as far as it decides which tensors there are."""

    attention: str
    compute_dtype: str
    needs_mask: bool
    """An attention mask tensor exists: one was passed with padding, or the framework builds one."""
    passes_mask: bool
    """The batch holds an attention mask, whatever it hides."""
    training: bool
    version: str
    longest_sequence: int
    image_size: int | None
    """Side of the largest image, where the workload states one."""
    tensor_parallel: int
    sequence_parallel: bool = False
    """Norms and residual sums are divided along the sequence."""
    profile: str = "hf-transformers"
    """Whose code runs the model."""
    adapted: frozenset[str] = frozenset()
    """Roles of the linear layers that have adapters."""
    single_sequence: bool = False
    """The batch is one sequence."""
    experts: str = "grouped_mm"
    """How the experts of a mixture are multiplied."""
    expert_parallel: int = 1
    expert_tensor: int | None = None
    token_dispatcher: str = "alltoall"
    """How tokens reach experts on other GPUs, where software offers a choice."""

    def masks(self, window: int | None) -> bool:
        """Whether a layer's attention is given a mask tensor: always in eager mode, never in FlashAttention 2.

        SDPA needs one for padding, and where a sequence is longer than the layer's window.
        """
        if self.attention != "sdpa":
            return self.attention == "eager"
        return self.needs_mask or (window is not None and self.longest_sequence > window)


@dataclass(frozen=True, slots=True)
class Found:
    """A body with the sizes of its dimensions, and how many layers there are of each of its kinds."""

    body: Body
    symbols: tuple[Factor, ...]
    layers: Mapping[str, int]
    derived: Callable[[Loads], tuple[Factor, ...]] | None = None
    """Dimensions that follow from the workload, such as the patches of an image."""
    doubts: Callable[[Recipe], tuple[str, ...]] | None = None
    """What of a step of this kind is known not to be told tensor by tensor."""


def divided(name: str, whole: int, parts: int) -> Factor:
    """A dimension as one of `parts` tensor-parallel GPUs holds it."""
    return Factor(name, whole) if parts == 1 else Factor(name, ceil(whole / parts), f"{whole} / {parts} GPUs")
