"""A small model and what the tests of hosts and disks share."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from planner.engine.host import NodeShare
from planner.engine.term import Term
from planner.model.spec import Attention, DenseFeedForward, Embedding, Head, LayerGroup, ModelSpec, Stack

GROUP = LayerGroup(32, Attention(32, 8, 128), DenseFeedForward(14336))
STACK = Stack("decoder", 4096, Embedding(128256, 4096), (GROUP,))


@pytest.fixture(scope="session")
def llama_8b() -> ModelSpec:
    return ModelSpec("m", "llama", "causal-lm", (STACK,), Head(128256), 131072)


@pytest.fixture(scope="session")
def one_node() -> NodeShare:
    return NodeShare(8, 1)


@pytest.fixture(scope="session")
def phase() -> Callable[..., Any]:
    """A phase of a scenario from plain values, as a file holds them."""
    return lambda kind, **fields: kind.model_validate_json(json.dumps(fields))


@pytest.fixture(scope="session")
def total() -> Callable[[Iterable[Term]], int]:
    return lambda terms: sum(int(item.bytes) for item in terms)
