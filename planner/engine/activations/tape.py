"""Symbolic tensors and the tape that records when each of them is alive.

A symbolic tensor has a shape of named dimensions and a dtype, and no data. Its storage lives exactly as long as
something refers to it, as in PyTorch: a Python name of the forward pass, a node of the graph that saved it, a
gradient buffer. CPython counts those references for us. After every operator the tape takes one *instant*: the
operator's outputs exist and its inputs have not died yet, which is when an allocator's high-water mark is read.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from planner.engine.activations.techniques import PLAIN, Techniques

Dim = str | int
"""A named dimension such as `hidden`, or a plain number."""
Dims = tuple[Dim, ...]

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "bool": 1, "int64": 8, "int32": 4}


@dataclass(slots=True)
class Record:
    """The life of one storage: alive at the instants `birth <= t < death`."""

    label: str
    dims: Dims
    itemsize: int
    slot: str
    """Which layer made it, such as `decoder/middle`; empty outside the repeated layers."""
    in_backward: bool
    source: str
    birth: int
    death: int | None = None
    saved: bool = False
    kind: str = ""
    """`gradient`, `kv cache` or `weight copy` where it is one of these."""
    again: bool = False
    """Made while several layers are run again, before the backward of the first of them."""


@dataclass(slots=True, frozen=True)
class Instant:
    """One operator's high-water mark."""

    label: str
    slot: str
    moment: str
    again: bool = False
    """Several layers are being run again."""


class Storage:
    """A block of memory; it reports its own death to the record."""

    __slots__ = ("record", "tape")

    def __init__(self, tape: "Tape | None", record: Record) -> None:
        self.tape = tape
        self.record = record

    def __del__(self) -> None:
        if self.tape is not None:
            self.record.death = self.tape.now


@dataclass(slots=True, eq=False)
class Tensor:
    """A handle on a storage. Views share one; `node` is what computes the gradient."""

    storage: Storage
    dims: Dims
    dtype: str
    node: "GraphNode | None" = None
    output_index: int = 0
    is_view: bool = False
    grad: "Tensor | None" = None

    @property
    def requires_grad(self) -> bool:
        return self.node is not None

    def handle(self, dims: Dims | None = None, *, view: bool = False) -> "Tensor":
        """Another tensor on the same storage, outside the graph."""
        return Tensor(self.storage, self.dims if dims is None else dims, self.dtype, None, 0, view or self.is_view)

    def is_only_owner(self) -> bool:
        """Whether no other tensor refers to the storage (one reference is ours, one is the call's)."""
        return not self.is_view and sys.getrefcount(self.storage) <= 2


class GraphNode(Protocol):
    """What computes or collects a gradient."""

    @property
    def sequence(self) -> int: ...

    @property
    def edges(self) -> "tuple[Edge, ...]": ...

    @property
    def outputs(self) -> int: ...


class Edge(NamedTuple):
    """Where the gradient of one input goes, and the shape and dtype it must have there."""

    node: GraphNode | None
    output_index: int
    dims: Dims
    dtype: str


FIRST = 1 << 62
"""Accumulation into a parameter runs as soon as it is ready, before any other node."""


@dataclass(slots=True, eq=False)
class Accumulate:
    """The leaf of the graph that adds to `parameter.grad`."""

    parameter: Tensor
    kind: str = "gradient"
    sequence: int = FIRST
    edges: tuple[Edge, ...] = ()
    outputs: int = 1


class Rerun(Protocol):
    """A region of the forward pass that is run again in backward instead of keeping what it saves."""

    is_recomputing: bool
    spans_layers: bool
    """It holds regions of one layer each."""

    def expect_inputs(self, tape: "Tape", inputs: Sequence[Tensor]) -> int: ...

    def capture(self, saved: Sequence[Tensor]) -> None: ...

    def expect(self, tape: "Tape", saved: Sequence[Tensor], outputs: Sequence[Tensor]) -> int: ...

    def unpack(self, tape: "Tape", index: int) -> list[Tensor]: ...

    def once(self, tape: "Tape", operator: str, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]: ...


class LayerHooks(Protocol):
    """What happens around the run of one layer."""

    def enter(self, t: "Tape", x: Tensor) -> Tensor: ...

    def leave(self, t: "Tape", out: Tensor) -> Tensor: ...


