"""Activation checkpointing: only the input of a region is kept, and the region is run again in backward.

Source: torch 2.13, `torch/utils/checkpoint.py`: `checkpoint` with and without reentrance.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from planner.engine.activations.autograd import Gradients, Node, bring_back, keep, park, record, run_backward_of
from planner.engine.activations.tape import LayerHooks, Tape, Tensor

Outputs: TypeAlias = Tensor | tuple[Tensor | None, ...]
Out = TypeVar("Out", Tensor, tuple[Tensor, Tensor | None], tuple[Tensor, Tensor, Tensor | None])
LayerOut = TypeVar("LayerOut", Tensor, tuple[Tensor, Tensor | None])
Region = Callable[..., Outputs]


class Frame:
    """A region without reentrance: its graph is made in forward, what the graph saves is made again in backward.

    The first node that needs a saved tensor runs the region once more. That run ends early, just before the last
    operator whose inputs are saved, or just after it where its output is.

    A region of several layers, `spans_layers`, holds regions of one layer: their inputs are what it keeps of them when
    it is run again.
    """

    def __init__(self, tape: Tape, region: Region, inputs: Sequence[Tensor], *, spans_layers: bool = False) -> None:
        # What the layer was called with, such as an attention mask, lives as long as the frame.
        self._region = region
        self.spans_layers = spans_layers
        self._has_run_again = False
        self._outer = tape.frame
        self._parked = tape.techniques.offloads_activations and self._outer is None
        self._inputs = (park if self._parked else keep)(inputs) if self._outer is None else []
        self._place_outside = 0 if self._outer is None else self._outer.expect_inputs(tape, inputs)
        self._need_gradient = [x.requires_grad for x in inputs]
        self._place = (tape.module_path(), tape.source, tape.slot)
        self._start = tape.now
        self._expected = 0
        self._last_tick = 0
        self._captured: list[list[Tensor]] = []
        self._chooses = tape.techniques.selective == "op-sac"
        self._products = 0
        self._made: list[tuple[Tensor, ...]] = []
        self.is_recomputing = False

    def expect(self, tape: Tape, saved: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
        """Notes in forward that a node will need `saved`; returns its place."""
        # A norm keeps statistics, dropout its mask: they are made by the last operator too.
        saves_output = any(tensor is output for tensor in saved for output in outputs) or any(
            tensor.storage.tape is not None and tensor.storage.record.birth == tape.now - 1 for tensor in saved
        )
        self._last_tick = tape.now - self._start - (0 if saves_output else 1)
        self._expected += 1
        return self._expected - 1

    def expect_inputs(self, tape: Tape, inputs: Sequence[Tensor]) -> int:
        """Notes that a region inside this one is about to start: its inputs are saved as an operator's are."""
        if self.is_recomputing:
            self.capture(inputs)
            return 0
        self._last_tick = tape.now - self._start
        self._expected += 1
        return self._expected - 1

    def capture(self, saved: Sequence[Tensor]) -> None:
        """Keeps in the second run what the first one would have kept."""
        if saved and len(self._captured) < self._expected:
            self._captured.append(keep(saved))

    def once(self, tape: Tape, operator: str, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """What an operator makes: kept between both runs where the policy says so.

        Source: torchtitan `distributed/activation_checkpoint.py`: attention and every second matrix product `mm` are
        saved (the first, the third, ...), everything else is run again, batched products (`bmm`) too.
        """
        if not (self._chooses and tape.grad_enabled) or operator == "bmm":
            return make()
        if operator == "mm":
            self._products += 1
            if self._products % 2 == 0:
                return make()
        if not self.is_recomputing:
            made = make()
            self._made.append(tuple(keep(made)))
            return made
        made = self._made.pop(0)
        tape.tick("kept output")
        return tuple(each.handle() for each in made)

    def unpack(self, tape: Tape, index: int) -> list[Tensor]:
        """What a node saved, for its own use alone."""
        if not self._has_run_again:
            self._recompute(tape, self._region)
        kept, self._captured[index] = self._captured[index], []
        return kept

    def _recompute(self, tape: Tape, region: Region) -> None:
        self._has_run_again = True
        kept = self._inputs if self._outer is None else self._outer.unpack(tape, self._place_outside)
        with tape.within(*self._place):
            inputs = bring_back(tape, kept) if self._parked else [x.handle() for x in kept]
        self._inputs = inputs if self._parked else self._inputs
        leaves = [tape.leaf(x) if needs else x.handle() for x, needs in zip(inputs, self._need_gradient, strict=True)]
        del inputs
        autocast, tape.autocast = tape.autocast, tape.autocast_of_forward
        tape.frame, tape.ticks_left, self.is_recomputing, self._products = self, self._last_tick, True, 0
        with tape.within(*self._place), tape.with_grad(), _again(tape, self.spans_layers):
            region(*leaves)
        tape.frame, tape.ticks_left, self.is_recomputing = None, None, False
        for x in leaves:
            x.node = None
        tape.autocast = autocast
        tape.weight_copies.clear()


@contextmanager
def _again(t: Tape, spans_layers: bool) -> Iterator[None]:
    """What is made and held belongs to a second run of several layers, where it is one."""
    outer, t.again = t.again, t.again or spans_layers
    try:
        yield
    finally:
        t.again = outer


def checkpoint(t: Tape, region: Callable[..., Out], *inputs: Tensor, spans_layers: bool = False) -> Out:
    """`checkpoint(use_reentrant=False)`."""
    outer = t.frame
    if not t.grad_enabled or not (outer is None or outer.spans_layers):
        return region(*inputs)
    t.frame = Frame(t, region, inputs, spans_layers=spans_layers)
    out = region(*inputs)
    t.frame = outer
    return out


def reentrant(t: Tape, region: Callable[[Tensor], Out], x: Tensor, *, spans_layers: bool = False) -> Out:
    """`checkpoint(use_reentrant=True)`: forward without a graph; backward runs the region again to make one.

    The graph takes outputs that nothing reads for used ones, so that zeros stand for their gradients (torch 2.13,
    `python_function.cpp: PyNode::apply`, materialized gradients).
    """
    with t.no_grad():
        out = region(x)
    shapes = [(each.dims, each.dtype) for each in _tensors(out)]

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        given: list[Tensor] = []
        for gradient, (dims, dtype) in zip(gradients, shapes, strict=True):
            if gradient is None:
                gradient = t.new(dims, dtype, "zeros for an unused output")
                t.tick("zeros for an unused output")
            given.append(gradient)
        leaf = t.leaf(saved[0])
        autocast, t.autocast = t.autocast, t.autocast_of_forward
        with t.with_grad(), _again(t, spans_layers):
            again = region(leaf)
        t.autocast = autocast
        t.weight_copies.clear()
        pairs = [pair for pair in zip(_tensors(again), given, strict=True) if pair[0].requires_grad]
        run_backward_of(t, [output for output, _ in pairs], [gradient for _, gradient in pairs])
        leaf.node = None
        return [leaf.grad]

    record(t, "checkpoint", [x], _tensors(out), backward, [x])
    node = _tensors(out)[0].node
    if isinstance(node, Node) and node.backward is backward:
        # `ctx.run_function` is a partial of the layer that holds its other arguments, such as its mask.
        node.arguments = region
    return out


def _tensors(out: Outputs) -> list[Tensor]:
    return [out] if isinstance(out, Tensor) else [each for each in out if each is not None]


def checkpointed_stage(t: Tape, how: str, region: Callable[[Tensor], Out], x: Tensor) -> Out:
    """A stage of layers, checkpointed as a whole around the checkpoints of its layers."""
    if how == "none":
        return region(x)
    run = reentrant if how == "reentrant" else checkpoint
    return run(t, region, x, spans_layers=True)


def checkpointed(t: Tape, how: str, region: Callable[[Tensor], LayerOut], x: Tensor) -> LayerOut:
    """One layer, run plainly (`none`) or checkpointed with or without reentrance, between its sharding hooks."""
    # layers that share their weights (ALBERT) are no units of their own: these belong to the root
    unit = None if t.layer_hooks is None else t.layer_hooks.get(t.slot)
    if unit is None:
        return _run(t, how, region, x)
    return _left(t, unit, _run(t, how, region, unit.enter(t, x)))


def _left(t: Tape, unit: LayerHooks, out: LayerOut) -> LayerOut:
    """What a layer makes, the first of which goes on to the next one."""
    if isinstance(out, Tensor):
        return unit.leave(t, out)
    first, weights = out
    return unit.leave(t, first), weights


def _run(t: Tape, how: str, region: Callable[[Tensor], LayerOut], x: Tensor) -> LayerOut:
    if t.techniques.selective in ("op-sac", "every-2nd-layer", "every-nth-layer"):
        how = "non-reentrant"
    if how == "none" or t.slot.partition("/")[0] in t.techniques.kept_kinds:
        return region(x)
    return reentrant(t, region, x) if how == "reentrant" else checkpoint(t, region, x)
