"""Layouts over GPUs: which degrees of parallelism a model and a cluster allow."""

from collections.abc import Iterator
from math import ceil

from planner.errors import Issue
from planner.scenario.choices import SHARDING_BACKENDS
from planner.scenario.parallelism import Parallelism
from planner.scenario.rules.facts import ModelFacts, PhaseFacts, nearest_legal

ZERO_STAGES = {
    "ddp": (0,),
    "fsdp1": (2, 3),
    "fsdp2": (2, 3),
    "deepspeed": (0, 1, 2, 3),
    "megatron-distributed-optimizer": (0, 1),
    "zero-redundancy-optimizer": (1,),
}
"""Which ZeRO stage each software does: FSDP with SHARD_GRAD_OP is 2 and with FULL_SHARD 3; Megatron Core's distributed
optimizer and torch's ZeroRedundancyOptimizer are 1 (their documentation)."""


def tensor_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Tensor parallelism gives every rank whole heads and whole columns of the feed-forward.

    Megatron-LM (arguments.py) and vLLM (`verify_with_parallel_config`) refuse other degrees. Key-value heads may be
    repeated where there are more ranks than heads, as long as each head has as many ranks as the next.
    """
    model, degree = facts.model, facts.phase.parallelism.tensor
    if model is None or degree == 1 or getattr(facts.phase, "engine", "") == "llama.cpp":
        return
    most = model.heads or max(model.feed_forward_sizes, default=1)
    near = nearest_legal(degree, most, lambda wanted: _tensor_problem(model, wanted) is None)
    problem = _tensor_problem(model, degree)
    if problem:
        code, parameters = problem
        yield facts.issue(code, "parallelism.tensor", degree=degree, legal=near, **parameters)
    elif degree > facts.hardware.gpus_per_node:
        per_node = facts.hardware.gpus_per_node
        yield facts.issue("tensor_across_nodes", "parallelism.tensor", "warning", degree=degree, per_node=per_node)


def _tensor_problem(model: ModelFacts, degree: int) -> tuple[str, dict[str, int]] | None:
    if model.heads is not None and model.heads % degree:
        return "tensor_heads", {"heads": model.heads}
    for kv_heads in model.kv_heads:
        if kv_heads % degree and degree % kv_heads:
            return "tensor_kv_heads", {"kv_heads": kv_heads}
    for size in model.feed_forward_sizes:
        if size % degree:
            return "tensor_feed_forward", {"size": size}
    return None


def pipeline_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Every stage holds at least one layer of each of its chunks."""
    layout = facts.phase.parallelism
    stages, chunks = layout.pipeline, getattr(layout, "pipeline_interleave", 1)
    if chunks > 1 and stages == 1:
        yield facts.issue("interleave_without_pipeline", "parallelism.pipeline_interleave", legal=(1,))
    if facts.model is None or stages == 1:
        return
    if not facts.model.is_chain:
        yield facts.issue("pipeline_of_pyramid", "parallelism.pipeline", legal=(1,))
        return
    # a trial builds only the first layers of the model
    layers = min(facts.model.layers, getattr(facts.phase, "trial_layers", None) or facts.model.layers)
    if stages * chunks > layers:
        near = nearest_legal(stages, layers // chunks, lambda wanted: layers % (wanted * chunks) == 0)
        yield facts.issue("pipeline_layers", "parallelism.pipeline", stages=stages * chunks, layers=layers, legal=near)
    elif layers % (stages * chunks):
        fullest = ceil(layers / (stages * chunks)) * chunks
        near = nearest_legal(stages, layers, lambda wanted: layers % (wanted * chunks) == 0)
        yield facts.issue(
            "pipeline_uneven",
            "parallelism.pipeline",
            "warning",
            stages=stages * chunks,
            layers=layers,
            fullest=fullest,
            legal=near,
        )


def expert_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Expert parallelism deals whole experts to ranks that the other degrees already count."""
    degree, field = facts.phase.parallelism.expert, "parallelism.expert"
    if degree == 1:
        return
    ranks = facts.phase.parallelism.ranks // facts.phase.parallelism.pipeline
    if facts.model and facts.model.experts is None:
        yield facts.issue("expert_dense", field, legal=(1,))
    elif facts.model and facts.model.experts and facts.model.experts % degree:
        experts = facts.model.experts
        near = nearest_legal(degree, experts, lambda wanted: experts % wanted == 0)
        yield facts.issue("expert_count", field, degree=degree, experts=experts, legal=near)
    elif degree > ranks:
        yield facts.issue("expert_ranks", field, ranks=ranks)
    elif _shares_experts(facts) and (wanted := degree * _expert_tensor(facts)) > ranks:
        legal = tuple(count for count in range(1, ranks // degree + 1) if facts.phase.parallelism.tensor % count == 0)
        yield facts.issue("expert_tensor_ranks", "parallelism.expert_tensor", wanted=wanted, ranks=ranks, legal=legal)


def _shares_experts(facts: PhaseFacts) -> bool:
    """Megatron Core: expert tensor x expert x expert data parallel ranks are those of a stage (parallel_state.py)."""
    layout = facts.phase.parallelism
    stated = getattr(layout, "expert_tensor", None) is not None
    return stated or getattr(facts.phase, "activation_profile", "") == "megatron-core"


def _expert_tensor(facts: PhaseFacts) -> int:
    layout = facts.phase.parallelism
    degree: int = getattr(layout, "expert_tensor", None) or layout.tensor
    return degree


def core_expert_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Megatron Core refuses to train experts under tensor parallelism on whole sequences (`moe_layer.py: forward`)."""
    layout = facts.phase.parallelism
    core = getattr(facts.phase, "activation_profile", "") == "megatron-core" and isinstance(layout, Parallelism)
    if core and facts.model and facts.model.experts and layout.tensor > 1 and not layout.sequence_parallel:
        yield facts.issue("experts_on_whole_sequences", "parallelism.sequence_parallel")


def zero_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """ZeRO stages, what does them, and what they cannot be combined with.

    DeepSpeed's pipeline engine asserts that the stage is below 2 (runtime/pipe/engine.py); FSDP2 is combined with
    pipelines by torchtitan, which keeps the weights of a stage gathered.
    """
    layout = facts.phase.parallelism
    if not isinstance(layout, Parallelism):
        return
    stage, backend = layout.zero_stage, layout.backend
    stages = ZERO_STAGES[backend]
    groups = layout.shard_replicas
    if layout.data % groups:
        near = nearest_legal(groups, layout.data, lambda wanted: layout.data % wanted == 0)
        yield facts.issue("shard_replicas", "parallelism.shard_replicas", groups=groups, ranks=layout.data, legal=near)
    if stage not in stages:
        yield facts.issue(
            "zero_backend", "parallelism.zero_stage", backend=SHARDING_BACKENDS[backend], stage=stage, legal=stages
        )
    elif stage >= 2 and layout.pipeline > 1 and backend != "fsdp2":
        yield facts.issue(
            "zero_with_pipeline", "parallelism.zero_stage", backend=SHARDING_BACKENDS[backend], stage=stage
        )
    elif stage >= 1 and layout.shard_ranks == 1 and not _offloads(facts):
        yield facts.issue("zero_alone", "parallelism.zero_stage", "warning")


def _offloads(facts: PhaseFacts) -> bool:
    offload = getattr(facts.phase, "offload", None)
    return offload is not None and (offload.optimizer != "none" or offload.parameters != "none")


def offload_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """DeepSpeed offloads weights with stage 3 only; FSDP's CPUOffload moves shards."""
    offload = getattr(facts.phase, "offload", None)
    if offload and offload.parameters != "none" and facts.phase.parallelism.zero_stage < 3:
        yield facts.issue("offload_parameters", "offload.parameters")


def sequence_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """What shares one sequence among ranks: equal parts, and for Ulysses equal numbers of heads.

    Ring attention deals each rank two pieces, an early and a late one (Megatron Core, torch's context_parallel).
    """
    layout = facts.phase.parallelism
    if not isinstance(layout, Parallelism):
        return
    length = facts.phase.sequence_length
    if layout.sequence_parallel and layout.tensor > 1 and length % layout.tensor:
        yield facts.issue("sequence_divides", "sequence_length", length=length, degree=layout.tensor)
    if layout.context == 1:
        return
    parts = layout.context * (2 if layout.context_parallel_mode == "ring" else 1)
    if length % parts:
        yield facts.issue("sequence_divides", "sequence_length", "warning", length=length, degree=parts)
    heads = facts.model.heads if facts.model else None
    if layout.context_parallel_mode == "ulysses" and heads and heads % layout.context:
        near = nearest_legal(layout.context, heads, lambda wanted: heads % wanted == 0)
        yield facts.issue("context_heads", "parallelism.context", degree=layout.context, heads=heads, legal=near)


def cluster_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """The layout against the GPUs that are there."""
    needed, available = facts.phase.parallelism.ranks, facts.hardware.available_gpus
    if needed > available:
        yield facts.issue("too_few_gpus", "parallelism", "warning", needed=needed, available=available)


LAYOUT_RULES = (
    tensor_rules,
    pipeline_rules,
    expert_rules,
    core_expert_rules,
    zero_rules,
    offload_rules,
    sequence_rules,
    cluster_rules,
)
