"""Bytes of weights that a pass reads: each that is computed with once, token tables row by row."""

from dataclasses import replace
from functools import lru_cache

from planner.engine.quantization import weight_terms
from planner.model.spec import LayerGroup, MixtureOfExperts, ModelSpec

LOOKED_UP = "embeddings"
"""How terms of tables begin."""


@lru_cache(maxsize=256)
def read_bytes(spec: ModelSpec, name: str, tensor: int = 1, pipeline: int = 1, expert_share: float = 1) -> int:
    """Weights in format `name` on one GPU of so many ranks; a table that is the head as well is read whole."""
    tied = spec.head is not None and spec.head.tied
    terms = weight_terms(spec, name, tensor, (), pipeline=pipeline, expert_parallel=expert_share)
    return sum(int(term.bytes) for term in terms if tied or not term.name.startswith(LOOKED_UP))


def visited(experts: int, chosen: int, tokens: float) -> float:
    """Experts that at least one of so many tokens goes to, if each expert is as likely as any other."""
    return float(experts * (1 - (1 - chosen / experts) ** tokens))


@lru_cache(maxsize=256)
def with_visited_experts(spec: ModelSpec, tokens: int) -> ModelSpec:
    """The model with no more experts in a layer than a batch of so many tokens goes to."""
    stacks = tuple(
        replace(stack, groups=tuple(_visited(group, tokens) for group in stack.groups)) for stack in spec.stacks
    )
    return spec if stacks == spec.stacks else replace(spec, stacks=stacks)


def _visited(group: LayerGroup, tokens: int) -> LayerGroup:
    mixture = group.feed_forward
    if not isinstance(mixture, MixtureOfExperts):
        return group
    count = round(visited(mixture.experts, mixture.experts_per_token, tokens))
    kept = max(mixture.experts_per_token, min(mixture.experts, count))
    return group if kept == mixture.experts else replace(group, feed_forward=replace(mixture, experts=kept))
