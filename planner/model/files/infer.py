"""A configuration told from the names and shapes of tensors, for weights without a `config.json`."""

import re
from collections.abc import Mapping
from typing import Any

from planner.model.files.tensors import TensorSummary
from planner.model.readers import INFERRED

_LAYER = re.compile(r"(?<![^.])layers\.(\d+)\.")
_GUESSED_HEAD_DIM = 128


def inferred_config(tensors: TensorSummary) -> dict[str, Any] | None:
    """A Llama-shaped configuration that explains the tensors; None where their names are of another kind."""
    shapes: dict[str, tuple[int, ...]] = {}
    indices: set[int] = set()
    for entry in tensors.entries:
        before, *parts = _LAYER.split(entry.name, maxsplit=1)
        shapes["#".join((before, parts[-1])) if parts else before] = entry.shape
        indices.update(map(int, parts[:1]))
    table, query = _shape(shapes, "embed_tokens.weight"), _shape(shapes, "#self_attn.q_proj.weight")
    key, up = _shape(shapes, "#self_attn.k_proj.weight"), _shape(shapes, "#mlp.up_proj.weight")
    if not indices or table is None or query is None or key is None or up is None:
        return None
    norm = _shape(shapes, "#self_attn.q_norm.weight")
    head_dim = norm[0] if norm is not None else _guessed(query[0], key[0])
    biased = _shape(shapes, "#self_attn.q_proj.bias") is not None
    outer = _shape(shapes, "#self_attn.o_proj.bias") is not None
    if not head_dim or query[0] % head_dim or key[0] % head_dim:
        return None
    return {
        INFERRED: True,
        "model_type": "qwen3" if norm is not None else "qwen2" if biased and not outer else "llama",
        "hidden_size": table[1],
        "vocab_size": table[0],
        "num_hidden_layers": max(indices) + 1,
        "num_attention_heads": query[0] // head_dim,
        "num_key_value_heads": key[0] // head_dim,
        "head_dim": head_dim,
        "intermediate_size": up[0],
        "attention_bias": outer,
        "tie_word_embeddings": _shape(shapes, "lm_head.weight") is None,
    }


def _shape(shapes: Mapping[str, tuple[int, ...]], ending: str) -> tuple[int, ...] | None:
    found = (shape for name, shape in shapes.items() if name == ending or name.endswith("." + ending))
    return next((shape for shape in found if shape), None)


def _guessed(query_rows: int, key_rows: int) -> int:
    """128 where it divides both projections, as in most models, else 64."""
    return _GUESSED_HEAD_DIM if query_rows % 128 == key_rows % 128 == 0 and query_rows >= 2048 else 64
