"""Fields that depend on another one: where they apply, and what to say where they do not."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.errors import Issue, Severity
from planner.scenario.choices import ENGINES
from planner.scenario.declaration import Declared
from planner.scenario.roles import FrozenModel, FurtherModel, RolloutEngine
from planner.scenario.rules.facts import TEXT_TASKS, ModelFacts, PhaseFacts, has_field
from planner.scenario.serving_parts import ImagePipeline
from planner.scenario.step import LossFields

IMAGE_READER = "image-text-to-text"


@dataclass(frozen=True, slots=True)
class Dependence:
    """A field that only means something while `applies` holds.

    `why` completes "This changes nothing: …" (a warning) or "This does not apply: …" (an error).
    """

    field: str
    applies: Callable[[PhaseFacts], bool]
    why: str
    severity: Severity = "warning"


def _while(field: str, condition: Callable[[Any], bool], why: str, severity: Severity = "warning") -> Dependence:
    """A field that depends on others of its phase."""
    return Dependence(field, lambda facts: condition(facts.phase), why, severity)


def _reinforced(field: str) -> Dependence:
    return _while(field, lambda p: p.objective in ("ppo", "grpo"), "only PPO and GRPO generate and judge answers")


def _for_models(field: str, condition: Callable[[ModelFacts], bool], why: str, severity: Severity) -> Dependence:
    """A field that depends on the model; it applies as long as that is not known."""
    return Dependence(field, lambda facts: facts.model is None or condition(facts.model), why, severity)


def _for_engines(field: str, engines: tuple[str, ...]) -> Dependence:
    """A setting that only some serving engines have."""
    names = " and ".join(ENGINES[engine] for engine in engines)
    verb = "has" if len(engines) == 1 else "have"
    return _while(field, lambda p: p.engine in engines, f"only {names} {verb} such a setting", "error")


def _computed(field: str) -> Dependence:
    return _while(field, lambda p: getattr(p, "computes_loss", True), "no loss is computed")


def _chunked(field: str) -> Dependence:
    return _while(field, lambda p: p.loss_implementation == "chunked", "the loss is not chunked")


def _adapters(field: str) -> Dependence:
    return _while(field, lambda p: p.uses_adapters, "the method trains no adapters")


def _fields(part: str, kind: type[Declared]) -> tuple[str, ...]:
    """The part itself and what it holds: the group of a form shows when the part applies."""
    return (part, *(f"{part}.{field}" for field in kind.model_fields))


def _copied(field: str) -> Dependence:
    return _while(
        field,
        lambda p: p.objective != "sft" and (p.roles.reference == "copy" or _copies_by_default(p)),
        "there is no copy of the policy",
    )


def _copies_by_default(phase: Any) -> bool:
    return phase.roles.reference == "automatic" and not phase.uses_adapters


def _engine(field: str) -> Dependence:
    return _while(
        field,
        lambda p: p.objective in ("ppo", "grpo") and p.roles.rollout_engine != "policy",
        "there is no rollout engine",
    )


def _described_once(part: str) -> tuple[Dependence, ...]:
    """A role's model is a preset, or has a configuration, or is only so large."""
    named = _while(
        f"{part}.parameters", lambda p: getattr(p, part).preset is None, "the preset says how large it is", "error"
    )
    told = _while(
        f"{part}.parameters",
        lambda p: getattr(p, part).config_json is None,
        "the configuration says how large it is",
        "error",
    )
    known = _while(
        f"{part}.config_json", lambda p: getattr(p, part).preset is None, "the preset has a configuration", "error"
    )
    return named, told, known


def _adapted(field: str) -> Dependence:
    return _while(field, lambda p: p.adapters.count > 0, "no adapters are served")


def _backend(field: str, backends: tuple[str, ...], why: str) -> Dependence:
    return _while(field, lambda p: p.parallelism.backend in backends, why)


def _of_profiles(field: str, profiles: tuple[str, ...], why: str, severity: Severity) -> Dependence:
    """A setting that only some of the software that trains has."""
    return _while(field, lambda p: p.activation_profile in profiles, why, severity)