@dataclass(slots=True)
class Tape:
    """The recording of one step."""

    records: list[Record] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    grad_enabled: bool = True
    slot: str = ""
    moment: str = "forward"
    source: str = "the training or evaluation loop: its batch, its loss"
    in_backward: bool = False
    autocast: str | None = None
    """The 16-bit dtype of an autocast region, or None outside one."""
    autocast_of_forward: str | None = None
    """What the forward pass ran under; recomputation runs under it again."""
    weight_copies: dict[int, Tensor] = field(default_factory=dict)
    """Autocast's cache of cast weights; it holds them until the region ends."""
    frame: Rerun | None = None
    """The checkpointed region that is being run, or run again."""
    again: bool = False
    """Several layers are being run again, before the backward of the first of them."""
    ticks_left: int | None = None
    """Operators that recomputation still runs; what follows the last of them is not made."""
    techniques: Techniques = PLAIN
    layer_hooks: Mapping[str, LayerHooks] | None = None
    """By slot: what gathers and scatters the weights of a layer around its run."""
    images: "Callable[[Tape, Tensor], Tensor] | None" = None
    """What puts the features of images in the place of their tokens, once these are embedded."""
    own_positions: bool = False
    """Every sequence of the batch has positions of its own, such as those of images in height and width."""
    own_parameters: dict[str, Tensor] = field(default_factory=dict)
    held: list[Tensor] = field(default_factory=list)
    """What the callers of the model hold until its forward pass, with the loss, has returned."""
    _modules: list[str] = field(default_factory=list)
    _sequence: int = 0

    @property
    def now(self) -> int:
        return len(self.instants)

    def new(self, dims: Dims, dtype: str, label: str, kind: str = "") -> Tensor:
        """A freshly allocated tensor."""
        if self.is_past_recomputation():
            return Tensor(Storage(None, Record(label, dims, BYTES[dtype], "", True, "", self.now)), dims, dtype)
        record = Record(
            self._name(label), dims, BYTES[dtype], self.slot, self.in_backward, self.source, self.now,
            kind=kind, again=self.again,
        )  # fmt: skip
        self.records.append(record)
        return Tensor(Storage(self, record), dims, dtype)

    def parameter(self, dims: Dims, dtype: str, *, trainable: bool) -> Tensor:
        """A weight. Its own memory is counted outside the tape; its gradient is made on it."""
        weight = Tensor(Storage(None, Record("", dims, BYTES[dtype], "", False, "", 0)), dims, dtype)
        if trainable:
            weight.node = Accumulate(weight)
        return weight

    def trained(self, name: str, dims: Dims, dtype: str) -> Tensor:
        """A trained tensor that belongs to no module of the model; the same one whenever a layer asks again."""
        key = f"{self.slot} {name}"
        if key not in self.own_parameters:
            self.own_parameters[key] = self.parameter(dims, dtype, trainable=True)
        return self.own_parameters[key]

    def leaf(self, x: Tensor) -> Tensor:
        """A detached tensor on the same storage that collects a gradient of its own."""
        leaf = x.handle()
        leaf.node = Accumulate(leaf, kind="")
        return leaf

    def tick(self, label: str) -> None:
        """The operator `label` has made its outputs."""
        if self.is_past_recomputation():
            return
        self.instants.append(Instant(self._name(label), self.slot, self.moment, self.again))
        if self.ticks_left is not None:
            self.ticks_left -= 1

    def is_past_recomputation(self) -> bool:
        return self.ticks_left is not None and self.ticks_left <= 0

    def next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def with_images(self, embedded: Tensor) -> Tensor:
        """The embedded sequence, with the features of its images where the model sees any."""
        return embedded if self.images is None else self.images(self, embedded)

    @contextmanager
    def module(self, name: str, source: str | None = None) -> Iterator[None]:
        """Operators inside belong to the module `name`, whose code is at `source`."""
        outer = self.source
        self._modules.append(name)
        self.source = source or outer
        try:
            yield
        finally:
            self._modules.pop()
            self.source = outer

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        outer, self.grad_enabled = self.grad_enabled, False
        try:
            yield
        finally:
            self.grad_enabled = outer

    @contextmanager
    def with_grad(self) -> Iterator[None]:
        outer, self.grad_enabled = self.grad_enabled, True
        try:
            yield
        finally:
            self.grad_enabled = outer

    @contextmanager
    def layer(self, slot: str) -> Iterator[None]:
        outer, self.slot = self.slot, slot
        try:
            yield
        finally:
            self.slot = outer

    def module_path(self) -> tuple[str, ...]:
        return tuple(self._modules)

    @contextmanager
    def within(self, modules: Sequence[str], source: str, slot: str) -> Iterator[None]:
        """The place where a node of the graph was made, for what its backward allocates."""
        outer = (self._modules, self.source, self.slot)
        self._modules, self.source, self.slot = list(modules), source, slot
        try:
            yield
        finally:
            self._modules, self.source, self.slot = outer

    def _name(self, label: str) -> str:
        return f"{'.'.join(self._modules)}: {label}" if self._modules else label
