"""Fields that phases share: one run of the model, its loss, and one training step."""

from typing import ClassVar

from planner.scenario.choices import (
    ActivationProfile,
    AttentionImplementation,
    AttentionMask,
    Checkpointing,
    EncodedAhead,
    ExpertsImplementation,
    Fp8Recipe,
    HalfDtype,
    LossImplementation,
    Optimizer,
    OptimizerImplementation,
    Precision,
    SelectivePolicy,
    StateDtype,
    TokenDispatcher,
)
from planner.scenario.declaration import Declared, declare, declare_part
from planner.scenario.host_work import Checkpoints, DataLoading, Loading
from planner.scenario.parallelism import Offload, Parallelism

MAX_BATCH = 1_000_000
MAX_TOKENS = 1_000_000_000
MAX_PIXELS = 100_000
FRAMEWORK_VERSION = r"^[A-Za-z][A-Za-z0-9_.+-]* v?[0-9][A-Za-z0-9_.+-]*$"


class ModelRun(Declared):
    """One run of the model: how it is computed, and on what input."""

    precision: Precision = declare(
        "bf16",
        "Precision",
        "Number formats of weights and arithmetic. AMP keeps fp32 weights and casts as it goes; a master copy keeps "
        "fp32 weights beside 16-bit ones.",
    )
    sequence_length: int = declare(
        2048,
        "Sequence length",
        "Tokens per sequence, padding included. Image models take theirs from the image.",
        unit="tokens",
        ge=1,
        le=MAX_TOKENS,
        step=1024,
    )
    attention_implementation: AttentionImplementation = declare(
        "sdpa",
        "Attention kernel",
        "Eager writes the whole attention matrix to memory; SDPA and FlashAttention do not.",
    )
    attention_mask: AttentionMask = declare(
        "none",
        "Attention mask",
        "Whether a mask is passed to the model, and whether it hides anything: this decides which kernel SDPA picks.",
        advanced=True,
    )
    decoder_sequence_length: int | None = declare(
        None,
        "Decoder length",
        "Tokens on the decoder's side of an encoder-decoder model. Automatic: as on the encoder's side.",
        unit="tokens",
        ge=1,
        le=MAX_TOKENS,
        advanced=True,
    )
    image_size: int | None = declare(
        None,
        "Image size",
        "Width and height of each image. Automatic: the size the model was built for.",
        unit="pixels",
        ge=1,
        le=MAX_PIXELS,
        advanced=True,
    )
    encoded_ahead: EncodedAhead = declare(
        "nothing",
        "Encoded ahead",
        "For diffusion pipelines: what was computed before and comes from a cache, so that the frozen text encoders or "
        "the autoencoder are not on the GPU.",
        advanced=True,
    )
    image_tokens: int | None = declare(
        None,
        "Image tokens",
        "Tokens of the sequence that come from images, for a vision-language model. Automatic: those of one image.",
        unit="tokens",
        ge=0,
        le=MAX_TOKENS,
        advanced=True,
    )
    activation_profile: ActivationProfile = declare(
        "hf-transformers",
        "Software",
        "Whose code runs the model. It decides which tensors are kept for backward.",
        advanced=True,
    )
    framework_version: str = declare(
        "transformers 5.24",
        "Software version",
        "Name and version of the library. What is kept for backward differs between versions.",
        pattern=FRAMEWORK_VERSION,
        max_length=60,
        advanced=True,
    )
    experts_implementation: ExpertsImplementation = declare(
        "grouped_mm",
        "Expert kernel",
        "How a mixture-of-experts layer multiplies: one grouped product, or batched products over gathered weights.",
        advanced=True,
    )
    compile: bool = declare(
        False,
        "torch.compile",
        "Compiled layers fuse element-wise operations and keep fewer tensors for backward.",
        advanced=True,
    )
    use_cache: bool = declare(
        False,
        "Keep keys and values",
        "The model also returns a KV cache, as it does unless told otherwise. Training has no use for it.",
        advanced=True,
    )
    parallelism: Parallelism = declare_part(
        Parallelism, "Parallelism", "How the work and the states are divided over GPUs."
    )


class LossFields(Declared):
    """How logits become a loss."""

    loss_implementation: LossImplementation = declare(
        "full_logits",
        "Loss",
        "All logits at once need tokens × vocabulary several times over; chunked and fused losses never hold them all.",
    )
    loss_chunks: int | None = declare(
        None,
        "Loss chunks",
        "Number of chunks into which a chunked loss divides the tokens. Automatic: by chunk length, else 8.",
        unit="chunks",
        ge=1,
        le=MAX_BATCH,
        advanced=True,
    )
    loss_chunk_tokens: int | None = declare(
        None,
        "Loss chunk length",
        "Tokens in each chunk of a chunked loss.",
        unit="tokens",
        ge=1,
        le=MAX_TOKENS,
        advanced=True,
    )
    loss_keeps_logits: bool = declare(
        False,
        "Chunked loss keeps logits",
        "The head still computes all logits; only the loss on them runs in chunks.",
        advanced=True,
    )
    loss_upcast: bool = declare(
        True,
        "Logits in fp32",
        "16-bit logits are cast to fp32 before the loss.",
        advanced=True,
    )
    compile_loss: bool = declare(
        False, "Compiled loss", "The loss is compiled: its intermediate copies are fused away.", advanced=True
    )
    keeps_outputs: bool = declare(
        False,
        "Loop keeps outputs",
        "The loop still holds the outputs (with the logits) of a step while backward and the next forward run.",
        advanced=True,
    )


