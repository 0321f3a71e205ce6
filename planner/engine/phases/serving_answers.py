"""What people ask of a serving plan: how long one request may be, and how many GPUs and copies a load takes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.engine.phases.serving_layout import WHOLE_SPLITS, Trace, tensor_degrees
from planner.engine.rounding import ceil_div
from planner.engine.servers import ServerPlan, ServingWorkload, plan_server
from planner.hardware import ChosenGpu, HardwareCatalog
from planner.scenario.serving import ContextDistribution

MOST_TOKENS = 1 << 24
"""Where a model states no positions, lengths are tried up to this."""
POINTS = 64
"""Lengths tried at once; each round narrows the range by this factor."""
TRACED_STEP = 256
"""Tokens by which lengths are told apart where a pass is traced anew for each."""


@dataclass(frozen=True, slots=True)
class Answers:
    """For one GPU; None where it has no answer, such as an unknown capacity or a model that never fits."""

    largest_context: int | None
    """Tokens of one request alone, at most the model's own positions."""
    smallest_tensor_parallel: int | None
    """GPUs of one copy, within a node, that loads and holds one request of full length."""
    replicas: int | None
    """Copies of that size which hold all requests at their expected length."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A workload and the engine that serves it."""

    engine: str
    load: ServingWorkload
    hardware: HardwareCatalog
    gpus_per_node: int
    requests: int
    """Of all replicas together."""
    trace: Trace | None = None

    def answers(self, chosen: ChosenGpu, expected: ContextDistribution | None) -> Answers:
        if chosen.capacities.usable_bytes is None:
            return Answers(None, None, None)
        degree = self._smallest_degree(chosen)
        return Answers(self._largest_context(chosen), degree, self._replicas(chosen, degree, expected))

    def _fits(self, chosen: ChosenGpu, **change: Any) -> Any:
        """Whether the engine starts and holds the changed workload; an array if a change is one."""
        plan = self._plan(chosen, **change)
        return (plan.need_bytes <= plan.capacity_bytes) & ~np.asarray(plan.refused, dtype=bool)

    def _plan(self, chosen: ChosenGpu, **change: Any) -> ServerPlan:
        changed = replace(self.load, **change)
        working_set = () if self.trace is None else self.trace(changed)
        return plan_server(self.engine, changed, chosen, self.hardware.overheads, working_set)

    def _largest_context(self, chosen: ChosenGpu) -> int | None:
        """The longest request that fits alone; a model of images has no length."""
        if self.load.spec.stack.embedding is None:
            return None
        low, high = 0, self.load.spec.max_positions or MOST_TOKENS
        if self.trace is not None:
            return self._longest_traced(chosen, high)
        if self._fits(chosen, sequences=1, context_tokens=high, prompt_tokens=high):
            return high
        while low < high:
            lengths = np.unique(np.linspace(low + 1, high, POINTS).astype(np.int64))
            fitting = np.broadcast_to(
                self._fits(chosen, sequences=1, context_tokens=lengths, prompt_tokens=lengths), lengths.shape
            )
            held = int(fitting.argmin()) if not fitting.all() else len(lengths)
            if held == len(lengths):
                return int(lengths[-1])
            low, high = (int(lengths[held - 1]) if held else low), int(lengths[held]) - 1
        return low or None

    def _longest_traced(self, chosen: ChosenGpu, most: int) -> int | None:
        """The same in steps, one length at a time: a pass over each is traced."""

        def fits(length: int) -> bool:
            return bool(self._fits(chosen, sequences=1, context_tokens=length, prompt_tokens=length))

        if fits(most):
            return most
        low, high = 0, -(-most // TRACED_STEP)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle * TRACED_STEP) else (low, middle)
        return low * TRACED_STEP or None

    def _smallest_degree(self, chosen: ChosenGpu) -> int | None:
        """Degrees that divide the heads, smallest first."""
        for degree in tensor_degrees(self.engine, self.load.spec, self.gpus_per_node):
            if self._fits(chosen, sequences=1, **self._spread(degree)):
                return degree
        return None

    def _replicas(self, chosen: ChosenGpu, degree: int | None, expected: ContextDistribution | None) -> int | None:
        """Requests divided by those that one copy holds at the expected length: each takes as much as the second."""
        if degree is None:
            return None
        length = int(self.load.context_tokens) if expected is None else expected.mean
        spread = self._spread(degree)
        asked = {"context_tokens": length, "prompt_tokens": min(int(self.load.prompt_tokens), length), **spread}
        one, two = (self._plan(chosen, sequences=count, **asked) for count in (1, 2))
        spare = int(one.capacity_bytes) - int(one.need_bytes)
        if spare < 0 or one.refused:
            return None
        each = int(two.need_bytes) - int(one.need_bytes)
        held = self.requests if each <= 0 else 1 + spare // each
        return int(ceil_div(self.requests, held))

    def _spread(self, degree: int) -> dict[str, int]:
        """Layers over GPUs for llama.cpp, heads over GPUs for the others."""
        if self.engine in WHOLE_SPLITS:
            return {"pipeline": degree}
        return {"tensor_parallel": degree, "pipeline": 1}


def answers_json(found: Mapping[str, Answers]) -> dict[str, dict[str, int | None]]:
    """The answers by name and GPU id, as a plan's `kv` tells them."""
    return {name: {gpu_id: getattr(answer, name) for gpu_id, answer in found.items()} for name in Answers.__slots__}
