"""Issues in plain English: what is wrong, and what would be right."""

from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import Issue

WANTED: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "text": "text in quotation marks",
    "list": "a list",
    "object": "an object in braces",
}

REFUSED: Mapping[str, str] = {
    "unknown_field": "There is no field {name} here.",
    "missing": "{label} must be given.",
    "not_finite": "NaN and infinity are not numbers that can be planned with.",
    "wrong_type": "This must be {wanted}, not {value}.",
    "not_a_choice": "{value} is not one of the choices.",
    "bad_text": "{value} is not written as expected. {help}",
    "text_too_long": "This text is longer than {limit} characters.",
    "too_many": "This list has more than {limit} entries.",
    "too_few": "This list needs at least {limit} entry.",
    "model_source": "A model needs exactly one of preset, config, dimensions or parameters.",
    "gpu_entry": "A GPU needs either an id of the catalogue or a name of its own.",
    "custom_gpu": "A GPU of your own needs a name and its memory in GiB.",
    "bad_config": "{flaw}",
}
"""Values that the declarations do not allow."""

CONTRADICTIONS: Mapping[str, str] = {
    "tensor_heads": "{degree} does not divide {heads} attention heads.",
    "tensor_kv_heads": "{degree} ranks can neither divide nor evenly share {kv_heads} key-value heads.",
    "tensor_feed_forward": "{degree} does not divide the feed-forward size {size}.",
    "pipeline_layers": "{stages} stages are more than the model's {layers} layers.",
    "pipeline_uneven": "{layers} layers do not divide into {stages} equal stages; the fullest has {fullest}.",
    "pipeline_of_pyramid": "Pyramids and denoisers are no chain of equal layers; no pipeline of them is known.",
    "interleave_without_pipeline": "Chunks per stage need a pipeline of at least 2 stages.",
    "zero_with_pipeline": "{backend} cannot combine ZeRO stage {stage} with a pipeline: each micro-batch would gather "
    "and reduce everything again. Use stage 0 or 1, FSDP2, or one pipeline stage.",
    "zero_alone": "With one data-parallel rank, ZeRO divides nothing.",
    "zero_backend": "{backend} does not do ZeRO stage {stage}.",
    "too_few_gpus": "This layout needs {needed} GPUs, and only {available} are there. The figures per GPU still hold.",
    "tensor_across_nodes": "{degree} tensor-parallel ranks reach beyond one node of {per_node} GPUs, where every layer "
    "waits for the network.",
    "expert_dense": "The model has no experts to spread.",
    "expert_count": "{degree} does not divide {experts} experts.",
    "shard_replicas": "{groups} groups do not divide the {ranks} data-parallel ranks.",
    "experts_on_whole_sequences": "Beside tensor parallelism, Megatron Core wants sequence parallelism for experts.",
    "expert_ranks": "Experts can be spread over at most the {ranks} GPUs of this layout.",
    "expert_tensor_ranks": "Expert tensor × expert parallelism takes {wanted} GPUs; a stage has {ranks}.",
    "sequence_divides": "{length} tokens do not divide among {degree} ranks.",
    "context_heads": "Ulysses exchanges heads: {degree} does not divide {heads} attention heads.",
    "offload_parameters": "Weights can only wait elsewhere when they are sharded: ZeRO stage 3 or FSDP.",
    "beyond_positions": "{length} tokens are more than the {positions} positions that the model is built for.",
    "beyond_rotary": "{length} tokens are more than the {positions} positions that the model is built for; it runs, "
    "but was not trained for that.",
    "prompt_beyond_context": "The prompt is longer than the whole context of {context} tokens.",
    "distribution_order": "Lengths must rise: mean ≤ 95th percentile ≤ longest ≤ context length.",
    "flash_needs_half": "FlashAttention 2 runs in 16 bits only; {precision} would fall back or fail.",
    "in_backward_accumulates": "Gradients that are used up during backward cannot be accumulated.",
    "in_backward_clips": "Gradients that are used up during backward cannot be clipped by their common norm.",
    "changes_nothing": "This changes nothing: {why}.",
    "cannot_apply": "This does not apply: {why}.",
    "kernels_own": "{optimizer} has one implementation, and uses it whatever is chosen here.",
    "kernels_missing": "{optimizer} has no such implementation.",
    "optimizer_needs_fp32": "{optimizer} fails on weights of 16 bits; train in fp32 or mixed precision.",
    "checkpointing_missing": "transformers refuses checkpointing for models of type {model_type}; turn it off.",
    "prefix_checkpointing": "PEFT refuses checkpointing with prefix tuning, whose keys and values stand in a cache.",
    "quantized_cache_needs_flash": "llama.cpp keeps a quantized KV cache only with flash attention.",
    "draft_model_missing": "Name the smaller model that guesses tokens.",
    "cache_type_of_other_engine": "{engine} has no KV cache type {dtype}.",
    "weights_of_other_engine": "{engine} does not load {weights} weights.",
    "utilization_high": "Above 0.95 nothing is left for what the engine does not count; starts often fail.",
    "fewer_slots": "Only {slots} of {requests} requests run at the same time; the others wait.",
    "batch_below_context": "Without chunked prefill a prompt goes through in one step: {context} tokens do not fit.",
    "no_bf16": "{gpu} cannot compute in bf16.",
    "no_fp8": "{gpu} cannot compute in fp8.",
    "no_fp8_weights": "{gpu} cannot compute in fp8; weights are unpacked on the fly.",
    "no_awq": "{gpu} is too old for the kernels of AWQ, which need compute capability 7.5.",
    "no_fp8_cache": "{gpu} is too old for a KV cache in fp8, which vLLM keeps from compute capability 8.0 on.",
    "fp8_cache_by_flashinfer": "On {gpu}, vLLM keeps a KV cache in fp8 with its FlashInfer backend alone.",
    "no_fp4": "{gpu} cannot compute in 4 bits; weights are unpacked on the fly.",
    "no_flash": "{gpu} cannot run FlashAttention 2.",
    "unknown_gpu": "{message}",
    "judge_not_listed": "{judge} is not among the GPUs.",
    "gpu_twice": "{gpu} is listed twice.",
    "unknown_node": "The catalogue has no node {node}.",
    "heads_divide_width": "{heads} heads do not divide hidden size {width}; give the head dimension.",
    "kv_heads_divide": "{kv_heads} key-value heads do not divide {heads} attention heads.",
    "experts_per_token": "A token cannot go to {chosen} of {experts} experts.",
    "active_above_total": "Active parameters cannot be more than all {parameters}.",
    "nothing_planned": "No phase is planned. Switch one on.",
}
"""What does not go together, or is unwise."""

