"""Ways to train in less memory that decide which tensors exist, beside full checkpointing."""

from dataclasses import dataclass
from typing import Literal

Context = Literal["none", "ring", "ulysses"]
Selective = Literal["none", "core-attention", "op-sac", "every-2nd-layer", "every-nth-layer"]
Fp8 = Literal["none", "torchao", "torchao-compiled", "transformer-engine", "transformer-engine-cached"]
VirtualTokens = Literal["none", "prompt", "prefix"]
EncodedAhead = Literal["nothing", "text", "latents", "everything"]
Smoothing = Literal["none", "trainer", "loss"]


@dataclass(frozen=True, slots=True)
class Techniques:
    """What is asked for beside precision, attention and loss. The default is none of it."""

    selective: Selective = "none"
    """What selective checkpointing runs again in backward."""
    checkpoint_interval: int = 2
    """Of how many layers one is run again, where not all are."""
    checkpoints_first: bool = False
    """It is the first of them, not the last."""
    offloads_activations: bool = False
    """What the layers save waits in host RAM until their backward."""
    update_copies: int | None = None
    """Gradients leave as soon as they are there, after an update with so many temporaries of their size, or for host
    RAM. None: they stay."""
    tiled_mlp: bool = False
    """The feed-forward runs over pieces of the sequence, again in backward."""
    fp8: Fp8 = "none"
    """Whose float8 matrix products replace those of linear layers."""
    compiled_loss: bool = False
    context: Context = "none"
    """How a rank with a part of each sequence sees the rest."""
    loss_parallel: bool = False
    """The loss runs on logits divided along the vocabulary (torch's `loss_parallel`)."""
    keeps_logits: bool = False
    """A loss in chunks is given all logits."""
    frozen_table: bool = False
    """The token table is not trained, nor a head that shares it."""
    frozen_images: bool = False
    """The image tower and its projector are not trained."""
    embedding_gradient: bool = False
    """Checkpointing makes the embedded input require a gradient, whatever is frozen."""
    kept_kinds: frozenset[str] = frozenset()
    """Kinds of layer that keep everything where the others are checkpointed."""
    trained_kinds: frozenset[str] = frozenset()
    """Kinds of layer that are trained where everything else is frozen."""
    liger: bool = False
    """Liger's kernels in place of a layer's norms, rotary embedding and gated activation."""
    int8_base: bool = False
    """A quantized base is held in 8 bits (LLM.int8), not in 4."""
    kernel_norms: bool = False
    """RMS norms are one kernel that keeps its input and a number per row (torchtitan, torchtune)."""
    virtual_tokens: VirtualTokens = "none"
    """Trained tokens in front of each sequence, or of each layer's keys and values."""
    smoothing: Smoothing = "none"
    """Labels are smoothed by transformers' Trainer on the model's logits, or within the cross entropy."""
    encoded_ahead: EncodedAhead = "nothing"
    """What a denoiser reads from a cache instead of having it made by frozen encoders within the step."""


PLAIN = Techniques()
