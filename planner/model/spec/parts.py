"""The smallest pieces a model is made of. Whatever has no structure of its own is listed as such parts."""

from dataclasses import dataclass
from typing import Literal

NormKind = Literal["rmsnorm", "layernorm", "batchnorm", "groupnorm"]
LinearKind = Literal["linear", "conv1d", "subclass"]
"""`linear`: a plain `torch.nn.Linear`, stored (outputs, inputs). `conv1d`: the transposed layer of GPT-2, stored
(inputs, outputs). `subclass`: a class of its own or a bare parameter, which 4-bit loaders leave alone."""
Shard = Literal["column", "row", "vocab", "replicated"]
"""What tensor parallelism divides: the outputs, the inputs, the rows of a vocabulary, or nothing."""


NormCode = Literal[
    "kernel",
    "kernel-in-fp32",
    "kernel-one-plus",
    "weight-after-cast",
    "weight-in-fp32",
    "one-plus-weight",
    "centred-in-fp32",
]
"""How the model's class computes a norm: one PyTorch kernel, in the layer's dtype, in fp32 (OLMo) or weighted by one
plus the weight and under autocast in 16 bits (Nemotron); or in Python, in fp32, and then weighted after the cast back
(Llama), before it (OLMo 2), before it by one plus the weight (Gemma), or centred first (Cohere)."""


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation over the last dimension; `bias` adds a second vector, `weight=False` has no parameters at all."""

    kind: NormKind = "rmsnorm"
    bias: bool = False
    weight: bool = True
    code: NormCode | None = None
    """None: the usual one of its kind."""

    @property
    def vectors(self) -> int:
        return int(self.weight) + int(self.bias)

    @property
    def computed(self) -> NormCode:
        """How its class computes it."""
        usual: NormCode = "weight-after-cast" if self.kind == "rmsnorm" else "kernel"
        return usual if self.code is None else self.code


RMS_NORM = Norm()
LAYER_NORM = Norm("layernorm", bias=True)
BATCH_NORM = Norm("batchnorm", bias=True)
GROUP_NORM = Norm("groupnorm", bias=True)


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix (outputs, inputs), with a bias of `outputs` elements if asked.

    `segments` are the (rows, units) of what is fused in the outputs: units, such as heads, cannot be divided by tensor
    parallelism. Empty: any row may be cut.
    """

    name: str
    inputs: int
    outputs: int
    bias: bool = False
    shard: Shard = "replicated"
    kind: LinearKind = "linear"
    segments: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution (outputs, inputs / groups, *kernel). `transposed` swaps the first two as torch stores it."""

    name: str
    inputs: int
    outputs: int
    kernel: tuple[int, ...]
    stride: int = 1
    groups: int = 1
    bias: bool = True
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """An embedding table (rows, size) beside the token table: positions, token types, relative distances."""

    name: str
    rows: int
    size: int
    frozen: bool = False
    """Never trained: sinusoids that stand in a table."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A loose parameter: a class token, a layer scale, a decay vector."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NormPart:
    """A norm that stands alone, over `size` elements."""

    name: str
    size: int
    norm: Norm = LAYER_NORM


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that a module keeps beside its parameters: it is no weight, but stands on the GPU like one."""

    name: str
    elements: int
    bytes_per_element: int | None = None
    """None: it has the dtype of the weights."""
    source: str = ""
    gone_since: tuple[int, ...] | None = None
    """The first version of transformers whose class no longer keeps it; None: it still does."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """`count` times the same parts, such as the levels of a pyramid."""

    count: int
    parts: tuple["Part", ...]


Part = Linear | Convolution | Table | Tensor | NormPart | Repeated
