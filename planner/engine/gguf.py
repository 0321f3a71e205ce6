"""Sizes of the tensors in a GGUF file: llama.cpp chooses a block type per tensor, by role and layer.

Rules: llama.cpp src/llama-quant.cpp (llama_tensor_get_type, tensor_type_fallback) and ggml/src/ggml-common.h.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import ceil
from typing import Any

from planner.engine.term import Factor, Term
from planner.model.spec import Attention, ModelSpec
from planner.model.weights import Weight, weights
from planner.resources import resource

CATEGORIES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "gate_up_proj": "ffn_up",
    "down_proj": "ffn_down",
    "qkv_proj": "attn_qkv",
    "query_key_value": "attn_qkv",
    "c_attn": "attn_qkv",
    "Wqkv": "attn_qkv",
}
"""llama.cpp's name for the role of a tensor; what is not listed takes the mixture's default type."""


FULL_TABLES = ("embed_positions", "position_embedding", "position_embeddings", "wpe", "token_type_embeddings")
"""Tables that stay float32 beside the token table: POS_EMBD and TOKEN_TYPES in convert_hf_to_gguf.py."""

LEFT_OUT = "pooler"
"""What the converter drops from an encoder: llama.cpp pools the last layer's output itself."""

FILE_TOLERANCE = 0.15
"""A file whose sum is further from the mixture's holds another format."""


@dataclass(frozen=True, slots=True)
class Override:
    """Tensors of one role, in some of the layers, that a mixture stores in another type."""

    tensor: str
    type: str
    layers: str = "all"
    when: str = ""


@dataclass(frozen=True, slots=True)
class GgufMix:
    """A file type such as Q4_K_M: a default block type and its exceptions, the first that matches winning."""

    id: str
    label: str
    default: str
    output: str
    token_embedding: str
    overrides: tuple[Override, ...]
    source: str

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "GgufMix":
        fields = {key: value for key, value in record.items() if key not in ("kind", "overrides")}
        return cls(**fields, overrides=tuple(Override(**item) for item in record["overrides"]))

    def type_of(self, weight: Weight, layer: int, layers: int, *, grouped_by_4: bool) -> str:
        """The block type of a matrix of layer `layer`; `grouped_by_4`: at least four query heads share a KV head."""
        category = CATEGORIES.get(weight.role, weight.role)
        for rule in self.overrides:
            matches = rule.tensor == category or (rule.tensor == "experts" and weight.kind == "expert")
            asked = not rule.when or (rule.when == "gqa4") == grouped_by_4
            if matches and asked and chosen_layer(rule.layers, layer, layers):
                return rule.type
        return self.default


@dataclass(frozen=True, slots=True)
class GgufSizes:
    """Bytes of the file's tensors by where llama.cpp places them."""

    token_embedding: int
    layers: tuple[int, ...]
    output: int
    """Head and final norm; 0 for the matrix of a tied head, which is the token table."""
    tied: bool

    @property
    def total(self) -> int:
        return self.token_embedding + sum(self.layers) + self.output


def chosen_layer(rule: str, layer: int, layers: int) -> bool:
    """Whether a rule such as `first eighth` or `more bits` concerns a layer."""
    eighth = layers // 8
    return {
        "all": True,
        "first 2": layer < 2,
        "first 4": layer < 4,
        "first eighth": layer < eighth,
        "first sixteenth": layer < layers // 16,
        "middle": eighth <= layer < 7 * layers // 8,
        "more bits": layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2,
    }[rule]


@cache
def _blocks() -> Mapping[str, Any]:
    blocks: Mapping[str, Any] = json.loads(resource("quantization", "gguf", "blocks.json").read_text("utf-8"))
    return blocks


def tensor_bytes(shape: tuple[int, ...], block_type: str) -> int:
    """Bytes of a tensor in a block type; rows of no whole number of blocks take the type llama.cpp falls back to."""
    types, fallbacks = _blocks()["types"], _blocks()["fallbacks"]
    row, elements = (shape or (1,))[-1], 1
    for size in shape:
        elements *= size
    chosen = block_type
    if row % types[chosen]["weights"]:
        chosen = fallbacks.get(chosen, "f16")
    if row % types[chosen]["weights"]:
        chosen = "f16"
    return elements // int(types[chosen]["weights"]) * int(types[chosen]["bytes"])


