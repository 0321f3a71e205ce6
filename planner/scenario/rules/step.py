"""Training and evaluation steps: lengths, and switches that exclude each other."""

from collections.abc import Iterator

from planner.errors import Issue
from planner.scenario.choices import FP32_OPTIMIZERS, OPTIMIZER_KERNELS, OPTIMIZERS, WITHOUT_CHECKPOINTS
from planner.scenario.phases import FineTuning
from planner.scenario.rules.facts import ModelFacts, PhaseFacts
from planner.scenario.step import ModelRun, TrainingStep

NO_SEQUENCE = ("image-classification", "diffusion", "speech-seq2seq")
"""Tasks whose length does not come from the sequence field, or is not bounded by the positions of its side."""


def length_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """A table of positions ends; rotary positions only stop being trained."""
    length, model = getattr(facts.phase, "sequence_length", None), facts.model
    if length is None or model is None or model.max_positions is None or model.task in NO_SEQUENCE:
        return
    if length > model.max_positions:
        yield beyond(facts, "sequence_length", length, model, refused=model.learned_positions)


def beyond(facts: PhaseFacts, field: str, length: int, model: ModelFacts, *, refused: bool) -> Issue:
    """The issue of a length above the model's positions."""
    parameters = {"length": length, "positions": model.max_positions}
    if refused:
        return facts.issue("beyond_positions", field, **parameters)
    return facts.issue("beyond_rotary", field, "warning", **parameters)


def kernel_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """FlashAttention 2 is written for fp16 and bf16 (its README, "Installation and features")."""
    run = facts.phase
    if not isinstance(run, ModelRun):
        return
    if run.attention_implementation == "flash_attention_2" and run.precision in ("fp32", "tf32"):
        yield facts.issue(
            "flash_needs_half", "attention_implementation", precision=run.precision, legal=("sdpa", "eager")
        )


def checkpointing_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """transformers 5.24, `modeling_utils.py: _activation_checkpointing_enable` refuses classes that do not say so."""
    step, model = facts.phase, facts.model
    if model is None or getattr(step, "activation_checkpointing", "none") == "none":
        return
    if model.model_type in WITHOUT_CHECKPOINTS and step.activation_profile == "hf-transformers":
        yield facts.issue("checkpointing_missing", "activation_checkpointing", model_type=model.model_type)


def update_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """What cannot be done with gradients that an optimizer in backward frees at once."""
    step = facts.phase
    if not isinstance(step, TrainingStep) or not step.optimizer_in_backward:
        return
    if step.gradient_accumulation_steps > 1:
        yield facts.issue("in_backward_accumulates", "optimizer_in_backward")
    if step.gradient_clipping:
        yield facts.issue("in_backward_clips", "gradient_clipping")


def optimizer_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Implementations that an optimizer does not have, and weights that it cannot update."""
    step = facts.phase
    if not isinstance(step, TrainingStep):
        return
    trains_adapters = isinstance(step, FineTuning) and step.method not in ("full", "last_layers")
    if step.optimizer in FP32_OPTIMIZERS and step.precision in ("bf16", "fp16", "fp8") and not trains_adapters:
        yield facts.issue("optimizer_needs_fp32", "optimizer", "warning", optimizer=OPTIMIZERS[step.optimizer])
    if not facts.differs("optimizer_implementation"):
        return
    kernels, name = OPTIMIZER_KERNELS[step.optimizer], OPTIMIZERS[step.optimizer]
    if "*" in kernels:
        yield facts.issue("kernels_own", "optimizer_implementation", "warning", optimizer=name)
    elif step.optimizer_implementation not in kernels:
        yield facts.issue("kernels_missing", "optimizer_implementation", optimizer=name, legal=kernels)


def tuning_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Methods of fine-tuning and what belongs to them."""
    tuning = facts.phase
    if not isinstance(tuning, FineTuning):
        return
    # peft 0.21, peft_model.py: _setup_prompt_encoder
    if (
        tuning.method == "prefix"
        and tuning.activation_checkpointing == "full"
        and tuning.activation_profile == "hf-transformers"
    ):
        yield facts.issue("prefix_checkpointing", "activation_checkpointing")
    if tuning.method == "last_layers" and facts.model and tuning.trained_layers > facts.model.layers:
        yield facts.issue("out_of_range", "trained_layers", value=tuning.trained_layers, **_span(facts.model.layers))


def _span(most: int) -> dict[str, int | str]:
    return {"minimum": 1, "maximum": most, "unit": "layers"}


STEP_RULES = (length_rules, kernel_rules, checkpointing_rules, update_rules, optimizer_rules, tuning_rules)
