"""Optimizer states and the temporaries of one optimizer step, from the records in `resources/optimizers/`.

A record says what is kept per parameter tensor (per element, per block, per row and column, per tensor) and in
which width; this file only counts. All bytes are per GPU, for the parameters that this rank updates.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Protocol

from planner.engine.term import Component, Factor, Number, Term
from planner.errors import PlannerError
from planner.resources import resource


class ShapedWeight(Protocol):
    """What is asked of a weight of a model: its shape."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class ParameterTensor:
    """`multiplicity` equal parameter tensors of `shape`, in the dtype that the optimizer sees."""

    shape: tuple[int, ...]
    multiplicity: int = 1
    dtype_bytes: int = 4
    hidden: bool = True
    """No token table and no head, which some optimizers leave to AdamW."""

    @property
    def is_hidden_matrix(self) -> bool:
        """What matrix optimizers take: torch.optim.Muon wants two dimensions, GaLore linear layers."""
        return self.hidden and len(self.shape) == 2

    @property
    def sides(self) -> tuple[int, ...]:
        """Rows and columns of a matrix (of each expert, where there are several), or the length of a vector."""
        return self.shape[-2:] or (1,)

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def rows_and_columns(self) -> int:
        """Elements of a factored second moment: a row and a column, or all elements of a vector."""
        if len(self.shape) < 2:
            return self.elements
        outer = prod(self.shape[:-2])
        return outer * (self.shape[-2] + self.shape[-1])


@dataclass(frozen=True, slots=True)
class OptimizerRecord:
    """One file of `resources/optimizers/`."""

    id: str
    label: str
    default_implementation: str
    states: tuple[Mapping[str, Any], ...]
    implementations: Mapping[str, Mapping[str, Any]]
    source: str
    quantized_from: Mapping[str, int] | None = None
    paged_from_elements: int | None = None
    needs_fp32: bool = False
    """Its code fails on 16-bit weights."""
    in_backward: bool = False
    """It updates each weight as soon as its gradient is there, and frees the gradient."""

    def implementation(self, name: str | None) -> Mapping[str, Any]:
        """The named implementation; `*` in the record means that the optimizer has only one."""
        found = self.implementations.get("*") or self.implementations.get(name or self.default_implementation)
        if found is None:
            known = ", ".join(self.implementations)
            raise PlannerError(f"{self.label} has no implementation '{name}'. It has: {known}.")
        return found

    def quantizes(self, tensor: ParameterTensor) -> bool:
        rule = self.quantized_from
        if rule is None:
            return False
        return tensor.elements >= rule["elements"] and tensor.elements % rule["multiple_of"] == 0

    def pages(self, tensor: ParameterTensor) -> bool:
        return self.paged_from_elements is not None and tensor.elements >= self.paged_from_elements


@cache
def optimizer_records() -> Mapping[str, OptimizerRecord]:
    """All optimizers that the planner knows, by id."""
    records = (json.loads(path.read_text("utf-8")) for path in sorted(resource("optimizers").glob("*.json")))
    return {record["id"]: OptimizerRecord(**{**record, "states": tuple(record["states"])}) for record in records}


def optimizer_record(optimizer: str) -> OptimizerRecord:
    """The record of one optimizer; an unknown name is an error that says which are known."""
    records = optimizer_records()
    if optimizer not in records:
        raise PlannerError(f"Unknown optimizer '{optimizer}'. Known are: {', '.join(records)}.")
    return records[optimizer]


def parameter_tensors(weights: Iterable[tuple[ShapedWeight, int]], dtype_bytes: int) -> tuple[ParameterTensor, ...]:
    """Parameter tensors of the weights of a model, in the order in which the optimizer walks through them."""
    return tuple(
        ParameterTensor(weight.shape, multiplicity, dtype_bytes, is_hidden(weight)) for weight, multiplicity in weights
    )


def is_hidden(weight: object) -> bool:
    """Whether a weight of a model stands between its token table and its head."""
    return getattr(weight, "block", "") not in ("embedding", "head")


def state_terms(
    optimizer: str,
    implementation: str | None,
    tensors: Sequence[ParameterTensor],
    alive: tuple[str, ...],
    *,
    shards: Number = 1,
    state_bytes: float | None = None,
) -> tuple[Term, ...]:
    """Bytes of optimizer state for `tensors`, divided over `shards` ranks.

    `state_bytes` replaces the width of states that follow the parameter. States in CUDA managed memory (paged
    optimizers) are no allocations of torch: they are terms of the component `overhead`.
    """
    record = optimizer_record(optimizer)
    chosen = record.implementation(implementation)
    states = (*chosen.get("states", record.states), *chosen.get("extra_states", ()))
    terms: list[Term] = []
    for state in states:
        for paged in (False, True):
            by_width: dict[float, int] = {}
            for tensor in tensors:
                in_managed_memory = record.pages(tensor) and state.get("paged", state["per"] != "optimizer")
                if in_managed_memory == paged and _concerns(state, record, tensor):
                    width = _width(state["bytes"], tensor, state_bytes)
                    by_width[width] = by_width.get(width, 0) + _count(state, tensor)
            if state["per"] == "optimizer":
                by_width = dict.fromkeys(by_width, 1)
            component: Component = "overhead" if paged else "optimizer_states"
            name = f"{state['name']} in managed memory" if paged else state["name"]
            divided = state["per"] not in ("tensor", "quantized tensor", "optimizer")
            terms += [
                Term(component, name, (_counted(state, count, shards if divided else 1), _bytes(width)), alive,
                     record.source)
                for width, count in by_width.items()
            ]  # fmt: skip
    return tuple(terms)