@lru_cache(maxsize=256)
def gguf_sizes(spec: ModelSpec, mix: GgufMix) -> GgufSizes:
    """Sizes of the tensors of `spec` quantized to `mix`; vectors and routers stay float32.

    A vision tower is a file of its own (mmproj), which is left out here. Where a file was read whose sum is near that
    of the mixture, its real sum counts: dynamic mixtures choose types per tensor.
    """
    spec = without_towers(spec)
    tied = spec.head is not None and spec.head.tied
    per_layer = [0] * sum(group.count for stack in spec.stacks for group in stack.groups)
    ends = {"embedding": 0, "output": 0}
    for weight, count in weights(spec):
        if weight.group is not None:
            for layer in _layers_of(spec, weight):
                per_layer[layer] += _layer_tensor_bytes(spec, mix, weight, layer)
        elif weight.block == "embedding":
            chosen = mix.output if tied else mix.token_embedding
            ends["embedding"] += count * tensor_bytes(weight.shape, "f32" if weight.role in FULL_TABLES else chosen)
        elif weight.role != LEFT_OUT:
            ends["output"] += count * tensor_bytes(weight.shape, "f32" if len(weight.shape) == 1 else mix.output)
    sizes = GgufSizes(ends["embedding"], tuple(per_layer), ends["output"], tied)
    stored = spec.quantization.stored_bytes if spec.quantization is not None else None
    return _as_stored(sizes, stored) if stored else sizes


def _as_stored(sizes: GgufSizes, stored_bytes: int) -> GgufSizes:
    """The sizes scaled to the file's own sum; unchanged where the file holds another format than the one asked for."""
    share = stored_bytes / sizes.total
    if abs(share - 1) > FILE_TOLERANCE:
        return sizes
    layers = tuple(int(size * share) for size in sizes.layers)
    output = int(sizes.output * share)
    return GgufSizes(stored_bytes - sum(layers) - output, layers, output, sizes.tied)


def without_towers(spec: ModelSpec) -> ModelSpec:
    """The model without stacks that read images for it."""
    kept = (spec.stacks[0], *(stack for stack in spec.stacks[1:] if stack.image is None))
    return replace(spec, stacks=kept)


def _layer_tensor_bytes(spec: ModelSpec, mix: GgufMix, weight: Weight, layer: int) -> int:
    if len(weight.shape) == 1 or weight.kind in ("norm", "router", "parameter"):
        return tensor_bytes(weight.shape, "f32")
    mixer = next(stack for stack in spec.stacks if stack.name == weight.stack).groups[weight.group or 0].mixer
    grouped = isinstance(mixer, Attention) and mixer.heads >= 4 * mixer.kv_heads
    return tensor_bytes(weight.shape, mix.type_of(weight, layer, spec.layers, grouped_by_4=grouped))


def _layers_of(spec: ModelSpec, weight: Weight) -> Iterator[int]:
    """Positions in the whole model of the layers that hold `weight`."""
    start = 0
    for stack in spec.stacks:
        if stack.name == weight.stack:
            before = 0
            for index, group in enumerate(stack.groups):
                if index == weight.group:
                    own = group.indices or range(before, before + group.count)
                    yield from (start + layer for layer in own)
                before += group.count
        start += sum(group.count for group in stack.groups)


def gguf_weight_terms(
    spec: ModelSpec, mix: GgufMix, alive: tuple[str, ...], *, tensor_parallel: int = 1, pipeline: int = 1
) -> tuple[Term, ...]:
    """The file's tensors as terms, for engines that load all of it onto the GPU."""
    sizes = gguf_sizes(spec, mix)
    layers = sum(sorted(sizes.layers, reverse=True)[: ceil(len(sizes.layers) / pipeline)])
    places = {"embeddings": sizes.token_embedding, "layers": layers, "head and final norm": sizes.output}
    if pipeline > 1:
        smaller_end = min(("embeddings", "head and final norm"), key=lambda place: places[place])
        del places[smaller_end]
    note = f"over {tensor_parallel} ranks" if tensor_parallel > 1 else ""
    return tuple(
        Term("weights", f"{place} in {mix.label}", (Factor("bytes in the file", ceil(size / tensor_parallel), note),),
             alive, mix.source)
        for place, size in places.items()
    )  # fmt: skip
