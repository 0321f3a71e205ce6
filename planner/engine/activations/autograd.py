"""PyTorch's autograd engine on symbolic tensors: what is saved, when gradients exist, when both die.

Source: torch 2.13, `torch/csrc/autograd/engine.cpp` (`Engine::evaluate_function`, `validate_outputs`),
`input_buffer.cpp` (`InputBuffer::accumulate`) and `functions/accumulate_grad.h`.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from planner.engine.activations.tape import Accumulate, Dims, Edge, GraphNode, Rerun, Storage, Tape, Tensor

Gradients: TypeAlias = list[Tensor | None]
Backward: TypeAlias = Callable[[Tape, Gradients, Sequence[Tensor], Sequence[bool]], Gradients]
"""(tape, gradients of the outputs, saved tensors, which inputs need a gradient) -> gradients of the inputs."""


@dataclass(slots=True, eq=False)
class Node:
    """One differentiable operator of the forward pass."""

    name: str
    sequence: int
    edges: tuple[Edge, ...]
    backward: Backward
    saved: list[Tensor]
    modules: tuple[str, ...]
    source: str
    slot: str
    outputs: int = 1
    frame: Rerun | None = None
    """The checkpointed region whose recomputation brings back what this node needs."""
    frame_index: int = 0
    parked: bool = False
    """What it saved waits in host RAM."""
    arguments: object = None
    """What else its function was called with; that goes with the graph, not with what is saved."""


def keep(saved: Sequence[Tensor]) -> list[Tensor]:
    """Handles that hold the storages until backward has used them."""
    kept = [tensor.handle() for tensor in saved]
    for tensor in kept:
        tensor.storage.record.saved = True
    return kept


def park(saved: Sequence[Tensor]) -> list[Tensor]:
    """What is saved, moved to host RAM: shapes without memory on the GPU. Weights stay where they are."""
    kept = keep(saved)
    return [x if x.storage.tape is None else Tensor(Storage(None, x.storage.record), x.dims, x.dtype) for x in kept]


def bring_back(tape: Tape, parked: Sequence[Tensor]) -> list[Tensor]:
    """Copies on the GPU again of what was moved to host RAM."""
    found = []
    for x in parked:
        dims = x.storage.record.dims
        found.append(tape.new(dims, x.dtype, "brought back from host RAM") if dims and x.storage.record.label else x)
    tape.tick("brought back from host RAM")
    return found


def _spent(tape: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
    raise RuntimeError("a node of the graph runs backward once")


_UNKEPT = Node("not kept", 0, (), _spent, [], (), "", "")
"""Marks what needs a gradient while a checkpointed region is run again, beside the graph it belongs to."""


@dataclass(slots=True)
class _Buffers:
    """Gradients that wait for a node until all of them have come."""

    waiting: dict[GraphNode, Gradients] = field(default_factory=dict)

    def add(self, tape: Tape, edge: Edge, gradient: Tensor) -> None:
        assert edge.node is not None
        slots = self.waiting.setdefault(edge.node, [None] * edge.node.outputs)
        held = slots[edge.output_index]
        if held is None:
            slots[edge.output_index] = gradient
        elif held.is_only_owner():
            tape.tick("sum of gradients, in place")
        else:
            slots[edge.output_index] = tape.new(held.dims, held.dtype, "sum of gradients")
            tape.tick("sum of gradients")


def record(
    tape: Tape,
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    backward: Backward,
    saved: Sequence[Tensor] = (),
    *,
    always: bool = False,
) -> None:
    """Makes `outputs` differentiable in `inputs`, keeping `saved` until the node has run backward.

    `always`: the operator owns trainable weights, so it is differentiable whatever its inputs are.
    """
    if not (tape.grad_enabled and (always or any(source.requires_grad for source in inputs))):
        return
    if tape.frame is not None and tape.frame.is_recomputing:
        tape.frame.capture(saved)
        for output in outputs:
            output.node = _UNKEPT
        return
    edges = tuple(Edge(source.node, source.output_index, source.dims, source.dtype) for source in inputs)
    node = Node(
        name, tape.next_sequence(), edges, backward, [], tape.module_path(), tape.source, tape.slot, len(outputs)
    )
    if tape.frame is None:
        node.parked = tape.techniques.offloads_activations and bool(tape.slot) and bool(saved)
        node.saved = (park if node.parked else keep)(saved)
    elif saved:
        node.frame, node.frame_index = tape.frame, tape.frame.expect(tape, saved, outputs)
    for index, output in enumerate(outputs):
        output.node, output.output_index = node, index


def keeps_now(tape: Tape, *inputs: Tensor) -> bool:
    """Whether an operator on `inputs` keeps anything: not in a region that is going to be run again."""
    runs_again = tape.frame is not None and not tape.frame.is_recomputing
    return tape.grad_enabled and not runs_again and any(source.requires_grad for source in inputs)


def run_backward(tape: Tape, root: GraphNode | None, output_index: int, gradient: Tensor) -> None:
    """Runs the graph behind an output of `root`, latest node first, as the engine's one thread per device does."""
    assert root is not None
    waiting_for = _dependencies([root])
    buffers = _Buffers()
    buffers.waiting[root] = [None] * root.outputs
    buffers.waiting[root][output_index] = gradient
    del gradient
    ready: list[tuple[int, int, GraphNode]] = [(-root.sequence, 0, root)]
    del root
    _run(tape, buffers, waiting_for, ready)