NOT_LITGPT = ("hf-transformers", "megatron-core", "torchtitan", "torchtune", "composer-mpt")
"""LitGPT trains with DDP and FSDP alone (`litgpt/pretrain.py`, `litgpt/finetune/*.py`)."""
NOT_MEGATRON = ("hf-transformers", "torchtitan", "torchtune", "litgpt", "composer-mpt")
EXCHANGES_HEADS = ("hf-transformers", "megatron-core", "composer-mpt")
"""Software with Ulysses: DeepSpeed's, and Megatron Core's `cp_comm_type` `a2a`. torchtitan and torchtune call torch's
`context_parallel`, whose keys and values go round a ring."""
POOLED = ("vllm", "sglang", "tensorrt-llm")
"""Engines that set a pool of cache blocks aside, and refuse to start when a rule of theirs is broken."""
ENGINE_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "gpu_memory_utilization": POOLED,
    "max_num_batched_tokens": POOLED,
    "max_num_seqs": POOLED,
    "chunked_prefill": POOLED,
    "prefix_caching": POOLED,
    "block_size": POOLED,
    "kv_cache_memory_bytes": ("vllm", "tensorrt-llm"),
    "max_total_tokens": ("sglang", "tensorrt-llm"),
    "state_cache_slots": ("sglang",),
    "speculative_tokens": (*POOLED, "llama.cpp"),
    "gpu_layers": ("llama.cpp",),
    "value_cache_dtype": ("llama.cpp",),
    "adapters.fully_sharded": ("vllm",),
    "ubatch_size": ("llama.cpp",),
    "flash_attention": ("llama.cpp",),
    "memory_map": ("llama.cpp",),
    "lock_memory": ("llama.cpp",),
    "swap_space_bytes": ("vllm",),
    "cpu_offload_bytes": ("vllm", "sglang"),
    "host_cache_bytes": POOLED,
    "host_cache_ratio": ("sglang",),
    "swa_full": ("llama.cpp",),
    "attention_implementation": ("transformers",),
    "experts_implementation": ("transformers",),
}
"""Settings of a serving engine, and the engines that have them."""

KIND_FIELDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("tokens_per_sample", "padded_tokens", "stored_bytes_per_token", "packs"), ("text",)),
    **dict.fromkeys(("image_height", "image_width", "output_height", "output_width"), ("images", "video")),
    **dict.fromkeys(("seconds_per_sample", "sampling_rate"), ("audio",)),
    "frames_per_sample": ("video",),
    "columns": ("tabular",),
    "sample_type": ("images", "video", "audio", "tabular"),
}
"""Fields of preprocessing, and the kinds of data that have them."""


def _of_kinds(field: str, kinds: tuple[str, ...]) -> Dependence:
    return _while(field, lambda p: p.kind in kinds, "this kind of data has no such thing")


def _has_gpu_preparation(phase: Any) -> bool:
    kinds = {"none": (phase.kind,), "decode": ("images", "video"), "dataframe": ("tabular",)}
    return phase.kind in kinds[phase.gpu_preprocessing]


