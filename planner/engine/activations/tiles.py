"""A feed-forward that runs over pieces of the sequence, so that its wide inner tensors are never whole.

Source: DeepSpeed `runtime/sequence_parallel/ulysses_sp.py: TiledMLP` (as ArcticTraining uses it): forward without a
graph, piece by piece; backward runs each piece again with one.
"""

from collections.abc import Callable, Sequence

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record, run_backward
from planner.engine.activations.tape import Tape, Tensor

TILED = "DeepSpeed, runtime/sequence_parallel/ulysses_sp.py: TiledMLP"


def tiled(t: Tape, region: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`region` over tiles of as many tokens as the model is wide; only its input is kept."""
    piece = (x.dims[0], "tile", *x.dims[2:])
    with t.module("tiles", TILED):
        with t.no_grad():
            pieces = t.new(x.dims, x.dtype, "outputs of all tiles")
            region(x.handle(piece, view=True))
            out = t.new(x.dims, x.dtype, "output")
            t.tick("outputs joined")
            del pieces

        def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
            gradient = gradients[0]
            assert gradient is not None
            whole = t.new(saved[0].dims, saved[0].dtype, "gradient of input")
            autocast, t.autocast = t.autocast, t.autocast_of_forward
            # The second tile adds to the weights' gradients that the first one made.
            for _ in range(2):
                leaf = t.leaf(saved[0].handle(piece, view=True))
                with t.with_grad():
                    again = region(leaf)
                run_backward(t, again.node, again.output_index, gradient.handle(piece, view=True))
                del again
                leaf.node = None
                t.weight_copies.clear()
            t.autocast = autocast
            return [whole]

        record(t, "tiled feed-forward", [x], [out], backward, [x], always=True)
        return ops.view(t, out)
