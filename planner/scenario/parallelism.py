"""How a phase is spread over GPUs, and what of it is kept elsewhere."""

from typing import ClassVar

from planner.scenario.choices import ContextParallelMode, HalfDtype, OffloadTarget, ReportedStage, ShardingBackend
from planner.scenario.declaration import Declared, declare

OVER_CONTEXT = ("fsdp2", "deepspeed", "megatron-distributed-optimizer")
MAX_DEGREE = 100_000
"""More GPUs than any cluster that trains one model."""


class ServingParallelism(Declared):
    """Degrees of parallelism of a serving engine."""

    tensor: int = declare(
        1,
        "Tensor parallel",
        "GPUs that share every layer: heads and feed-forward columns are divided among them. Must divide the heads.",
        unit="GPUs",
        ge=1,
        le=MAX_DEGREE,
    )
    pipeline: int = declare(
        1,
        "Pipeline stages",
        "The layers are cut into this many consecutive stages, one after the other on different GPUs.",
        unit="stages",
        ge=1,
        le=MAX_DEGREE,
    )
    data: int = declare(
        1,
        "Data parallel",
        "Replicas of the model (or, with ZeRO, ranks that share its states), each working on its own sequences.",
        unit="ranks",
        ge=1,
        le=MAX_DEGREE,
    )
    expert: int = declare(
        1,
        "Expert parallel",
        "GPUs over which the experts of a mixture-of-experts model are spread. 1 for a dense model.",
        unit="GPUs",
        ge=1,
        le=MAX_DEGREE,
        advanced=True,
    )

    @property
    def ranks(self) -> int:
        """GPUs in use. Experts are spread over these, not over further ones."""
        return self.tensor * self.pipeline * self.data

    @property
    def ranks_per_expert(self) -> int:
        """GPUs that share one expert: as many as share other layers, unless too few are left when experts are dealt.

        vLLM deals experts to all tensor- and data-parallel ranks, each whole (`FusedMoEParallelConfig.make`); SGLang
        divides them among tensor-parallel ranks / expert-parallel ones (`moe_tp_size`); transformers deals them to the
        tensor-parallel ranks (`enable_expert_parallel`).
        """
        return min(self.tensor, max(1, self.ranks // self.pipeline // self.expert))

    @property
    def expert_share(self) -> float:
        """Ranks over which an expert's weights are spread beyond tensor-parallel ones; below 1 where fewer share it."""
        return self.expert * self.ranks_per_expert / self.tensor


class Parallelism(ServingParallelism):
    """Degrees of parallelism of a training step, and which software divides what."""

    form_order: ClassVar[tuple[str, ...]] = ("data", "zero_stage", "tensor", "pipeline")

    zero_stage: int = declare(
        0,
        "ZeRO stage",
        "What data-parallel ranks divide: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too (as FSDP).",
        ge=0,
        le=3,
    )
    context: int = declare(
        1,
        "Context parallel",
        "GPUs that share one sequence: each holds a part of its tokens.",
        unit="GPUs",
        ge=1,
        le=MAX_DEGREE,
        advanced=True,
    )
    expert_tensor: int | None = declare(
        None,
        "Expert tensor parallel",
        "GPUs that share one expert in Megatron Core. Automatic: as many as share the other layers.",
        unit="GPUs",
        ge=1,
        le=MAX_DEGREE,
        advanced=True,
    )
    sequence_parallel: bool = declare(
        False,
        "Sequence parallel",
        "Norms and dropouts between the tensor-parallel parts are divided along the sequence, so that nothing of a "
        "layer's activations is kept twice.",
        advanced=True,
    )
    pipeline_interleave: int = declare(
        1,
        "Chunks per stage",
        "Interleaved pipeline schedule: each stage holds this many separate runs of layers. 1 is plain 1F1B.",
        unit="chunks",
        ge=1,
        le=1000,
        advanced=True,
    )
    sharding_backend: ShardingBackend | None = declare(
        None,
        "Sharding software",
        "What divides and gathers the states. Automatic: DDP for stage 0, DeepSpeed for stages 1 to 3.",
        advanced=True,
    )
    reshard_after_forward: bool = declare(
        True,
        "Reshard after forward",
        "FSDP frees gathered weights after each layer's forward pass and gathers them again for backward.",
        advanced=True,
    )
    fsdp_reduce_dtype: HalfDtype | None = declare(
        None,
        "Gradient reduction type",
        "Number format in which FSDP sums gradients over the ranks. Automatic: that of the gathered weights.",
        advanced=True,
    )
    reduces_every_micro_batch: bool | None = declare(
        None,
        "Reduce every micro-batch",
        "FSDP scatters the gradients of each micro-batch. Off (`no_sync`), whole gradients stay until the last one. "
        "Automatic: off where the training loop is that of transformers or LitGPT, on elsewhere.",
        advanced=True,
    )
    use_orig_params: bool = declare(
        True,
        "Original parameters",
        "FSDP1 keeps the parameters' own shapes beside its flat ones; off leaves one flat parameter per unit.",
        advanced=True,
    )
    gradient_as_bucket_view: bool = declare(
        False,
        "Gradients in buckets",
        "DDP lets gradients live inside its communication buckets, instead of keeping both.",
        advanced=True,
    )
    context_parallel_mode: ContextParallelMode = declare(
        "ring",
        "Context parallel mode",
        "How attention sees the whole sequence: keys and values go round a ring, or heads are exchanged (Ulysses).",
        advanced=True,
    )
    shard_over_context: bool = declare(
        False,
        "Shard over context ranks",
        "Weights and states are divided over context-parallel ranks too, not over data-parallel ranks alone.",
        advanced=True,
    )
    shard_replicas: int = declare(
        1,
        "Shard replicas",
        "Hybrid sharding: this many groups of data-parallel ranks each hold all shards, so that gathering stays within "
        "a group. Must divide the data-parallel ranks.",
        unit="groups",
        ge=1,
        le=MAX_DEGREE,
        advanced=True,
    )
    loss_parallel: bool = declare(
        False,
        "Loss parallel",
        "The loss is computed on logits that stay divided along the vocabulary over tensor-parallel ranks.",
        advanced=True,
    )
    reported_stage: ReportedStage = declare(
        "fullest",
        "Stage reported",
        "Which pipeline stage the figures are for. The fullest decides whether the phase fits.",
        advanced=True,
    )

    @property
    def ranks(self) -> int:
        return self.tensor * self.pipeline * self.data * self.context

    @property
    def ranks_per_expert(self) -> int:
        """GPUs that share one expert, as stated for Megatron Core."""
        return super().ranks_per_expert if self.expert_tensor is None else self.expert_tensor

    @property
    def shard_ranks(self) -> int:
        """Ranks over which ZeRO divides states.

        Some software always divides over context-parallel ranks too: torchtitan (`dp_shard_cp`), DeepSpeed with
        Ulysses (`seq_data_parallel_group`), Megatron Core (`data_parallel_group` with context parallel).
        """
        ranks = self.data * (self.context if self.shard_over_context or self.backend in OVER_CONTEXT else 1)
        return max(1, ranks // self.shard_replicas) if self.zero_stage else ranks

    @property
    def backend(self) -> str:
        """The sharding software, also where the scenario leaves it open."""
        return self.sharding_backend or ("ddp" if self.zero_stage == 0 else "deepspeed")


class Offload(Declared):
    """What is kept outside the GPU between uses."""

    optimizer: OffloadTarget = declare(
        "none", "Optimizer states", "Where the optimizer's states (and fp32 master weights) are kept and updated."
    )
    parameters: OffloadTarget = declare(
        "none", "Weights", "Where the weights' shards wait until their layer runs. Needs ZeRO stage 3 or FSDP."
    )
    gradients: OffloadTarget = declare(
        "none", "Gradients", "Where gradients are collected during backward.", advanced=True
    )
    activations: OffloadTarget = declare(
        "none",
        "Activations",
        "Where tensors kept for backward wait: with checkpointing, each layer's input.",
        advanced=True,
    )