BEGINS_AT_RANDOM = _while(
    "loading.strategy",
    lambda p: p.loading.strategy != "from_scratch" or (hasattr(p, "optimizer") and not hasattr(p, "method")),
    "only training begins with random weights",
    "error",
)
SERVING_DEPENDENCES = (
    BEGINS_AT_RANDOM,
    *(_for_engines(field, engines) for field, engines in ENGINE_SETTINGS.items()),
    _adapted("adapters.rank"),
    _adapted("adapters.target_modules"),
    _adapted("adapters.dtype"),
    _adapted("adapters.fully_sharded"),
    _while("drafter.method", lambda p: p.speculative_tokens > 0, "no tokens are guessed ahead"),
    _while("drafter.model", lambda p: p.drafter.method == "draft-model", "no smaller model guesses tokens"),
    _while("drafter.vocabulary", lambda p: p.drafter.method == "eagle3", "no EAGLE-3 head guesses tokens"),
    *(
        _for_models(field, lambda m: m.task == "diffusion", "the model makes no images", "error")
        for field in ("images", *(f"images.{name}" for name in ImagePipeline.model_fields))
    ),
    _for_models("image_height", lambda m: m.task not in TEXT_TASKS, "the model makes no images", "error"),
    _for_models("image_width", lambda m: m.task not in TEXT_TASKS, "the model makes no images", "error"),
)
PREPARING_DEPENDENCES = (
    *(_of_kinds(field, kinds) for field, kinds in KIND_FIELDS.items()),
    _while("mel_bins", lambda p: p.kind == "audio", "only recordings become spectra"),
    _while("gpu_preprocessing", _has_gpu_preparation, "no GPU prepares this kind of data so", "error"),
    _while("gpu_queue_depth", lambda p: p.gpu_preprocessing == "decode", "nothing waits on the GPU"),
    _while("python_lists", lambda p: p.kind != "text", "tokens always pass through Python lists"),
    _while("worker_start", lambda p: p.workers > 0, "there are no workers"),
    _while("copied_bytes", lambda p: p.workers > 0, "there are no workers"),
    _while("packs", lambda p: p.kept_prepared, "prepared samples are not stored"),
)
STEP_DEPENDENCES = (
    _while("selective_policy", lambda p: p.activation_checkpointing == "selective", "checkpointing is not selective"),
    _while("checkpointing_reentrant", lambda p: p.activation_checkpointing != "none", "checkpointing is off"),
    *(_computed(field) for field in LossFields.model_fields if field != "keeps_outputs"),
    _chunked("loss_chunks"),
    _chunked("loss_chunk_tokens"),
    _chunked("loss_keeps_logits"),
    _while(
        "checkpoint_interval",
        lambda p: p.activation_checkpointing == "selective" and p.selective_policy == "every-nth-layer",
        "the selective policy is not one layer in n",
    ),
    _while(
        "gradient_accumulation_dtype",
        lambda p: (
            p.precision.endswith("-fp32-master") or (p.precision == "fp8" and p.activation_profile == "megatron-core")
        ),
        "without a master copy gradients have the type of their weights",
    ),
    _while(
        "optimizer_implementation",
        lambda p: p.activation_profile != "megatron-core",
        "Megatron Core updates with fused kernels of its own",
    ),
    _while("fp8_recipe", lambda p: p.precision == "fp8", "the precision is not fp8"),
    _while("fp8_all_gather", lambda p: p.precision == "fp8", "the precision is not fp8"),
    _adapters("lora.rank"),
    _adapters("lora.target_modules"),
    _adapters("lora.dropout"),
    _adapters("lora.rank_stabilized"),
    _adapters("lora.adapter_dtype"),
    _while("base_quantization", lambda p: p.method == "qlora", "only QLoRA trains beside quantized weights", "error"),
    _while("roles", lambda p: p.objective != "sft", "supervised tuning has no further model"),
    _while("roles.reference", lambda p: p.objective != "sft", "supervised tuning has no further model"),
    _while(
        "roles.reference",
        lambda p: p.roles.reference != "adapters-off" or p.uses_adapters,
        "the method trains no adapters",
        "error",
    ),
    *(
        _reinforced(f"roles.{field}")
        for field in ("reward_model", "rollout_engine", "rollout_sequences", "policy_sleeps")
    ),
    _while("roles.value_model", lambda p: p.objective == "ppo", "only PPO trains a value model"),
    *(_copied(field) for field in ("roles.reference_model", *_fields("reference", FrozenModel))),
    *(_reinforced(field) for field in _fields("reward", FrozenModel)),
    *(
        _while(field, lambda p: p.objective == "ppo", "only PPO trains a value model")
        for field in _fields("value", FurtherModel)
    ),
    *(_engine(field) for field in _fields("rollout", RolloutEngine)),
    _while(
        "roles.value_update",
        lambda p: p.objective == "ppo" and p.roles.value_model != "apart",
        "no value model is trained beside the policy",
    ),
    _while(
        "roles.value_update",
        lambda p: p.roles.value_update != "together" or p.parallelism.pipeline == 1,
        "TRL, which updates both in one step, has no pipeline",
        "error",
    ),
    _while(
        "rollout.engine", lambda p: p.roles.rollout_engine in ("automatic", "apart"), "the engine is beside the policy"
    ),
    _while("rollout.sleep_level", lambda p: p.rollout.sleeps, "the engine does not sleep"),
    *(rule for part in ("reference", "reward", "value") for rule in _described_once(part)),
    _while(
        "label_smoothing",
        lambda p: p.activation_profile != "megatron-core",
        "Megatron's GPT models compute their loss without it",
        "error",
    ),
    _while(
        "label_smoothing",
        lambda p: not (p.parallelism.loss_parallel and p.parallelism.tensor > 1),
        "PyTorch's parallel loss does not smooth labels",
        "error",
    ),
    _while(
        "label_smoothing",
        lambda p: p.loss_implementation == "full_logits" and not p.compile_loss,
        "a fused, chunked or compiled loss smooths labels as it goes, in no memory of its own",
    ),
    *(
        _while(field, lambda p: p.method == "full", "the method freezes that itself")
        for field in ("freezes_embeddings", "freezes_images")
    ),
    _for_models("freezes_images", lambda m: m.task == IMAGE_READER, "the model has no image tower", "error"),
    BEGINS_AT_RANDOM,
    *(
        _while(f"loading.{field}", lambda p: p.loading.strategy != "from_scratch", "nothing is read from files")
        for field in ("file_format", "file_dtype", "shard_bytes")
    ),
    _while("trained_layers", lambda p: p.method == "last_layers", "the method is not last layers only"),
    _while("virtual_tokens", lambda p: p.method in ("prefix", "prompt"), "the method has no virtual tokens"),
    _while("parallelism.sequence_parallel", lambda p: p.parallelism.tensor > 1, "tensor parallel is 1"),
    _while("parallelism.loss_parallel", lambda p: p.parallelism.tensor > 1, "tensor parallel is 1"),
    _while("parallelism.shard_over_context", lambda p: p.parallelism.context > 1, "context parallel is 1"),
    _while("parallelism.shard_replicas", lambda p: p.parallelism.zero_stage > 0, "nothing is sharded"),
    _while("parallelism.context_parallel_mode", lambda p: p.parallelism.context > 1, "context parallel is 1"),
    _of_profiles("parallelism.tensor", NOT_LITGPT, "LitGPT trains with whole layers on every GPU", "error"),
    _of_profiles("parallelism.pipeline", NOT_LITGPT, "LitGPT trains without a pipeline", "error"),
    _of_profiles("parallelism.context", NOT_LITGPT, "LitGPT trains on whole sequences", "error"),
    _of_profiles("parallelism.context_parallel_mode", EXCHANGES_HEADS, "PyTorch's own has the ring alone", "error"),
    _of_profiles(
        "tiled_mlp", ("hf-transformers",), "only DeepSpeed tiles feed-forwards, those of transformers", "warning"
    ),
    _of_profiles("loss_implementation", NOT_MEGATRON, "Megatron Core has a loss of its own", "warning"),
    _while("parallelism.reported_stage", lambda p: p.parallelism.pipeline > 1, "there is one pipeline stage"),
    _backend("parallelism.gradient_as_bucket_view", ("ddp", "zero-redundancy-optimizer"), "only DDP has buckets"),
    _backend("parallelism.use_orig_params", ("fsdp1",), "only FSDP1 has flat parameters"),
    _backend("parallelism.reshard_after_forward", ("fsdp1", "fsdp2"), "only FSDP gathers weights so"),
    _backend("parallelism.reduces_every_micro_batch", ("fsdp1", "fsdp2"), "only FSDP keeps whole gradients so"),
    _backend("parallelism.fsdp_reduce_dtype", ("fsdp1", "fsdp2"), "FSDP is not used"),
    _while("trial_layers", lambda p: p.smoke_test not in ("construct", "shapes"), "nothing runs in this trial"),
    _while("data_loading.prefetch_factor", lambda p: p.data_loading.workers > 0, "there are no workers"),
    _while("data_loading.worker_start", lambda p: p.data_loading.workers > 0, "there are no workers"),
    _while("data_loading.copied_bytes", lambda p: p.data_loading.workers > 0, "there are no workers"),
    _while("loading.shard_bytes", lambda p: p.loading.file_format == "pickle", "only pickled files are read whole"),
    _for_models("image_size", lambda m: m.sees_images, "the model sees no images", "error"),
    _for_models("image_tokens", lambda m: m.sees_images, "the model sees no images", "error"),
    _for_models("encoded_ahead", lambda m: m.task == "diffusion", "the model is no diffusion pipeline", "error"),
    _for_models("trial_layers", lambda m: m.task != "diffusion", "a denoiser is tried as a whole", "error"),
    _for_models("decoder_sequence_length", lambda m: m.has_decoder, "the model has no separate decoder", "error"),
    _for_models("moe_token_dispatcher", lambda m: m.experts is not None, "the model has no experts", "warning"),
    _for_models("parallelism.expert_tensor", lambda m: m.experts is not None, "the model has no experts", "error"),
    _of_profiles("parallelism.expert_tensor", ("megatron-core",), "only Megatron Core shares experts so", "error"),
    _of_profiles("moe_token_dispatcher", ("megatron-core",), "only Megatron Core offers the choice", "warning"),
    _for_models("experts_implementation", lambda m: m.experts is not None, "the model has no experts", "warning"),
)


def applicability_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Stated fields that cannot apply (errors), or change nothing because another field is off (warnings)."""
    for item in lapsed(facts):
        code = "cannot_apply" if item.severity == "error" else "changes_nothing"
        yield facts.issue(code, item.field, item.severity, why=item.why)


def lapsed(facts: PhaseFacts) -> Iterator[Dependence]:
    """What is stated in a phase, and means nothing while the others are as they are; the first reason of each field."""
    found: set[str] = set()
    for item in _dependences(facts.kind):
        if item.field not in found and facts.differs(item.field) and not item.applies(facts):
            found.add(item.field)
            yield item


def applies(facts: PhaseFacts, field: str) -> bool:
    """Whether a field of this phase means anything while the others are as they are."""
    return all(item.applies(facts) for item in _dependences(facts.kind) if item.field == field)


@cache
def _dependences(kind: type[Declared]) -> tuple[Dependence, ...]:
    """Those whose field a phase has."""
    known = STEP_DEPENDENCES
    if "engine" in kind.model_fields:
        known = SERVING_DEPENDENCES
    elif "samples" in kind.model_fields:
        known = PREPARING_DEPENDENCES
    return tuple(item for item in known if has_field(kind, item.field))