def run_backward_of(tape: Tape, outputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    """The same from several outputs, whose gradients the caller goes on holding."""
    roots = list(dict.fromkeys(output.node for output in outputs if output.node is not None))
    waiting_for = _dependencies(roots)
    buffers = _Buffers()
    for output, gradient in zip(outputs, gradients, strict=True):
        assert output.node is not None
        buffers.add(tape, Edge(output.node, output.output_index, output.dims, output.dtype), gradient.handle())
    ready: list[tuple[int, int, GraphNode]] = []
    for order, root in enumerate(root for root in roots if not waiting_for.get(root)):
        heapq.heappush(ready, (-root.sequence, order - len(roots), root))
    del roots
    _run(tape, buffers, waiting_for, ready)


def _run(
    tape: Tape, buffers: _Buffers, waiting_for: dict[GraphNode, int], ready: list[tuple[int, int, GraphNode]]
) -> None:
    order = 0
    while ready:
        node = heapq.heappop(ready)[2]
        if isinstance(node, Accumulate):
            _accumulate(tape, node, buffers)
            continue
        assert isinstance(node, Node)
        with tape.within(node.modules, node.source, node.slot):
            gradients = _call(tape, node, buffers)
            node.saved.clear()
            node.backward, node.frame = _spent, None
            for edge in node.edges:
                result = gradients.pop(0)
                if edge.node is None:
                    continue
                if result is not None:
                    buffers.add(tape, edge, result)
                del result
                waiting_for[edge.node] -= 1
                if not waiting_for[edge.node]:
                    order += 1
                    heapq.heappush(ready, (-edge.node.sequence, order, edge.node))


def same_size(one: Dims, other: Dims) -> bool:
    """Whether two shapes hold the same dimensions, in whatever order; ones do not count."""
    return one == other or _canonical(one) == _canonical(other)


def _canonical(dims: Dims) -> list[str]:
    return sorted(str(dim) for dim in dims if dim != 1)


def _dependencies(roots: list[GraphNode]) -> dict[GraphNode, int]:
    counts: dict[GraphNode, int] = {}
    stack, seen = list(roots), set(roots)
    while stack:
        for edge in stack.pop().edges:
            if edge.node is not None:
                counts[edge.node] = counts.get(edge.node, 0) + 1
                if edge.node not in seen:
                    seen.add(edge.node)
                    stack.append(edge.node)
    return counts


def _call(tape: Tape, node: Node, buffers: _Buffers) -> Gradients:
    """Runs one node; what it returns is brought to each input's shape and dtype, as `validate_outputs` does."""
    incoming = buffers.waiting.pop(node, [None] * node.outputs)
    if all(gradient is None for gradient in incoming):
        return [None] * len(node.edges)
    needs = [edge.node is not None for edge in node.edges]
    if node.frame is not None:
        node.saved = node.frame.unpack(tape, node.frame_index)
    if node.parked:
        node.saved = bring_back(tape, node.saved)
    outgoing = node.backward(tape, incoming, node.saved, needs)
    if node.frame is not None or node.parked:
        # What hooks brought back belongs to the call alone; what was saved itself waits for `release_variables`.
        node.saved = []
    for index, edge in enumerate(node.edges):
        result = outgoing[index]
        if result is None or not needs[index]:
            continue
        if not same_size(result.dims, edge.dims):
            outgoing[index] = result = tape.new(edge.dims, result.dtype, f"gradient of {node.name}, summed")
            tape.tick(f"{node.name} backward, sum")
        if result.dtype != edge.dtype:
            outgoing[index] = tape.new(edge.dims, edge.dtype, f"gradient of {node.name}, cast")
            tape.tick(f"{node.name} backward, cast")
        del result
    return outgoing


def _accumulate(tape: Tape, leaf: Accumulate, buffers: _Buffers) -> None:
    """Takes over a gradient that nobody else holds; copies or adds otherwise."""
    gradient = buffers.waiting.pop(leaf)[0]
    if gradient is None:
        return
    if leaf.parameter.grad is not None:
        tape.tick("gradient added in place")
        return
    gradient.storage.record.kind = gradient.storage.record.kind or leaf.kind
    leaf.parameter.grad = gradient.handle(leaf.parameter.dims)
    if not leaf.kind:
        # A tensor knows the node that accumulates for it weakly, so that both die with the graph.
        leaf.parameter.node = None
    copies = tape.techniques.update_copies
    if copies is not None and leaf.kind:
        made = [tape.new(gradient.dims, gradient.dtype, "temporaries of the update") for _ in range(copies)]
        tape.tick("update of one weight")
        leaf.parameter.grad = None
        del made
