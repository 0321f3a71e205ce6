"""Which layers of a model Megatron Core runs as its own mixture of experts."""

from dataclasses import replace

from planner.engine.activations.core_experts import CoreExperts
from planner.engine.activations.models.moe import expert_shape
from planner.engine.activations.setting import Setting
from planner.model.spec import DenseFeedForward, LayerGroup, MixtureOfExperts


def has_told_experts(group: LayerGroup) -> bool:
    """Whether the feed-forward is a router, experts, and shared ones at most."""
    experts = group.feed_forward
    return isinstance(experts, MixtureOfExperts) and experts.dense is None and experts.latent_size is None


def with_dense(group: LayerGroup) -> LayerGroup:
    """The layer with its shared experts alone; with one of no size where it has none."""
    experts = group.feed_forward
    if not isinstance(experts, MixtureOfExperts):
        return group
    return replace(group, feed_forward=experts.shared or DenseFeedForward(1, experts.gated, experts.activation))


def core_experts(group: LayerGroup, setting: Setting) -> CoreExperts | None:
    """The layer's experts and how they are spread; None where it has none."""
    experts = group.feed_forward
    if not isinstance(experts, MixtureOfExperts):
        return None
    return CoreExperts(
        expert_shape(experts, setting),
        gathers=setting.token_dispatcher == "allgather",
        expert_parallel=setting.expert_parallel > 1,
        tensor_parallel=(setting.expert_tensor or setting.tensor_parallel) > 1,
        several=experts.experts > setting.expert_parallel,
    )
