"""Whether a phase fits a GPU, by how much, and how many such GPUs it would take."""

from collections.abc import Callable
from math import floor
from typing import Any

import numpy as np

from planner.engine.plan import Verdict, VerdictKind

MOST_GPUS = 1024
"""The largest number of GPUs that the search for a layout looks at."""


def judge(
    low_bytes: int,
    need_bytes: int,
    high_bytes: int,
    capacity_bytes: int | None,
    *,
    headroom_percent: float = 0.0,
    find_gpus: Callable[[], int | None] = lambda: None,
    missing: tuple[str, ...] = (),
    refused: bool = False,
) -> Verdict:
    """The band `low..high` around a need against a capacity, of which `headroom_percent` is kept free.

    `fits` when even the high end fits, `tight` when only the low end does, `oom` when not even that does;
    `unknown` where the capacity is not known or something else is `missing`. `refused`: the engine would not start
    although the sum might fit, which counts as out of memory.
    """
    if capacity_bytes is None or missing:
        return Verdict("unknown", capacity_bytes, None, missing=missing or ("usable memory of this GPU",))
    usable: int = usable_bytes(capacity_bytes, headroom_percent)
    kind: VerdictKind = "fits" if high_bytes <= usable else "tight" if low_bytes <= usable else "oom"
    if refused:
        kind = "oom"
    return Verdict(kind, usable, usable - need_bytes, find_gpus)


def usable_bytes(capacity_bytes: Any, headroom_percent: float) -> Any:
    """What is left of a capacity, or of many, when a share of it is kept free."""
    if not headroom_percent:
        return capacity_bytes
    usable = capacity_bytes * (1 - headroom_percent / 100)
    return np.floor(usable).astype(np.int64) if isinstance(usable, np.ndarray) else floor(usable)


def gpus_needed(
    need: Callable[[int], int | None], capacity_bytes: int | None, *, most: int = MOST_GPUS, start: int = 1
) -> int | None:
    """The smallest number of GPUs, up to `most`, for which `need(gpus)` is at most the capacity.

    `need` gives the bytes per GPU of the best legal layout on that many GPUs, None where there is none. Needs are
    taken to fall as GPUs are added: powers of two first, then the counts between the last failure and the success.
    """
    if capacity_bytes is None:
        return None

    def fits(gpus: int) -> bool:
        bytes_per_gpu = need(gpus)
        return bytes_per_gpu is not None and bytes_per_gpu <= capacity_bytes

    failed, count = start - 1, start
    while not fits(count):
        failed, count = count, count * 2
        if count > most:
            return None
    step = 1 if count <= 8 else 8
    between = range(failed - failed % step + step, count, step)
    return next((gpus for gpus in between if gpus > failed and fits(gpus)), count)
