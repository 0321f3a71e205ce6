"""Serving: lengths, cache types, and what each engine refuses at its start."""

from collections.abc import Iterator

from planner.errors import Issue
from planner.scenario.choices import ENGINES, GGUF_KV_DTYPES, GGUF_TYPES, KV_DTYPES, WEIGHTS
from planner.scenario.rules.applicability import POOLED
from planner.scenario.rules.facts import PhaseFacts
from planner.scenario.rules.step import beyond
from planner.scenario.serving import Serving

LLAMA_CPP_WEIGHTS = (*GGUF_TYPES, "fp32", "bf16", "fp16", "mxfp4", "nvfp4")
LLAMA_CPP_CACHES = (*GGUF_KV_DTYPES, "fp32", "bf16", "fp16")
OTHER_CACHES = ("fp32", "bf16", "fp16", "fp8", "int8")


def length_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Context, prompt and their distribution. vLLM refuses a `max_model_len` above the model's own."""
    serving, model = facts.phase, facts.model
    context = serving.context_length
    if model and model.max_positions and model.task == "causal-lm" and context > model.max_positions:
        refused = model.learned_positions or serving.engine in ("vllm", "tensorrt-llm")
        yield beyond(facts, "context_length", context, model, refused=refused)
    if serving.prompt_tokens and serving.prompt_tokens > context:
        yield facts.issue("prompt_beyond_context", "prompt_tokens", context=context)
    spread = serving.context_distribution
    if spread:
        rising = [length for length in (spread.mean, spread.p95, spread.max, context) if length is not None]
        if rising != sorted(rising):
            yield facts.issue("distribution_order", "context_distribution")


def format_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Which formats of weights and cache an engine knows.

    llama.cpp: `ggml_type` of its files, and `kv_cache_types` in common/arg.cpp; a quantized V cache needs flash
    attention (`llama_init_from_model`).
    """
    serving = facts.phase
    engine = ENGINES[serving.engine]
    llama = serving.engine == "llama.cpp"
    foreign = serving.weights not in LLAMA_CPP_WEIGHTS if llama else _gguf_refused(serving)
    if foreign:
        yield facts.issue("weights_of_other_engine", "weights", engine=engine, weights=WEIGHTS[serving.weights])
    caches = LLAMA_CPP_CACHES if llama else OTHER_CACHES
    if serving.kv_cache_dtype not in caches:
        dtype = KV_DTYPES[serving.kv_cache_dtype]
        yield facts.issue("cache_type_of_other_engine", "kv_cache_dtype", engine=engine, dtype=dtype, legal=caches)
    values = "kv_cache_dtype" if serving.value_cache_dtype is None else "value_cache_dtype"
    value_type = getattr(serving, values)
    if llama and values == "value_cache_dtype" and value_type not in LLAMA_CPP_CACHES:
        yield facts.issue("cache_type_of_other_engine", values, engine=engine, dtype=value_type, legal=caches)
    elif llama and value_type in GGUF_KV_DTYPES and serving.flash_attention is False:
        yield facts.issue("quantized_cache_needs_flash", values, legal=("fp16",))


def drafter_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """A smaller model that drafts must be named."""
    serving = facts.phase
    drafter = serving.drafter
    if serving.speculative_tokens and drafter.method == "draft-model" and drafter.model is None:
        yield facts.issue("draft_model_missing", "drafter.model")


def _gguf_refused(serving: Serving) -> bool:
    return serving.weights in GGUF_TYPES and serving.engine == "tensorrt-llm"


def policy_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """How the engine divides the GPU.

    Above 0.95 vLLM's own advice is to go lower (its troubleshooting guide, and the many out-of-memory reports at 0.98).
    """
    serving = facts.phase
    if serving.engine not in POOLED:
        return
    if (serving.gpu_memory_utilization or 0) > 0.95:
        yield facts.issue("utilization_high", "gpu_memory_utilization", "warning")
    slots, requests = serving.max_num_seqs, serving.concurrent_sequences
    if slots is not None and slots * serving.parallelism.data < requests:
        slots = slots * serving.parallelism.data
        yield facts.issue("fewer_slots", "max_num_seqs", "warning", slots=slots, requests=requests)
    batched = serving.max_num_batched_tokens
    if serving.chunked_prefill is False and batched is not None and batched < serving.context_length:
        yield facts.issue("batch_below_context", "max_num_batched_tokens", context=serving.context_length)


SERVING_RULES = (length_rules, format_rules, drafter_rules, policy_rules)
SIZE_RULES = (length_rules, policy_rules)
"""Those that refuse a number of requests or a length for its own sake."""
