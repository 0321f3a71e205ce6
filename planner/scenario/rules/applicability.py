"""Fields that depend on another one: where they apply, and what to say where they do not."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import Issue, Severity
from planner.scenario.choices import ENGINES
from planner.scenario.rules.facts import TEXT_TASKS, ModelFacts, PhaseFacts

Condition = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Dependence:
    """A field that only means something while `applies` holds for its phase."""

    field: str
    applies: Condition
    why: str
    """Completes "This changes nothing: …" or "This does not apply: …"."""
    severity: Severity = "warning"


def _chunked(phase: Any) -> bool:
    return bool(phase.loss_implementation == "chunked")


def _fp8(phase: Any) -> bool:
    return bool(phase.precision == "fp8")


def _adapters(phase: Any) -> bool:
    return bool(phase.uses_adapters)


def _backend(*names: str) -> Condition:
    return lambda phase: phase.parallelism.backend in names


def _engine(*names: str) -> Condition:
    return lambda phase: phase.engine in names


PHASE_DEPENDENCES = (
    Dependence(
        "selective_policy", lambda p: p.activation_checkpointing == "selective", "checkpointing is not selective"
    ),
    Dependence("checkpointing_reentrant", lambda p: p.activation_checkpointing != "none", "checkpointing is off"),
    Dependence("loss_chunks", _chunked, "the loss is not chunked"),
    Dependence("loss_chunk_tokens", _chunked, "the loss is not chunked"),
    Dependence("loss_keeps_logits", _chunked, "the loss is not chunked"),
    Dependence("fp8_recipe", _fp8, "the precision is not fp8"),
    Dependence("fp8_all_gather", _fp8, "the precision is not fp8"),
    Dependence("lora.rank", _adapters, "the method trains no adapters"),
    Dependence("lora.target_modules", _adapters, "the method trains no adapters"),
    Dependence("lora.dropout", _adapters, "the method trains no adapters"),
    Dependence("lora.adapter_dtype", _adapters, "the method trains no adapters"),
    Dependence("trained_layers", lambda p: p.method == "last_layers", "the method is not last layers only"),
    Dependence("virtual_tokens", lambda p: p.method in ("prefix", "prompt"), "the method has no virtual tokens"),
    Dependence("parallelism.sequence_parallel", lambda p: p.parallelism.tensor > 1, "tensor parallel is 1"),
    Dependence("parallelism.loss_parallel", lambda p: p.parallelism.tensor > 1, "tensor parallel is 1"),
    Dependence("parallelism.shard_over_context", lambda p: p.parallelism.context > 1, "context parallel is 1"),
    Dependence("parallelism.context_parallel_mode", lambda p: p.parallelism.context > 1, "context parallel is 1"),
    Dependence("parallelism.reported_stage", lambda p: p.parallelism.pipeline > 1, "there is one pipeline stage"),
    Dependence(
        "parallelism.gradient_as_bucket_view", _backend("ddp", "zero-redundancy-optimizer"), "only DDP has buckets"
    ),
    Dependence("parallelism.use_orig_params", _backend("fsdp1"), "only FSDP1 has flat parameters"),
    Dependence("parallelism.reshard_after_forward", _backend("fsdp1", "fsdp2"), "only FSDP gathers weights so"),
    Dependence("parallelism.fsdp_reduce_dtype", _backend("fsdp1", "fsdp2"), "FSDP is not used"),
)
SERVING_DEPENDENCES: Mapping[str, tuple[str, ...]] = {
    "gpu_memory_utilization": ("vllm", "sglang", "tensorrt-llm"),
    "max_num_batched_tokens": ("vllm", "sglang", "tensorrt-llm"),
    "max_num_seqs": ("vllm", "sglang", "tensorrt-llm"),
    "chunked_prefill": ("vllm", "sglang", "tensorrt-llm"),
    "prefix_caching": ("vllm", "sglang", "tensorrt-llm"),
    "block_size": ("vllm", "sglang", "tensorrt-llm"),
    "kv_cache_memory_bytes": ("vllm",),
    "max_total_tokens": ("sglang", "tensorrt-llm"),
    "state_cache_slots": ("sglang",),
    "speculative_tokens": ("vllm", "sglang", "tensorrt-llm", "llama.cpp"),
    "gpu_layers": ("llama.cpp",),
    "ubatch_size": ("llama.cpp",),
    "flash_attention": ("llama.cpp",),
    "swa_full": ("llama.cpp",),
    "attention_implementation": ("transformers",),
    "experts_implementation": ("transformers",),
}
"""Field to the engines that have such a setting."""


@dataclass(frozen=True, slots=True)
class ModelDependence:
    """A field that only means something for some models."""

    field: str
    applies: Callable[[ModelFacts], bool]
    why: str
    severity: Severity = "error"


MODEL_DEPENDENCES = (
    ModelDependence("image_size", lambda m: m.sees_images or m.task not in TEXT_TASKS, "the model sees no images"),
    ModelDependence("image_tokens", lambda m: m.sees_images or m.task not in TEXT_TASKS, "the model sees no images"),
    ModelDependence("decoder_sequence_length", lambda m: m.has_decoder, "the model has no separate decoder"),
    ModelDependence("image_height", lambda m: m.task not in TEXT_TASKS, "the model makes no images"),
    ModelDependence("image_width", lambda m: m.task not in TEXT_TASKS, "the model makes no images"),
    ModelDependence("moe_token_dispatcher", lambda m: m.experts is not None, "the model has no experts", "warning"),
    ModelDependence("experts_implementation", lambda m: m.experts is not None, "the model has no experts", "warning"),
)


def applicability_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Stated fields that cannot apply (errors), or change nothing because another field is off (warnings)."""
    for field, why, severity in _lapsed(facts):
        if facts.differs(field):
            code = "cannot_apply" if severity == "error" else "changes_nothing"
            yield facts.issue(code, field, severity, why=why)


def applies(facts: PhaseFacts, field: str) -> bool:
    """Whether a field of this phase means anything while the others are as they are."""
    return all(lapsed != field for lapsed, _, _ in _lapsed(facts))


def _lapsed(facts: PhaseFacts) -> Iterator[tuple[str, str, Severity]]:
    """All fields that do not apply now, whether stated or not."""
    if facts.name == "serving":
        for field, engines in SERVING_DEPENDENCES.items():
            if facts.phase.engine not in engines:
                yield field, f"{ENGINES[facts.phase.engine]} has no such setting", "error"
    else:
        for item in PHASE_DEPENDENCES:
            if facts.has(item.field) and not item.applies(facts.phase):
                yield item.field, item.why, item.severity
    if facts.model:
        for dependence in MODEL_DEPENDENCES:
            if facts.has(dependence.field) and not dependence.applies(facts.model):
                yield dependence.field, dependence.why, dependence.severity
