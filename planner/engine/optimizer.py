"""Optimizer states and the temporaries of one optimizer step, from the records in `resources/optimizers/`.

A record says what is kept per parameter tensor (per element, per block, per row and column, per tensor) and in
which width; this file only counts. All bytes are per GPU, for the parameters that this rank updates.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
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
        return self.hidden and len(self.shape) > 1

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
                in_managed_memory = record.pages(tensor) and state["per"] != "optimizer"
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
    still hold tensors of the parameter before.
    """
    chosen = optimizer_record(optimizer).implementation(implementation)
    source = chosen["source"]
    terms: list[Term] = []
    if copies := chosen.get("list_copies"):
        by_width: dict[float, int] = {}
        for tensor in tensors:
            width = _width("parameter", tensor, state_bytes)
            by_width[width] = by_width.get(width, 0) + tensor.elements * tensor.multiplicity
        terms += [
            Term("temporaries", "lists over all parameters",
                 (Factor("lists", copies), _share("parameters", count, shards), _bytes(width)), alive, source)
            for width, count in by_width.items()
        ]  # fmt: skip
    if walk := chosen.get("walk"):
        fullest = max(_walk(walk, tensors, state_bytes), key=lambda parts: sum(part[1] * part[2] for part in parts))
        terms += [
            Term("temporaries", name, (_share("elements", count, shards), _bytes(width)), alive, source)
            for name, count, width in fullest
            if count
        ]
    return tuple(terms)


def _walk(
    candidates: Sequence[Mapping[str, Any]], tensors: Sequence[ParameterTensor], state_bytes: float | None
) -> list[list[tuple[str, int, float]]]:
    """What is alive at each instant of a loop over the parameters: (name, elements, bytes each)."""
    instants: list[list[tuple[str, int, float]]] = [[]]
    for previous, current in _neighbours(tensors):
        for rule in candidates:
            if rule.get("where") == "hidden matrices" and not current.is_hidden_matrix:
                continue
            own = _width(rule.get("bytes", "parameter"), current, state_bytes)
            copies = rule.get("copies", 0)
            if current.dtype_bytes < own:
                copies += rule.get("cast_copies", 0)
            before = previous.elements * rule.get("previous_copies", 0) if previous else 0
            factored = current.rows_and_columns * rule.get("row_column_copies", 0) if len(current.shape) > 1 else 0
            instants.append([
                ("temporaries of the parameter being updated", current.elements * copies, own),
                ("update of the parameter before", before, own),
                ("row and column factors", factored, own),
                ("mean of the row factors", 1 if "constant_bytes" in rule else 0, own),
            ])  # fmt: skip
    return instants


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
        "squares of sides": _stacked(tensor) * _squares(tensor.sides, state),
        "tensor": 1,
        "quantized tensor": 1,
        "optimizer": 1,
    }[state["per"]]
    return per_tensor * tensor.multiplicity


def _stacked(tensor: ParameterTensor) -> int:
    """Matrices in one tensor."""
    return prod(tensor.shape[:-2])


def _squares(sides: tuple[int, ...], state: Mapping[str, Any]) -> int:
    """Elements of one square matrix per side; sides above `largest_side` have none, `block` cuts a tensor in blocks."""
    largest, block = state.get("largest_side"), state.get("block")
    if block is None:
        return sum(side * side for side in sides if largest is None or side <= largest)
    cuts = [-(-side // block) for side in sides]
    edges = [side // block * block**2 + (side % block) ** 2 for side in sides]
    return sum(edge * prod(cuts) // own for edge, own in zip(edges, cuts, strict=True))


_COUNTED = {
    "element": "parameters",
    "block": "blocks",
    "factored": "rows and columns",
    "row": "rows",
    "rank x longer side": "projected elements",
    "rank x shorter side": "elements of the projections",
    "squares of sides": "elements of the sides' matrices",
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
