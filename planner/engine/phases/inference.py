"""Forward passes without gradients: evaluation, the trials of the design phase, and what `generate` works with."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from planner.engine.activations.lower import PRECISIONS, lower
from planner.engine.activations.recipe import Loss
from planner.engine.activations.setting import Loads
from planner.engine.activations.tape import BYTES
from planner.engine.activations.techniques import PLAIN, EncodedAhead, Techniques
from planner.engine.buffers import buffer_terms
from planner.engine.components import frozen_terms, trained_part
from planner.engine.gathered import expert_ranks, gathered_weights
from planner.engine.quantization import weight_terms
from planner.engine.sharding import Shards, divided
from planner.engine.term import Number, Term
from planner.engine.traced import TracedPhase
from planner.model.spec import Attention, ModelSpec
from planner.scenario.phases import Design, Evaluation
from planner.scenario.serving import Serving

FORWARD = ("forward",)
COMPUTED_IN: Mapping[str, str] = {"fp32": "fp32", "fp16": "fp16"}
"""Dtype in which `generate` computes, by the format of the weights; every other one computes in bf16."""
FIRST_DECODED: Mapping[str, int] = {"seq2seq-lm": 1, "speech-seq2seq": 4}
"""Tokens that a decoder beside an encoder starts from: transformers/generation/utils.py
`_prepare_decoder_input_ids_for_generation` gives one; Whisper is told start, language, task and timestamps
(models/whisper/generation_whisper.py `_retrieve_init_tokens`). The prompt is the encoder's."""


def plan_forward(
    phase: Evaluation | Design,
    spec: ModelSpec,
    *,
    batch: Number,
    sequence: Number,
    logits: str,
    computes_loss: bool,
    loss: Loss = "full_logits",
) -> TracedPhase:
    """One forward pass on one GPU. `loss`: what is made of the logits where a loss is computed."""
    weight_dtype, _ = PRECISIONS[phase.precision]
    parallelism, shards = phase.parallelism, Shards.of(phase.parallelism).weights
    lowered = lower(
        spec,
        Loads(
            batch=batch,
            sequence=sequence,
            decoder_sequence=phase.decoder_sequence_length,
            image_size=phase.image_size,
            tensor_parallel=parallelism.tensor,
            expert_parallel=parallelism.expert,
            expert_tensor=parallelism.ranks_per_expert,
            pipeline=parallelism.pipeline,
        ),
        precision=phase.precision,
        attention=phase.attention_implementation,
        mask=phase.attention_mask,
        version=phase.framework_version,
        training=False,
        loss=loss if computes_loss else "none",
        loss_upcast=phase.loss_upcast,
        use_cache=phase.use_cache,
        logits="last" if logits == "last" else "all",
        experts=phase.experts_implementation,
        techniques=PLAIN
        if phase.encoded_ahead == "nothing"
        else Techniques(encoded_ahead=cast(EncodedAhead, phase.encoded_ahead)),
    )
    weights = weight_terms(
        trained_part(spec),
        weight_dtype,
        parallelism.tensor,
        FORWARD,
        pipeline=parallelism.pipeline,
        expert_parallel=expert_ranks(parallelism, shards),
        keeps_fp32=not phase.framework_version.startswith("transformers 4"),
    )
    weights = (
        *divided(weights, shards),
        *gathered_weights(parallelism, spec, weight_dtype, FORWARD, autocast=phase.precision.startswith("amp-")),
    )
    buffers = buffer_terms(spec, BYTES[weight_dtype], FORWARD, version=phase.framework_version)
    encoders = frozen_terms(spec, phase.encoded_ahead, phase.precision, FORWARD)
    return TracedPhase(lowered, (*weights, *encoders, *buffers), {"forward": "forward"})


def generation_working_set(phase: Serving, spec: ModelSpec) -> tuple[Term, ...]:
    """What transformers' `generate` works with beside weights and cache, at the instants `prefill` and `decode`."""
    dtype = COMPUTED_IN.get(phase.weights, "bf16")
    prompt = phase.prompt_tokens or phase.context_length
    told: list[Term] = []
    first = FIRST_DECODED.get(spec.task)
    for instant, sequence, context in (("prefill", prompt, 0), ("decode", 1, phase.context_length)):
        lowered = lower(
            spec,
            Loads(
                batch=-(-phase.concurrent_sequences // phase.parallelism.data),
                sequence=sequence,
                context=context,
                decoder_sequence=first if instant == "prefill" else None,
                tensor_parallel=phase.parallelism.tensor,
                pipeline=phase.parallelism.pipeline,
            ),
            precision=dtype,
            attention=phase.attention_implementation,
            mask="none",
            version="",
            training=False,
            loss="none",
            use_cache=True,
            cache_filled=instant == "decode",
            logits="last",
            experts=phase.experts_implementation,
        )
        settled = TracedPhase(lowered, buffer_terms(spec, BYTES[dtype], (instant,)), {"forward": instant}).settle()
        tells_cache = instant == "decode" and not lowered.approximations and _caches_everything(phase, spec, dtype)
        told += [item for item in settled.terms() if item.component != "kv_cache"]
        if tells_cache:
            told += [replace(item, alive=("decode",)) for item in settled.terms() if item.component == "kv_cache"]
    return tuple(told)


def _caches_everything(phase: Serving, spec: ModelSpec, dtype: str) -> bool:
    """Whether the cache holds every layer's whole context in the dtype that is computed in."""
    windows = (group.mixer.window for group in spec.stack.groups if isinstance(group.mixer, Attention))
    return phase.kv_cache_dtype == dtype and all(window is None or window > phase.context_length for window in windows)
