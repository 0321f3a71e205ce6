"""The tape and the engine on graphs small enough to count by hand. Shapes are plain numbers, so bytes are too."""

from math import prod

from planner.engine.activations import ops
from planner.engine.activations.autograd import run_backward
from planner.engine.activations.blocks import cast_weight
from planner.engine.activations.checkpoint import checkpoint, checkpointed, checkpointed_stage, reentrant
from planner.engine.activations.tape import Tape, Tensor


def bytes_at(t: Tape, instant: int) -> int:
    """Bytes of everything alive at one instant."""
    return sum(
        prod(dim for dim in record.dims if isinstance(dim, int)) * record.itemsize
        for record in t.records
        if record.birth <= instant and (record.death is None or record.death > instant)
    )


def peak(t: Tape) -> int:
    return max(bytes_at(t, instant) for instant in range(t.now))


def leaf(t: Tape, *dims: int) -> Tensor:
    return t.leaf(t.new(dims, "fp32", "input"))


def test_a_tensor_dies_with_the_last_name_that_refers_to_it() -> None:
    t = Tape()
    first = t.new((10,), "fp32", "first")
    t.tick("made")
    second = ops.elementwise(t, first, "doubled")
    del first
    t.tick("later")
    assert [bytes_at(t, instant) for instant in range(3)] == [40, 80, 40]
    assert second.dims == (10,)


def test_a_view_keeps_its_storage_alive_and_adds_nothing() -> None:
    t = Tape()
    whole = t.new((4, 5), "bf16", "whole")
    part = ops.view(t, whole, 20)
    del whole
    t.tick("later")
    assert bytes_at(t, 0) == 40
    del part
    t.tick("last")
    assert bytes_at(t, 1) == 0


def test_a_product_keeps_both_factors_until_its_backward_has_run() -> None:
    t = Tape()
    a, b = leaf(t, 100), leaf(t, 100)
    product = ops.mul(t, a, b)
    node, index = product.node, product.output_index
    gradient = t.new((100,), "fp32", "gradient")
    del product
    run_backward(t, node, index, gradient)
    del node, gradient
    t.tick("end")
    # a, b and their two gradients of 400 bytes; the product and its own gradient are gone.
    assert bytes_at(t, t.now - 1) == 4 * 400
    assert a.grad is not None
    assert b.grad is not None


def test_gradients_of_one_tensor_used_twice_are_summed_in_place_when_the_first_is_nobody_elses() -> None:
    t = Tape()
    a = leaf(t, 100)
    once, again = ops.elementwise(t, a, "once"), ops.elementwise(t, a, "again")
    total = ops.add(t, once, again)
    del once, again
    node, index = total.node, total.output_index
    gradient = t.new((100,), "fp32", "gradient")
    del total
    before = t.now
    run_backward(t, node, index, gradient)
    assert t.instants[-1].label == "sum of gradients, in place"
    # Two gradients at once beside the incoming one and the input, never three.
    assert max(bytes_at(t, instant) for instant in range(before, t.now)) == 4 * 400


def test_a_gradient_that_came_through_a_view_is_not_added_to_in_place() -> None:
    t = Tape()
    a = leaf(t, 10, 10)
    once = ops.elementwise(t, a, "once")
    # The view is made last, so its gradient comes first and waits.
    again = ops.elementwise(t, ops.view(t, a, 10, 10), "again")
    total = ops.add(t, once, again, "total")
    del once, again
    node, index = total.node, total.output_index
    gradient = t.new((10, 10), "fp32", "gradient")
    del total
    run_backward(t, node, index, gradient)
    assert t.instants[-1].label == "sum of gradients"


def test_a_linear_layer_keeps_its_input_only_if_its_weight_is_trained() -> None:
    for trained, kept in ((True, 100 * 4), (False, 0)):
        t = Tape()
        weight = t.parameter((10, 10), "fp32", trainable=trained)
        x = leaf(t, 10, 10)
        hidden = ops.elementwise(t, x, "hidden")
        out = ops.matmul(t, hidden, weight, (10, 10), "output")
        del hidden
        t.tick("end of forward")
        assert bytes_at(t, t.now - 1) == 400 + 400 + kept
        assert out.requires_grad


