"""The six phases of a model's life, each with its workload. A phase that is None is not planned."""

from typing import ClassVar

from planner.scenario.choices import (
    BaseQuantization,
    EvaluatedLogits,
    HalfDtype,
    Method,
    Objective,
    SmokeTest,
)
from planner.scenario.declaration import Declared, declare, declare_part
from planner.scenario.host_work import DataLoading, Loading
from planner.scenario.preprocessing import MAX_SAMPLES, Preprocessing
from planner.scenario.roles import FrozenModel, FurtherModel, Roles, RolloutEngine
from planner.scenario.serving import Serving
from planner.scenario.step import MAX_BATCH, CheckpointingFields, LossFields, ModelRun, TrainingStep
from planner.scenario.targets import LoraTargetModules

ROLE_NAMES = (
    *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"),
    *("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
)
"""The linear layers of a decoder by the names that adapters are usually asked for."""


class Design(ModelRun, LossFields, CheckpointingFields):
    """Does the model build, and does one small step run?"""

    form_order: ClassVar[tuple[str, ...]] = (
        *("smoke_test", "precision", "micro_batch_size", "sequence_length", "trial_layers"),
        *("activation_checkpointing",),
    )

    smoke_test: SmokeTest = declare(
        "forward_backward",
        "Smoke test",
        "What is tried: only building the model, its shapes on the meta device, one forward pass, or forward and "
        "backward.",
    )
    micro_batch_size: int = declare(1, "Batch", "Sequences in the trial.", unit="sequences", ge=1, le=MAX_BATCH)
    sequence_length: int = declare(
        128, "Sequence length", "Tokens per sequence in the trial.", unit="tokens", ge=1, le=10**9, step=128
    )
    trial_layers: int | None = declare(
        None,
        "Layers in the trial",
        "The trial runs on a model with the first so many layers only. Automatic: on the whole model.",
        unit="layers",
        ge=1,
        le=100_000,
    )


class Training(TrainingStep):
    """Training of all weights, from scratch or continued."""


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
    rank_stabilized: bool = declare(
        False,
        "Rank-stabilized scaling",
        "rsLoRA: adapters are scaled by alpha over the root of their rank, not over the rank. One number, no memory.",
        advanced=True,
    )
    adapter_dtype: HalfDtype = declare(
        "fp32", "Adapter type", "Number format of the adapters' weights; PEFT keeps them in fp32 by default."
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
    reference: FrozenModel = declare_part(FrozenModel, "Reference model", "The frozen copy of DPO, PPO and GRPO.")
    reward: FrozenModel = declare_part(FrozenModel, "Reward model", "The frozen model that judges answers.")
    value: FurtherModel = declare_part(FurtherModel, "Value model", "The second model that PPO trains.")
    rollout: RolloutEngine = declare_part(RolloutEngine, "Rollout engine", "What writes answers for PPO and GRPO.")
    freezes_embeddings: bool = declare(
        False,
        "Freeze embeddings",
        "The token table is not trained, and neither is a head that shares it.",
        advanced=True,
    )
    freezes_images: bool = declare(
        False,
        "Freeze image tower",
        "The tower that reads images and its projector are not trained, as LLaMA-Factory does unless told otherwise.",
        advanced=True,
    )
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
    accumulated_samples: int | None = declare(
        None,
        "Logits kept of",
        "The loop keeps the logits of so many samples in host RAM, as computing metrics at the end does. Automatic: of "
        "one batch.",
        unit="samples",
        ge=1,
        le=MAX_SAMPLES,
        advanced=True,
    )
    loading: Loading = declare_part(Loading, "Loading", "How weights come from files.")
    data_loading: DataLoading = declare_part(DataLoading, "Data loading", "How batches are prepared.")


class Phases(Declared):
    """What is planned. Phases that are not stated are left out."""

    design: Design | None = declare(None, "Design & validation", "Building the model and a first trial step.")
    preprocessing: Preprocessing | None = declare(None, "Data preprocessing", "Raw data become training samples.")
    training: Training | None = declare(None, "Training", "Training of all weights.")
    fine_tuning: FineTuning | None = declare(None, "Fine-tuning", "Adapting a trained model.")
    evaluation: Evaluation | None = declare(None, "Evaluation", "Forward passes over a test set.")
    serving: Serving | None = declare(None, "Serving", "Answering requests.")