def step_temporary_terms(
    optimizer: str,
    implementation: str | None,
    tensors: Sequence[ParameterTensor],
    alive: tuple[str, ...],
    *,
    shards: Number = 1,
    state_bytes: float | None = None,
) -> tuple[Term, ...]:
    """Bytes that one optimizer step needs on top of parameters, gradients and states, at its fullest instant.

    A foreach step makes whole lists over all parameters; a for-loop works on one parameter while its variables
    still hold tensors of the parameter before. An optimizer that leaves some tensors to another one does the one
    after the other, so that the fuller of both counts.
    """
    chosen = optimizer_record(optimizer).implementation(implementation)
    source = chosen["source"]
    listed = _lists(chosen, tensors, state_bytes)
    walked: list[Amount] = []
    if walk := chosen.get("walk"):
        walked = max(_walk(walk, tensors, state_bytes), key=_size)
    lists = Factor("lists", chosen.get("list_copies", 0))
    if _size(walked) > lists.value * _size(listed):
        return tuple(
            Term("temporaries", name, (_share("elements", count, shards), _bytes(width)), alive, source)
            for name, count, width in walked
            if count
        )
    return tuple(
        Term("temporaries", name, (lists, _share("parameters", count, shards), _bytes(width)), alive, source)
        for name, count, width in listed
    )


Amount = tuple[str, int, float]
"""What it is, how many elements, and how many bytes each."""


def _size(amounts: Sequence[Amount]) -> float:
    return sum(count * width for _, count, width in amounts)


def _lists(
    implementation: Mapping[str, Any], tensors: Sequence[ParameterTensor], state_bytes: float | None
) -> list[Amount]:
    """One list over the parameters that a foreach step takes together, by width."""
    if not implementation.get("list_copies"):
        return []
    by_width: dict[float, int] = {}
    for tensor in tensors:
        if _walks(implementation.get("list_where"), tensor):
            width = _width("parameter", tensor, state_bytes)
            by_width[width] = by_width.get(width, 0) + tensor.elements * tensor.multiplicity
    return [("lists over all parameters", count, width) for width, count in by_width.items()]


def _walks(where: str | None, tensor: ParameterTensor) -> bool:
    """Whether a rule of a step is meant for this tensor."""
    return where is None or tensor.is_hidden_matrix == (where == "hidden matrices")


def _walk(
    candidates: Sequence[Mapping[str, Any]], tensors: Sequence[ParameterTensor], state_bytes: float | None
) -> list[list[Amount]]:
    """What is alive at each instant of a loop over the parameters. An instant has parts of several widths."""
    instants: list[list[Amount]] = [[]]
    for previous, current in _neighbours(tensors):
        for rule in candidates:
            if _walks(rule.get("where"), current):
                parts = rule.get("parts", (rule,))
                instants.append([one for part in parts for one in _amounts(part, previous, current, state_bytes)])
    return instants


def _amounts(
    part: Mapping[str, Any], previous: ParameterTensor | None, current: ParameterTensor, state_bytes: float | None
) -> list[Amount]:
    width = _width(part.get("bytes", "parameter"), current, state_bytes)
    copies = part.get("copies", 0) + (part.get("cast_copies", 0) if current.dtype_bytes < width else 0)
    found = [("temporaries of the parameter being updated", current.elements * copies, width)]
    if previous is not None and "previous_copies" in part:
        found.append(("update of the parameter before", previous.elements * part["previous_copies"], width))
    if previous is not None and len(previous.shape) > 1 and "previous_longer_ranks" in part:
        before = part["previous_longer_ranks"] * part["rank"] * max(previous.sides)
        found.append(("the parameter before, in the projection", before, width))
    if "constants" in part:
        found.append(("a number for the step", part["constants"], width))
    if len(current.shape) > 1:
        found += [
            (name, count(current, part) * part[key], width) for key, (name, count) in _OF_SIDES.items() if key in part
        ]
    return found