def chain(t: Tape, x: Tensor) -> Tensor:
    """Four squarings, each of which keeps its input."""
    for _ in range(4):
        x = ops.square(t, x)
    return x


def test_checkpointing_keeps_the_input_of_a_region_alone_and_gives_the_same_gradient() -> None:
    held = {}
    for name, run in (("none", chain), ("checkpoint", checkpoint), ("reentrant", reentrant)):
        t = Tape()
        x = leaf(t, 100)
        out = run(t, x) if run is chain else run(t, lambda value, t=t: chain(t, value), x)
        t.tick("end of forward")
        held[name] = bytes_at(t, t.now - 1)
        node, index = out.node, out.output_index
        del out
        gradient = t.new((100,), "fp32", "gradient")
        run_backward(t, node, index, gradient)
        assert x.grad is not None
        assert x.grad.dims == (100,)
    # Input and output; without checkpointing three more inputs of the squarings in between.
    assert held == {"none": 5 * 400, "checkpoint": 2 * 400, "reentrant": 2 * 400}


def test_recomputation_without_reentrance_stops_before_the_output_is_made_again() -> None:
    peaks = []
    for run in (checkpoint, reentrant):
        t = Tape()
        x = leaf(t, 100)
        out = run(t, lambda value, t=t: chain(t, value), x)
        node, index = out.node, out.output_index
        del out
        gradient = t.new((100,), "fp32", "gradient")
        run_backward(t, node, index, gradient)
        peaks.append(peak(t))
    assert peaks[1] - peaks[0] == 400


def test_autocast_casts_a_trained_weight_once_and_keeps_the_copy() -> None:
    t = Tape(autocast="bf16", autocast_of_forward="bf16")
    weight = t.parameter((10, 10), "fp32", trainable=True)
    assert cast_weight(t, weight) is cast_weight(t, weight)
    t.tick("end")
    assert bytes_at(t, t.now - 1) == 200


def test_a_checkpointed_stage_keeps_nothing_of_its_layers_until_it_is_run_again() -> None:
    held, peaks = {}, {}
    for how in ("none", "non-reentrant", "reentrant"):
        t = Tape()
        x = leaf(t, 100)

        def stage(x: Tensor, t: Tape = t, how: str = how) -> Tensor:
            for _ in range(3):
                x = checkpointed(t, how, lambda value, t=t: chain(t, value), x)
            return x

        out = checkpointed_stage(t, how, stage, x)
        t.tick("end of forward")
        held[how] = bytes_at(t, t.now - 1)
        node, index = out.node, out.output_index
        del out
        gradient = t.new((100,), "fp32", "gradient")
        run_backward(t, node, index, gradient)
        assert x.grad is not None
        peaks[how] = peak(t)
        assert bytes_at(t, t.now) == 3 * 400  # input, its gradient and that of the output
    # Input and output of the stage; without checkpointing the inputs of eleven more squarings.
    assert held == {"none": 13 * 400, "non-reentrant": 2 * 400, "reentrant": 2 * 400}
    assert peaks["non-reentrant"] < peaks["reentrant"] < peaks["none"]


def test_reentrant_checkpointing_makes_zeros_for_an_output_that_nothing_reads() -> None:
    t = Tape()
    x = leaf(t, 100)

    def pair(value: Tensor) -> tuple[Tensor, Tensor | None]:
        first = ops.square(t, value)
        return ops.square(t, first), ops.contiguous(t, first)

    out, _unread = reentrant(t, pair, x)
    run_backward(t, out.node, out.output_index, t.new((100,), "fp32", "gradient"))
    assert x.grad is not None
    assert [record.label for record in t.records].count("zeros for an unused output") == 1
