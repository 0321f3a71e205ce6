"""What decides which tensors exist, apart from their sizes: the structure of the model and the kind of step.

Everything here is hashable and holds no size, so one recording serves every workload of its kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.techniques import PLAIN, Techniques
from planner.engine.pipeline import Ends

Loss = Literal[
    "full_logits", "fused_cross_entropy", "chunked", "fused_linear", "cut_cross_entropy", "log_probabilities", "none"
]
Kernel = Literal["eager", "flash", "efficient", "math"]


@dataclass(frozen=True, slots=True)
class LoraRecipe:
    """Low-rank adapters beside frozen linear layers, as peft makes them."""

    targets: frozenset[str]
    dropout: bool
    dtype: str
    decomposed: bool = False
    """DoRA: a trained magnitude beside each adapter."""


class Body(Protocol):
    """The structure of a model: a frozen, hashable value without sizes that can lay out its weights on a tape."""

    def build(self, t: "Tape", recipe: "Recipe") -> "Model": ...


class Model(Protocol):
    """The weights of a recorded model, and its forward pass.

    Both runs return what the caller goes on holding. Everything else must have died when they return.
    """

    def inputs(self, t: "Tape") -> "dict[str, Tensor]":
        """The batch, which the trainer's loop holds all through the step."""
        ...

    def train(self, t: "Tape", inputs: "dict[str, Tensor]") -> "tuple[Tensor, object]":
        """Forward pass with its loss: the loss, and the outputs that are kept where the recipe keeps them."""
        ...

    def infer(self, t: "Tape", inputs: "dict[str, Tensor]") -> object:
        """Forward pass without gradients: the outputs."""
        ...

    def weights(self) -> "Iterable[tuple[str, str, Tensor]]":
        """(slot, name, weight) of every weight that may be trained."""
        ...


@dataclass(frozen=True, slots=True)
class Sharding:
    """Fully sharded data parallel with mixed precision: shards in one dtype, gathered ones in another."""

    shard_dtype: str
    compute_dtype: str
    reduce_dtype: str
    reshard_after_forward: bool
    flat_parameters: bool = False
    """FSDP1: a unit's weights are views of one flat parameter, which gathering fills in place."""
    offloads: bool = False
    """Shards wait in host RAM, and sharded gradients go there."""
    gathers_fp8: bool = False
    """The linear weights of layers are gathered as float8."""
    waits: bool = False
    """Gradients are scattered at the last micro-batch alone, and whole until then."""
    keeps_gradients: bool = False
    """FSDP1 with the original parameters: zeroing them leaves the flat gradients until the next forward pass."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recorded step."""

    body: Body
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
    passes_mask: bool
    """The batch holds an attention mask."""
    use_cache: bool
    cache_filled: bool
    """A decoding step: the cache already holds the context."""
    logits: Literal["all", "last"]
    training: bool
    single_sequence: bool = False
    """The batch is one sequence, whose shifted labels are in one piece without a copy."""
    sharding: Sharding | None = None
    techniques: Techniques = PLAIN
    ends: Ends = "both"
    """The ends of the model that a pipeline stage has."""
    scores: bool = False
    """A decoder ends in scores of its own instead of logits over tokens (`*ForSequenceClassification`)."""

    def for_kind(self, index: int) -> "Recipe":
        """The recipe of the `index`-th kind of layer: trained in full where only some layers are trained."""
        return replace(self, lora=None) if str(index) in self.techniques.trained_kinds else self

    def needs_input_gradient(self, has_one: bool) -> bool:
        """Whether the embedded input is made to require a gradient: reentrant checkpoints over frozen layers need one.

        transformers does so for both kinds of checkpoint (5.24 and 4.57 `modeling_utils.py:
        gradient_checkpointing_enable` calls `enable_input_require_grads`).
        """
        for_all = self.techniques.embedding_gradient and self.checkpointing != "none"
        frozen = self.lora is not None or self.techniques.frozen_table
        return frozen and (for_all or self.checkpointing == "reentrant") and not has_one