_OF_SIDES: Mapping[str, tuple[str, Callable[[ParameterTensor, Mapping[str, Any]], int]]] = {
    "row_column_copies": ("row and column factors", lambda tensor, _: tensor.rows_and_columns),
    "row_copies": ("a number per row", lambda tensor, _: tensor.elements // tensor.sides[-1]),
    "longer_sides": ("a number per element of the longer side", lambda tensor, _: max(tensor.sides)),
    "shorter_sides": ("a number per element of the shorter side", lambda tensor, _: min(tensor.sides)),
    "longer_ranks": ("in the projection", lambda tensor, part: part["rank"] * max(tensor.sides)),
    "shorter_ranks": ("the projection", lambda tensor, part: part["rank"] * min(tensor.sides)),
    "shorter_squares": ("matrices of the shorter side", lambda tensor, _: min(tensor.sides) ** 2),
    "first_squares": ("matrices of the first side", lambda tensor, part: _limited(tensor.shape[0], part) ** 2),
    "last_squares": ("matrices of the last side", lambda tensor, part: _limited(tensor.shape[-1], part) ** 2),
    "first_sides": ("numbers per element of the first side", lambda tensor, part: _limited(tensor.shape[0], part)),
    "last_sides": ("numbers per element of the last side", lambda tensor, part: _limited(tensor.shape[-1], part)),
}
"""Temporaries of a matrix that are no copies of it."""


def _limited(side: int, part: Mapping[str, Any]) -> int:
    """A side, or nothing where it is longer than those that an optimizer has matrices for."""
    return side if side <= part.get("largest_side", side) else 0


def _neighbours(tensors: Sequence[ParameterTensor]) -> list[tuple[ParameterTensor | None, ParameterTensor]]:
    """Each parameter with the one updated before it, in the order in which the model lists them."""
    pairs: list[tuple[ParameterTensor | None, ParameterTensor]] = []
    before: ParameterTensor | None = None
    for tensor in tensors:
        pairs.append((before, tensor))
        before = tensor
    return pairs


def _concerns(state: Mapping[str, Any], record: OptimizerRecord, tensor: ParameterTensor) -> bool:
    where: str = state["where"]
    if state.get("parameter_bytes", tensor.dtype_bytes) != tensor.dtype_bytes:
        return False
    if where in ("hidden matrices", "other tensors"):
        return tensor.is_hidden_matrix == (where == "hidden matrices")
    if where in ("matrices", "vectors"):
        return (len(tensor.shape) > 1) == (where == "matrices")
    return where == "all" or record.quantizes(tensor) == (where == "quantized")


def _width(width: float | str, tensor: ParameterTensor, state_bytes: float | None) -> float:
    if width == "parameter":
        return tensor.dtype_bytes if state_bytes is None else state_bytes
    return float(width) if isinstance(width, float) else int(width)


def _count(state: Mapping[str, Any], tensor: ParameterTensor) -> int:
    per_tensor: int = {
        "element": tensor.elements,
        "block": -(-tensor.elements // state.get("block", 1)),
        "factored": tensor.rows_and_columns,
        "row": tensor.elements // tensor.sides[-1],
        "rank x longer side": _stacked(tensor) * state.get("rank", 1) * max(tensor.sides),
        "rank x shorter side": _stacked(tensor) * state.get("rank", 1) * min(tensor.sides),
        "square of shorter side": _stacked(tensor) * min(tensor.sides) ** 2,
        "squares of sides": _of_sides(tensor.shape, state, lambda side: side * side),
        "triangles of sides": _of_sides(tensor.shape, state, lambda side: side * (side + 1) // 2),
        "tensor": 1,
        "quantized tensor": 1,
        "optimizer": 1,
    }[state["per"]]
    return per_tensor * tensor.multiplicity


def _stacked(tensor: ParameterTensor) -> int:
    """Matrices in one tensor."""
    return prod(tensor.shape[:-2])


def _of_sides(shape: tuple[int, ...], state: Mapping[str, Any], elements: Callable[[int], int]) -> int:
    """Elements of one matrix per dimension; sides above `largest_side` have none, `block` cuts a tensor in blocks."""
    largest, block = state.get("largest_side"), state.get("block")
    if block is None:
        return sum(elements(side) for side in shape if largest is None or side <= largest)
    cuts = [-(-side // block) for side in shape]
    edges = [side // block * elements(block) + elements(side % block) for side in shape]
    return sum(edge * prod(cuts) // own for edge, own in zip(edges, cuts, strict=True))


_COUNTED = {
    "element": "parameters",
    "block": "blocks",
    "factored": "rows and columns",
    "row": "rows",
    "rank x longer side": "projected elements",
    "rank x shorter side": "elements of the projections",
    "square of shorter side": "elements of the projections",
    "squares of sides": "elements of the sides' matrices",
    "triangles of sides": "elements of the sides' triangles",
    "tensor": "tensors",
    "quantized tensor": "tensors",
    "optimizer": "optimizers",
}


def _counted(state: Mapping[str, Any], count: int, shards: Number) -> Factor:
    return _share(_COUNTED[state["per"]], count, shards)


def _share(name: str, count: int, shards: Number) -> Factor:
    if isinstance(shards, int) and shards == 1:
        return Factor(name, count)
    return Factor(name, -(-count // shards), f"{count} over {shards} ranks" if isinstance(shards, int) else "per rank")


def _bytes(width: float) -> Factor:
    return Factor("bytes", int(width) if float(width).is_integer() else width)
