"""One parameter tensor of a model, and how loose parts become tensors."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Literal

from planner.model.spec import Convolution, Linear, Norm, NormPart, Part, Repeated, Shard, Table, Tensor

WeightKind = Literal["linear", "conv1d", "router", "expert", "convolution", "embedding", "norm", "bias", "parameter"]


WeightBlock = Literal["mixer", "cross_attention", "feed_forward", "norm", "embedding", "head", "other"]


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor as the checkpoint stores it.

    `shape` of a linear layer is (outputs, inputs), of `conv1d` (inputs, outputs), of fused experts (experts, …).
    """

    role: str
    """The module's own name, such as `q_proj`."""
    shape: tuple[int, ...]
    kind: WeightKind
    shard: Shard = "replicated"
    segments: tuple[tuple[int, int], ...] = ()
    """(rows, indivisible units) of what is fused in the divided dimension; empty: every row may be cut."""
    transposed: bool = False
    """Inputs stand before outputs, though it is no `conv1d` (some experts)."""
    quantizable: bool = False
    """Whether transformers 5's 4-bit loader converts it (plain `nn.Linear` and `Conv1D`)."""
    block: WeightBlock = "other"
    experts: int = 1
    """Experts in this tensor (or expert tensors like this one in a layer); each token visits `experts_per_token`."""
    experts_per_token: int = 1
    stack: str = ""
    group: int | None = None
    """Index of the layer group in its stack; None outside the layers."""
    frozen: bool = False
    """Never trained, whatever the method."""
    fp32: bool = False
    """transformers keeps it in fp32 whatever the model's precision (`_keep_in_fp32_modules_strict`)."""

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def shard_axis(self) -> int | None:
        """The dimension that tensor parallelism divides."""
        if self.shard == "replicated":
            return None
        if self.shard == "vocab":
            return 0
        outputs, inputs = (1, 0) if self.kind == "conv1d" or self.transposed else (0, 1)
        axis = outputs if self.shard == "column" else inputs
        return axis + 1 if self.kind == "expert" else axis

    def shard_elements(self, tensor_parallel: int) -> int:
        """Elements on the fullest of `tensor_parallel` ranks; a unit such as a KV head is never cut, but repeated."""
        axis = self.shard_axis
        if axis is None or tensor_parallel == 1 or not self.elements:
            return self.elements
        size = self.shape[axis]
        segments = self.segments or ((size, size),)
        kept = sum(rows // units * ceil(units / tensor_parallel) for rows, units in segments)
        return self.elements // size * kept


def linear(part: Linear) -> Iterator[Weight]:
    """A linear layer's matrix and, if it has one, its bias, which is divided with the outputs."""
    shape = (part.inputs, part.outputs) if part.kind == "conv1d" else (part.outputs, part.inputs)
    yield Weight(
        part.name,
        shape,
        "conv1d" if part.kind == "conv1d" else "linear",
        part.shard,
        part.segments,
        quantizable=part.kind != "subclass",
    )
    if part.bias:
        column = part.shard == "column"
        yield Weight(
            part.name, (part.outputs,), "bias", "column" if column else "replicated", part.segments if column else ()
        )


def norm(name: str, size: int, kind: Norm | None) -> Iterator[Weight]:
    """The vectors of a norm over `size` elements."""
    for _ in range(0 if kind is None else kind.vectors):
        yield Weight(name, (size,), "norm", block="norm")


def convolution(part: Convolution) -> Iterator[Weight]:
    channels = (part.outputs, part.inputs // part.groups)
    if part.transposed:
        channels = (part.inputs, part.outputs // part.groups)
    yield Weight(part.name, (*channels, *part.kernel), "convolution")
    if part.bias:
        yield Weight(part.name, (part.outputs,), "bias")


def expand(part: Part) -> Iterator[Weight]:
    """The tensors of one loose part."""
    if isinstance(part, Linear):
        yield from linear(part)
    elif isinstance(part, Convolution):
        yield from convolution(part)
    elif isinstance(part, Table):
        yield Weight(part.name, (part.rows, part.size), "embedding", block="embedding", frozen=part.frozen)
    elif isinstance(part, Tensor):
        yield Weight(part.name, part.shape, "parameter")
    elif isinstance(part, NormPart):
        yield from norm(part.name, part.size, part.norm)
    elif isinstance(part, Repeated):
        inner = [weight for piece in part.parts for weight in expand(piece)]
        for _ in range(part.count):
            yield from inner


def placed(weight: Weight, block: WeightBlock, stack: str, group: int | None) -> Weight:
    """`weight` with its place in the model; norms and tables keep the block they know themselves."""
    own = weight.block if weight.block != "other" else block
    return replace(weight, block=own, stack=stack, group=group)
