"""Activation checkpointing: only the input of a region is kept, and the region is run again in backward.

Source: torch 2.13, `torch/utils/checkpoint.py`: `checkpoint` with and without reentrance.
"""

from collections.abc import Callable, Sequence

from planner.engine.activations.autograd import Gradients, bring_back, keep, park, record, run_backward
from planner.engine.activations.tape import Tape, Tensor

Region = Callable[..., Tensor]


class Frame:
    """A region without reentrance: its graph is made in forward, what the graph saves is made again in backward.

    The first node that needs a saved tensor runs the region once more. That run ends early, just before the last
    operator whose inputs are saved, or just after it where its output is.
    """

    def __init__(self, tape: Tape, region: Region, inputs: Sequence[Tensor]) -> None:
        # What the layer was called with, such as an attention mask, lives as long as the frame.
        self._region = region
        self._has_run_again = False
        self._parked = tape.techniques.offloads_activations
        self._inputs = (park if self._parked else keep)(inputs)
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
        saves_output = any(tensor is output for tensor in saved for output in outputs)
        self._last_tick = tape.now - self._start - (0 if saves_output else 1)
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
        with tape.within(*self._place):
            inputs = bring_back(tape, self._inputs) if self._parked else [x.handle() for x in self._inputs]
        self._inputs = inputs if self._parked else self._inputs
        leaves = [tape.leaf(x) if needs else x.handle() for x, needs in zip(inputs, self._need_gradient, strict=True)]
        del inputs
        autocast, tape.autocast = tape.autocast, tape.autocast_of_forward
        tape.frame, tape.ticks_left, self.is_recomputing, self._products = self, self._last_tick, True, 0
        with tape.within(*self._place), tape.with_grad():
            region(*leaves)
        tape.frame, tape.ticks_left, self.is_recomputing = None, None, False
        for x in leaves:
            x.node = None
        tape.autocast = autocast
        tape.weight_copies.clear()


def checkpoint(t: Tape, region: Region, *inputs: Tensor) -> Tensor:
    """`checkpoint(use_reentrant=False)`."""
    if not t.grad_enabled or t.frame is not None:
        return region(*inputs)
    t.frame = Frame(t, region, inputs)
    out = region(*inputs)
    t.frame = None
    return out


def reentrant(t: Tape, region: Region, x: Tensor) -> Tensor:
    """`checkpoint(use_reentrant=True)`: forward without a graph; backward runs the region again to make one."""
    with t.no_grad():
        out = region(x)

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        leaf = t.leaf(saved[0])
        autocast, t.autocast = t.autocast, t.autocast_of_forward
        with t.with_grad():
            again = region(leaf)
        t.autocast = autocast
        t.weight_copies.clear()
        gradient = gradients[0]
        assert gradient is not None
        run_backward(t, again.node, again.output_index, gradient)
        leaf.node = None
        return [leaf.grad]

    record(t, "checkpoint", [x], [out], backward, [x])
    return out


def checkpointed(t: Tape, how: str, region: Region, x: Tensor) -> Tensor:
    """One layer, run plainly (`none`) or checkpointed with or without reentrance, between its sharding hooks."""
    if t.layer_hooks is None:
        return _run(t, how, region, x)
    unit = t.layer_hooks[t.slot]
    return unit.leave(t, _run(t, how, region, unit.enter(t, x)))


def _run(t: Tape, how: str, region: Region, x: Tensor) -> Tensor:
    if t.techniques.selective in ("op-sac", "every-2nd-layer", "every-nth-layer"):
        how = "non-reentrant"
    if how == "none" or t.slot.partition("/")[0] in t.techniques.kept_kinds:
        return region(x)
    return reentrant(t, region, x) if how == "reentrant" else checkpoint(t, region, x)
