"""When the layers that were not recorded hold their tensors.

Three layers of a kind are recorded, and the middle one stands for all between the first and the last. While a tensor
of the middle layer is alive, its unrecorded copies are, or are not yet, or are no longer: this module says which.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.engine.activations.tape import Record, Tape


@dataclass(frozen=True, slots=True)
class Segments:
    """Instants of one kind of layer: where the middle one runs, where its last runs before and its first after it."""

    forward: range
    last_forward_end: int
    last_backward_start: int
    backward: range
    first_backward_end: int

    @classmethod
    def of(cls, tape: Tape, kind: str, *, again: bool = False) -> "Segments":
        """`again`: for what is made when several layers are run again in backward; that run is its forward."""

        def span(name: str, moment: str) -> range:
            found = [
                i
                for i, x in enumerate(tape.instants)
                if x.slot == f"{kind}/{name}" and x.moment == moment and (moment == "forward" or not x.again)
            ]
            return range(found[0], found[-1] + 1) if found else range(tape.now, tape.now)

        def second_run(name: str) -> range:
            found = [i for i, x in enumerate(tape.instants) if x.slot == f"{kind}/{name}" and x.again]
            return range(found[0], found[-1] + 1)

        last_backward = span("last", "backward")
        return cls(
            second_run("middle") if again else span("middle", "forward"),
            (second_run("last") if again else span("last", "forward")).stop,
            last_backward.start,
            span("middle", "backward"),
            span("first", "backward").stop,
        )


def copies_alive(
    record: Record, segments: Segments, at: NDArray[np.int64], last_of_backward: NDArray[np.bool_], end: int
) -> NDArray[np.bool_]:
    """Whether each unrecorded copy of the middle layer holds its own counterpart of `record` at the instants `at`.

    In forward the recorded middle layer is taken as the last of its copies to run, when most is held. In backward
    both ends are looked at, since what is held is linear in between: `last_of_backward` says which.
    """
    death = end if record.death is None else record.death
    alive = (record.birth <= at) & (at < death)
    outlives_forward = record.birth < segments.last_forward_end < death
    stays = segments.first_backward_end < death
    before_last_copy = (at < segments.backward.stop) & ~last_of_backward
    if record.birth < segments.forward.start:
        dies_in_its_layer = not outlives_forward and death > segments.forward.start
        return at < segments.forward.start if dies_in_its_layer else alive
    if record.in_backward and not record.again:
        return ~before_last_copy & (alive | last_of_backward) & stays
    started = (at >= segments.forward.start) & outlives_forward
    if death <= segments.last_backward_start:
        return started & (at < death)
    return started & (before_last_copy | (alive & stays))