class CheckpointingFields(Declared):
    """What a forward pass keeps for backward, and what backward computes again."""

    activation_checkpointing: Checkpointing = declare(
        "none",
        "Checkpointing",
        "Full keeps only each layer's input and computes the rest again in backward; selective keeps some more.",
    )
    selective_policy: SelectivePolicy | None = declare(
        None,
        "Selective policy",
        "What selective checkpointing computes again. Automatic: the attention core.",
        advanced=True,
    )
    checkpoint_interval: int = declare(
        2,
        "Checkpoint interval",
        "For one layer in n: of how many layers one is computed again.",
        unit="layers",
        ge=2,
        le=1000,
        advanced=True,
    )
    checkpointing_reentrant: bool = declare(
        False,
        "Reentrant checkpointing",
        "The older form of torch.utils.checkpoint, which runs each layer's forward without a graph.",
        advanced=True,
    )


class TrainingStep(ModelRun, LossFields, CheckpointingFields):
    """One optimizer step: forward and backward of each micro-batch, then the update."""

    form_order: ClassVar[tuple[str, ...]] = (
        *("precision", "optimizer", "micro_batch_size", "sequence_length", "gradient_accumulation_steps"),
        *("activation_checkpointing", "attention_implementation", "loss_implementation", "parallelism", "offload"),
        *("optimizer_implementation", "optimizer_state_dtype", "selective_policy", "checkpointing_reentrant"),
    )

    optimizer: Optimizer = declare(
        "adamw", "Optimizer", "What it keeps per trained weight: AdamW two numbers, 8-bit variants a quarter, SGD none."
    )
    optimizer_implementation: OptimizerImplementation = declare(
        "foreach",
        "Optimizer kernels",
        "foreach updates all tensors together and needs temporaries as large as the weights; fused needs none.",
        advanced=True,
    )
    optimizer_state_dtype: StateDtype | None = declare(
        None,
        "Optimizer state type",
        "Number format of the states. Automatic: the optimizer's own rule, mostly that of the weights.",
        advanced=True,
    )
    optimizer_in_backward: bool = declare(
        False,
        "Update during backward",
        "Each weight is updated as soon as its gradient is there, and the gradient freed at once.",
        advanced=True,
    )
    micro_batch_size: int = declare(
        1,
        "Micro-batch per GPU",
        "Sequences that go through the model together on one GPU.",
        unit="sequences",
        ge=1,
        le=MAX_BATCH,
    )
    gradient_accumulation_steps: int = declare(
        1,
        "Gradient accumulation",
        "Micro-batches whose gradients are added up before one update. Raises the batch, not the memory.",
        unit="steps",
        ge=1,
        le=MAX_BATCH,
    )
    run_tokens: int | None = declare(
        None,
        "Tokens of the run",
        "Tokens that the whole run learns from, for its rough duration and cost. Automatic: those of the prepared "
        "samples, once each, where their preparation is planned.",
        unit="tokens",
        ge=1,
        le=10**18,
        advanced=True,
    )
    gradient_accumulation_dtype: HalfDtype | None = declare(
        None,
        "Gradient accumulation type",
        "Number format in which gradients of 16-bit weights are added up beside a master copy. Automatic: fp32, but "
        "with DeepSpeed's ZeRO that of the weights.",
        advanced=True,
    )
    gradient_clipping: bool = declare(
        False, "Clip gradients", "The norm of all gradients is taken and limited before the update.", advanced=True
    )
    label_smoothing: float = declare(
        0.0,
        "Label smoothing",
        "Share of the target that is spread over all classes. The Trainer of transformers then computes the loss "
        "itself, in the type of the logits, and keeps it twice.",
        ge=0.0,
        le=0.99,
        step=0.05,
        advanced=True,
    )
    zero_grad_set_to_none: bool = declare(
        True,
        "Free gradients",
        "Gradients are freed after the update; off sets them to zero and keeps them.",
        advanced=True,
    )
    fp8_recipe: Fp8Recipe | None = declare(
        None,
        "fp8 scaling",
        "How many scales an fp8 matrix has. Automatic: one per tensor.",
        advanced=True,
    )
    fp8_all_gather: bool = declare(
        False, "Gather in fp8", "FSDP gathers weights as fp8 instead of 16 bits.", advanced=True
    )
    tiled_mlp: bool = declare(
        False,
        "Tiled feed-forward",
        "The feed-forward runs over pieces of the sequence, so that its wide inner tensors are never whole.",
        advanced=True,
    )
    moe_token_dispatcher: TokenDispatcher = declare(
        "alltoall", "Token dispatcher", "How tokens reach the experts on other GPUs.", advanced=True
    )
    expandable_segments: bool = declare(
        False,
        "Expandable segments",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which nearly ends fragmentation.",
        advanced=True,
    )
    offload: Offload = declare_part(Offload, "Offload", "What waits in host RAM or on NVMe instead of on the GPU.")
    loading: Loading = declare_part(Loading, "Loading", "How weights come from files.")
    data_loading: DataLoading = declare_part(DataLoading, "Data loading", "How batches are prepared.")
    checkpoints: Checkpoints = declare_part(
        Checkpoints, "Checkpoints", "What is written to disk during training and after it."
    )
