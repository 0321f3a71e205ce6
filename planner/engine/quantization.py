"""Weights in every number format people train and serve in, from the records in `resources/quantization/`.

A format says which weights it converts, what it stores for them (packed weights, scales, zero points), and how wide
everything else stays. All bytes are those of the fullest rank.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, prod
from typing import Any

from planner.engine.gguf import GgufMix, gguf_weight_terms
from planner.engine.pipeline import Ends, end_weights
from planner.engine.term import Factor, Term
from planner.errors import PlannerError
from planner.model.counts import row_share, shard_elements, shard_shape
from planner.model.spec import ModelSpec
from planner.model.weights import Weight, weights
from planner.resources import resource

Copies = tuple[Weight, int]
FP32_BYTES = 4
KEPT_IN_FP32 = "transformers 5.24, models/deepseek_v3: `_keep_in_fp32_modules_strict` names the routers"


@dataclass(frozen=True, slots=True)
class Part:
    """Something stored for converted weights: `amount_bytes` per `per` weights, or per `tensor`, `row` or `column`."""

    name: str
    amount_bytes: float
    per: int | str


@dataclass(frozen=True, slots=True)
class Format:
    """One number format of weights; `kept_bytes` is the width of what it does not convert."""

    id: str
    label: str
    converts: str
    parts: tuple[Part, ...]
    kept_bytes: int
    source: str
    experts: bool = False
    """Whether fused expert matrices are converted with the linear layers."""
    keeps_towers: bool = False
    """Whether published checkpoints leave vision towers in 16 bits (llm-compressor and AutoAWQ ignore lists)."""

    @property
    def converts_nothing(self) -> bool:
        return not self.parts


@cache
def formats() -> Mapping[str, Format | GgufMix]:
    """All formats that the planner knows, by id."""
    records = (json.loads(path.read_text("utf-8")) for path in sorted(resource("quantization").glob("*.json")))
    return {record["id"]: _format(record) for record in records}


def _format(record: Mapping[str, Any]) -> Format | GgufMix:
    if record["kind"] == "gguf":
        return GgufMix.from_record(record)
    parts = tuple(Part(part["name"], part["bytes"], part["per"]) for part in record["parts"])
    known = {key: record[key] for key in ("id", "label", "converts", "kept_bytes", "source")}
    flags = {key: record.get(key, False) for key in ("experts", "keeps_towers")}
    return Format(**known, parts=parts, **flags)


def weight_format(name: str) -> Format | GgufMix:
    """The record of one format; an unknown name is an error that says which are known."""
    if name not in formats():
        raise PlannerError(f"Unknown weight format '{name}'. Known are: {', '.join(formats())}.")
    return formats()[name]


@lru_cache(maxsize=512)
def weight_terms(
    spec: ModelSpec,
    name: str,
    tensor_parallel: int,
    alive: tuple[str, ...],
    *,
    pipeline: int = 1,
    expert_parallel: float = 1,
    vocab_multiple: int = 1,
    experts_as_linear: bool = False,
    kept_bytes: int | None = None,
    every_linear: bool = False,
    keeps_fp32: bool = False,
    ends: Ends | None = None,
    row_ranks: int = 1,
    cuts_experts: bool = False,
) -> tuple[Term, ...]:
    """The model's weights in format `name` on the fullest of `tensor_parallel` x `pipeline` ranks.

    16 and 32-bit formats are exact, and so are bitsandbytes' 4-bit ones: two weights per byte, a float32 scale per
    block of 64, or with double quantization an 8-bit one, a float32 per 256 of these and their mean. A stage of a
    pipeline holds its layers and, first or last, the token table or the head. `experts_as_linear`: experts are linear
    layers, as in transformers 4. `kept_bytes` replaces the format's own width of what it does not convert;
    `every_linear`: the head and linear layers of any class are converted too (Lightning's `BitsandbytesPrecision`);
    `keeps_fp32`: what transformers leaves in fp32 in a 16-bit model is. `row_ranks` share out the rows of each weight
    (`cuts_experts` as in `row_share`).
    """
    chosen = weight_format(name)
    if isinstance(chosen, GgufMix):
        return gguf_weight_terms(spec, chosen, alive, tensor_parallel=tensor_parallel, pipeline=pipeline)
    converted: list[Copies] = []
    kept: list[Copies] = []
    for weight, copies in stage_weights(spec, pipeline, ends):
        linear = every_linear and weight.kind in ("linear", "conv1d") and not chosen.converts_nothing
        target = converted if linear or _converts(chosen, spec, weight, experts_as_linear) else kept
        target.append((weight, copies))

    def elements(weight: Weight) -> int:
        if row_ranks > 1:
            own = shard_shape(weight, tensor_parallel, expert_parallel)
            return prod(row_share(own, row_ranks, cuts_experts=cuts_experts))
        return shard_elements(weight, tensor_parallel, expert_parallel, vocab_multiple)

    width = kept_bytes or chosen.kept_bytes
    pinned = [(weight, copies) for weight, copies in kept if keeps_fp32 and weight.fp32 and width < FP32_BYTES]
    others = [entry for entry in kept if entry not in pinned] if pinned else kept
    counted = [
        (title, count, width, chosen.source)
        for title, count in _by_place(others, elements, whole=chosen.converts_nothing)
    ]
    if pinned:
        count = sum(elements(weight) * copies for weight, copies in pinned)
        counted.append(("routers", count, FP32_BYTES, KEPT_IN_FP32))
    terms = [
        Term("weights", title, (Factor("parameters", count), Factor("bytes", size)), alive, source)
        for title, count, size, source in counted
    ]
    terms += [
        Term("weights", part.name, (_amount(part, converted, elements), Factor("bytes", part.amount_bytes)), alive,
             chosen.source)
        for part in chosen.parts
        if converted
    ]  # fmt: skip
    return tuple(terms)


def stage_weights(spec: ModelSpec, pipeline: int, ends: Ends | None = None) -> tuple[Copies, ...]:
    """The tensors of the fullest pipeline stage: its share of each group of layers, and the larger of token table
    (first stage) and head (last stage); a tied head is the table, which both hold.

    With `ends`, `spec` has no layers but one stage's, and these are the tensors of that stage.
    """
    if ends is not None:
        return (*(entry for entry in weights(spec) if entry[0].group is not None), *end_weights(spec, ends))
    if pipeline == 1:
        return weights(spec)
    layers = [(weight, ceil(copies / pipeline)) for weight, copies in weights(spec) if weight.group is not None]
    outside = [(weight, copies) for weight, copies in weights(spec) if weight.group is None]
    first = [(weight, copies) for weight, copies in outside if weight.block == "embedding"]
    last = [(weight, copies) for weight, copies in outside if weight.block != "embedding"]
    return (*layers, *max(first, last, key=lambda end: sum(weight.elements * copies for weight, copies in end)))


def _converts(chosen: Format, spec: ModelSpec, weight: Weight, experts_as_linear: bool) -> bool:
    if chosen.converts_nothing or (chosen.keeps_towers and weight.stack in _towers(spec)):
        return False
    expert = weight.kind == "expert" and len(weight.shape) == 3
    if chosen.converts == "experts" and any(other.kind == "expert" for other, _ in weights(spec)):
        return expert
    return weight.quantizable or (expert and (chosen.experts or experts_as_linear))


@lru_cache(maxsize=64)
def _towers(spec: ModelSpec) -> frozenset[str]:
    """Stacks that read images for a language model."""
    return frozenset(stack.name for stack in spec.stacks[1:] if stack.image is not None)


def _by_place(copies: Sequence[Copies], elements: Any, *, whole: bool) -> list[tuple[str, int]]:
    """Elements of unconverted weights: token table, head, and the rest under a name that says what it is."""
    rest = "layers" if whole else "norms, biases and other weights kept"
    names = {"embedding": "embeddings", "head": "head"}
    found: dict[str, int] = {}
    for weight, count in copies:
        title = names.get(weight.block, rest)
        found[title] = found.get(title, 0) + elements(weight) * count
    return list(found.items())


def _amount(part: Part, copies: Iterable[Copies], elements: Any) -> Factor:
    """How many of a part there are over all converted tensors."""
    if part.per == "tensor":
        return Factor("tensors", sum(copies_of * weight.experts for weight, copies_of in copies))
    if isinstance(part.per, str):
        axis = -2 if part.per == "row" else -1
        count = sum(_lines(weight, axis, elements(weight)) * copies_of for weight, copies_of in copies)
        return Factor(f"{part.per}s", count)
    count = sum(ceil(elements(weight) / part.per) * copies_of for weight, copies_of in copies)
    return Factor("weights" if part.per == 1 else f"blocks of {part.per}", count)


def _lines(weight: Weight, axis: int, own: int) -> int:
    """Rows (outputs) or columns (inputs) of a matrix, or of all its experts, on this rank."""
    shape = weight.shape[::-1] if weight.kind == "conv1d" else weight.shape
    lines = shape[axis] * (shape[0] if len(shape) == 3 else 1)
    divided = {"column": -2, "row": -1}.get(weight.shard) == axis or len(shape) == 3
    return ceil(lines * own / weight.elements) if divided else lines


def cache_element_bytes(name: str) -> float:
    """Bytes of one cached element of a KV dtype, scales of its block included."""
    types = _cache_types()
    if name not in types:
        raise PlannerError(f"Unknown KV cache type '{name}'. Known are: {', '.join(types)}.")
    width = types[name]["bytes"] / types[name]["weights"]
    return int(width) if width.is_integer() else width


@cache
def _cache_types() -> Mapping[str, Mapping[str, int]]:
    types: Mapping[str, Mapping[str, int]] = json.loads(
        resource("quantization", "cache", "types.json").read_text("utf-8")
    )["types"]
    return types