TEXTS: Mapping[str, str] = {**REFUSED, **CONTRADICTIONS}


def issue_text(issue: Issue) -> str:
    """The issue in plain English, for showing beside its field."""
    parameters = issue.parameters
    if issue.code == "out_of_range":
        return _out_of_range(parameters)
    template = TEXTS.get(issue.code, "This value cannot be used.")
    words = {name: _word(value) for name, value in parameters.items()}
    if "wanted" in words:
        words["wanted"] = WANTED.get(words["wanted"], words["wanted"])
    sentence = template.format_map(words).strip()
    if parameters.get("suggestion"):
        return f"{sentence} Did you mean {words['suggestion']}?"
    if parameters.get("legal"):
        return f"{sentence} Use {_alternatives(parameters['legal'])}."
    return sentence


def issue_line(issue: Issue) -> str:
    """The issue with the path of its field, for terminals and messages."""
    return f"{issue.path}: {issue_text(issue)}" if issue.path else issue_text(issue)


def _out_of_range(parameters: Mapping[str, Any]) -> str:
    low, high = parameters.get("minimum"), parameters.get("maximum")
    unit = f" {parameters['unit']}" if parameters.get("unit") else ""
    if low is None or high is None:
        return f"{parameters['value']} is out of range."
    return f"{parameters['value']} is out of range. Use {_word(low)} to {_word(high)}{unit}."


def _word(value: Any) -> str:
    """A parameter as people read it: thousands apart, no trailing zeros."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if isinstance(value, int) else f"{value:g}"


def _alternatives(values: Sequence[Any]) -> str:
    words = [_word(value) for value in values]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
