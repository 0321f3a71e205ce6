"""A recording of a whole model cut down to a pipeline stage without embeddings, without head, or without either.

What the stage receives has the size of what the missing end would have given it, so that stays: the first layer's
input in forward, the gradient of the last layer's output in backward. A stage's output is sent on and its memory given
back (Megatron-LM `schedules.py`: `deallocate_output_tensor`).
"""

from planner.engine.activations.tape import Record, Tape
from planner.engine.pipeline import Ends

FRONT = ("emb", "wte", "wpe", "position", "token")
"""What names of weights in front of the layers begin with; whatever else is outside the layers stands behind them."""


def cut(tape: Tape, ends: Ends) -> Tape:
    """Drops instants and tensors of the ends that the stage does not have."""
    places = [index for index, instant in enumerate(tape.instants) if instant.slot]
    if ends == "both" or not places:
        return tape
    forward = [index for index in places if tape.instants[index].moment == "forward"]
    backward = [index for index in places if tape.instants[index].moment == "backward"]
    enter, leave = forward[0], forward[-1]
    back, done = backward[0], backward[-1]
    kept: list[Record] = []
    for record in tape.records:
        if record.slot:
            if ends in ("first", "none"):
                _send(record, leave, back)
            kept.append(record)
        elif _stays(tape, record, ends, (enter, leave, back, done)):
            kept.append(record)
    entering = _entering(kept, enter)
    if ends in ("last", "none"):
        kept = [record for record in kept if record is entering or not _is_wide(record, enter)]
    if ends in ("first", "none") and entering is not None:
        # The head keeps the last layer's output; without one, the layers keep the first one's input instead.
        entering.slot = tape.instants[enter].slot
    tape.records = kept
    dropped = _dropped_instants(tape, ends, (enter, leave, back, done))
    _renumber(tape, dropped)
    return tape


def _stays(tape: Tape, record: Record, ends: Ends, spans: tuple[int, int, int, int]) -> bool:
    enter, leave, back, done = spans
    has_front, has_head = ends == "first", ends == "last"
    if record.birth <= enter:
        if record.kind != "gradient":
            return True
        in_front = record.label.startswith(FRONT)
        return has_front or (has_head and _is_shared(tape, record)) if in_front else has_head
    if leave < record.birth <= back and not has_head:
        if record.kind == "gradient":
            return has_front and _waits_for_embedding(tape, record, done)
        return record.in_backward and (record.death or tape.now) > back and "vocabulary" not in record.dims
    return record.birth <= done or has_front


def _waits_for_embedding(tape: Tape, record: Record, done: int) -> bool:
    """A tied table's gradient, which the head would have begun: without a head the embedding makes it."""
    own = any(each.kind == "gradient" and each.birth > done and each.dims == record.dims for each in tape.records)
    if "table rows" not in record.dims or own:
        return False
    record.birth = done + 1
    return True


def _is_shared(tape: Tape, record: Record) -> bool:
    """Whether a gradient made for the token table is a tied head's too: no head has a weight of its own."""
    heads = [each for each in tape.records if each.kind == "gradient" and "lm_head" in each.label and not each.slot]
    apart = (record.dims, ("vocabulary", *record.dims[1:]))
    return "table rows" in record.dims and not any(each.dims in apart for each in heads)


def _send(record: Record, leave: int, back: int) -> None:
    """Only the head held it: the output of the last layer, which is sent on."""
    if record.birth <= leave < (record.death or leave) <= back:
        record.death = leave + 1


def _is_wide(record: Record, enter: int) -> bool:
    """Made before the first layer, as wide as the model: neither a gradient nor the batch itself."""
    return not record.slot and record.birth <= enter and not record.kind and "hidden" in record.dims


def _entering(records: list[Record], enter: int) -> Record | None:
    """What the first layer takes."""
    wide = [record for record in records if _is_wide(record, enter) and record.itemsize > 1]
    return max(wide, key=lambda record: record.birth, default=None)


def _dropped_instants(tape: Tape, ends: Ends, spans: tuple[int, int, int, int]) -> set[int]:
    enter, leave, back, done = spans
    dropped: set[int] = set()
    if ends in ("last", "none"):
        dropped |= {i for i in range(enter) if tape.instants[i].moment == "forward"}
        dropped |= {i for i in range(done + 1, tape.now) if tape.instants[i].moment == "backward"}
    if ends in ("first", "none"):
        dropped |= {i for i in range(leave + 1, back) if tape.instants[i].moment in ("forward", "backward")}
    return dropped


def _renumber(tape: Tape, dropped: set[int]) -> None:
    """Instants that are left keep their order."""
    before = [0]
    for index in range(tape.now):
        before.append(before[-1] + (index not in dropped))
    for record in tape.records:
        record.birth = before[record.birth]
        if record.death is not None:
            record.death = before[min(record.death, tape.now)]
    tape.instants = [instant for index, instant in enumerate(tape.instants) if index not in dropped]
