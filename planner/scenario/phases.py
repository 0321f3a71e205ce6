"""The six phases of a model's life, each with its workload. A phase that is None is not planned."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Discriminator, Field, Tag

from planner.scenario.choices import (
    LORA_TARGETS,
    BaseQuantization,
    EvaluatedLogits,
    HalfDtype,
    LoraTargets,
    Method,
    Objective,
    Placement,
    Reference,
    SmokeTest,
)
from planner.scenario.declaration import Declared, declare, declare_part
from planner.scenario.serving import Serving
from planner.scenario.step import MAX_BATCH, CheckpointingFields, LossFields, ModelRun, TrainingStep

MAX_SAMPLES = 10**15
MAX_SAMPLE_BYTES = 10**13
ROLE_NAME = r"^[A-Za-z_][A-Za-z0-9_.]*$"
ROLE_NAMES = (
    *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"),
    *("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
)
"""The linear layers of a decoder by the names that adapters are usually asked for."""


class Design(ModelRun, LossFields, CheckpointingFields):
    """Does the model build, and does one small step run?"""

    form_order: ClassVar[tuple[str, ...]] = (
        *("smoke_test", "precision", "micro_batch_size", "sequence_length", "activation_checkpointing"),
    )

    smoke_test: SmokeTest = declare(
        "forward_backward",
        "Smoke test",
        "What is tried: only building the model, one forward pass, or forward and backward.",
    )
    micro_batch_size: int = declare(1, "Batch", "Sequences in the trial.", unit="sequences", ge=1, le=MAX_BATCH)
    sequence_length: int = declare(
        128, "Sequence length", "Tokens per sequence in the trial.", unit="tokens", ge=1, le=10**9, step=128
    )


class Preprocessing(Declared):
    """Raw data become training samples: host RAM and disk, no GPU."""

    samples: int = declare(
        1_000_000, "Samples", "Documents, images or rows in the data set.", unit="samples", ge=1, le=MAX_SAMPLES
    )
    bytes_per_raw_sample: int = declare(
        6000,
        "Raw size per sample",
        "Average size of one raw sample on disk: a page of text is about 6 kB, a photograph about 150 kB.",
        unit="bytes",
        ge=1,
        le=MAX_SAMPLE_BYTES,
        step=1000,
    )
    tokens_per_sample: int = declare(
        1500, "Tokens per sample", "Average length after tokenization.", unit="tokens", ge=1, le=10**9, step=100
    )
    workers: int = declare(
        8, "Workers", "Processes that read and prepare samples. 0 works in the main process.", ge=0, le=10_000
    )
    prefetch_factor: int = declare(
        2, "Prefetch", "Batches that each worker prepares ahead.", unit="batches", ge=1, le=10_000
    )
    batch_size: int = declare(
        32, "Samples per batch", "Samples that a worker hands over together.", unit="samples", ge=1, le=MAX_BATCH
    )
    shuffle_buffer_samples: int = declare(
        10_000, "Shuffle buffer", "Samples kept in memory to shuffle a stream.", unit="samples", ge=0, le=MAX_SAMPLES
    )


class Training(TrainingStep):
    """Training of all weights, from scratch or continued."""


def _unwrapped(value: object) -> object:
    """`["all-linear"]` means what `"all-linear"` does."""
    one = value[0] if isinstance(value, list | tuple) and len(value) == 1 else None
    return one if isinstance(one, str) and one in LORA_TARGETS else value


def _targets_tag(value: object) -> str:
    return "<list>" if isinstance(value, list | tuple) else "<one>"


RoleName = Annotated[str, Field(pattern=ROLE_NAME, max_length=100)]
RoleNames = Annotated[tuple[RoleName, ...], Field(min_length=1, max_length=64, strict=False)]
LoraTargetModules = Annotated[
    Annotated[LoraTargets, Tag("<one>")] | Annotated[RoleNames, Tag("<list>")],
    Discriminator(_targets_tag),
    BeforeValidator(_unwrapped),
]


class Lora(Declared):
    """Low-rank adapters beside frozen weights (LoRA, QLoRA, DoRA)."""

    rank: int = declare(
        16, "Rank", "Width of the adapters. Memory hardly depends on it: activations do not change.", ge=1, le=65_536
    )
    target_modules: LoraTargetModules = declare(
        "all-linear",
        "Adapted layers",
        "All linear layers of the stack, the attention projections, or a list of names such as q_proj, v_proj.",
    )
    dropout: float = declare(
        0.0,
        "Adapter dropout",
        "Above 0, each adapter keeps its own masked copy of its input for backward.",
        ge=0.0,
        le=0.99,
        step=0.05,
    )
    adapter_dtype: HalfDtype = declare(
        "fp32", "Adapter type", "Number format of the adapters' weights; PEFT keeps them in fp32 by default."
    )


class Roles(Declared):
    """The models beside the one that is trained, in preference and reinforcement tuning."""

    reference: Reference = declare(
        "automatic",
        "Reference model",
        "The model that the policy must not stray from. Adapters can be switched off instead of keeping a copy.",
    )
    reward_model: Placement = declare(
        "automatic",
        "Reward model",
        "Where the frozen model that judges answers is kept. Automatic: beside the policy for PPO, apart for GRPO.",
    )
    rollout_engine: Placement = declare(
        "automatic",
        "Rollout engine",
        "Where answers are generated. Automatic: on other GPUs.",
    )
    rollout_sequences: int = declare(
        16,
        "Rollouts at a time",
        "Sequences that one rollout engine generates together; each has its KV cache.",
        unit="sequences",
        ge=1,
        le=MAX_BATCH,
    )


class FineTuning(TrainingStep):
    """Adapting a trained model: all weights, adapters beside frozen ones, or a part."""

    form_order: ClassVar[tuple[str, ...]] = ("method", "lora", "base_quantization", *TrainingStep.form_order)

    method: Method = declare("lora", "Method", "What is trained, and in what form the frozen weights are held.")
    lora: Lora = declare_part(Lora, "Adapters", "For LoRA, QLoRA and DoRA.")
    base_quantization: BaseQuantization | None = declare(
        None,
        "Frozen weights",
        "For QLoRA: the number format of the frozen linear layers. Automatic: nf4 with double quantization.",
    )
    objective: Objective = declare(
        "sft",
        "Objective",
        "Preference and reinforcement tuning hold further models beside the one that is trained.",
        advanced=True,
    )
    roles: Roles = declare_part(Roles, "Roles", "For DPO, PPO and GRPO.")
    trained_layers: int = declare(
        1,
        "Trained layers",
        "For last layers only: how many of the last layers are trained.",
        unit="layers",
        ge=1,
        le=100_000,
        advanced=True,
    )
    virtual_tokens: int = declare(
        20,
        "Virtual tokens",
        "For prefix and prompt tuning: trained tokens in front of every sequence.",
        unit="tokens",
        ge=1,
        le=1_000_000,
        advanced=True,
    )

    @property
    def uses_adapters(self) -> bool:
        return self.method in ("lora", "qlora", "dora")

    @property
    def frozen_format(self) -> str | None:
        """The number format of quantized frozen weights, also where QLoRA leaves it open; None if not quantized."""
        return self.base_quantization or ("nf4-double" if self.method == "qlora" else None)


class Evaluation(ModelRun, LossFields):
    """Forward passes over a benchmark or a validation set."""

    form_order: ClassVar[tuple[str, ...]] = (
        *("precision", "batch_size", "sequence_length", "attention_implementation", "logits", "computes_loss"),
    )

    batch_size: int = declare(
        1, "Batch per GPU", "Sequences evaluated together on one GPU.", unit="sequences", ge=1, le=MAX_BATCH
    )
    logits: EvaluatedLogits = declare(
        "all", "Logits", "Scores for every position (perplexity, multiple choice), or for the last one only."
    )
    computes_loss: bool = declare(
        False, "Computes the loss", "Labels are passed, so that the model also computes a loss."
    )


class Phases(Declared):
    """What is planned. Phases that are not stated are left out."""

    design: Design | None = declare(None, "Design & validation", "Building the model and a first trial step.")
    preprocessing: Preprocessing | None = declare(None, "Data preprocessing", "Raw data become training samples.")
    training: Training | None = declare(None, "Training", "Training of all weights.")
    fine_tuning: FineTuning | None = declare(None, "Fine-tuning", "Adapting a trained model.")
    evaluation: Evaluation | None = declare(None, "Evaluation", "Forward passes over a test set.")
    serving: Serving | None = declare(None, "Serving", "Answering requests.")
