"""llama.cpp: the last layers on the GPU, a cache beside them, and one buffer as large as the largest graph.

Rules: src/llama-model.cpp (placement), src/llama-kv-cache.cpp, ggml/src/ggml-alloc.c; checked against the buffer sizes
that llama.cpp prints at start (ggml-org/llama.cpp and ikawrakow/ik_llama.cpp logs).
"""

from dataclasses import replace
from typing import Any

from planner.engine.gguf import GgufMix, GgufSizes, gguf_sizes
from planner.engine.kv_cache import CachePolicy, kv_cache_terms, total_bytes
from planner.engine.overhead import llama_cpp_overhead
from planner.engine.quantization import cache_element_bytes, weight_format
from planner.engine.rounding import ceil_div, round_up, smaller
from planner.engine.servers.adapters import adapter_terms
from planner.engine.servers.division import Holdings, ServerPlan, pool_tokens, single
from planner.engine.servers.drafts import as_draft, drafted_load
from planner.engine.servers.workload import LOADED, RUNNING, ServingWorkload, vocabulary
from planner.engine.term import Factor, Number, Term
from planner.errors import PlannerError
from planner.hardware import ChosenGpu, Overheads
from planner.model.spec import Attention, LatentAttention, ModelSpec
from planner.units import GIB

PADDING = 256
"""Cells of a sequence's cache are rounded up to this."""
DEFAULT_MICRO_BATCH = 512
FILE_TYPES = {"fp32": "f32", "bf16": "f16", "fp16": "f16", "mxfp4": "mxfp4_moe"}
"""GGUF file type that a format of other engines corresponds to; bf16 and f16 are equally wide."""
SCORES_SOURCE = (
    "src/llama-graph.cpp build_attn: K times Q in fp32 for the whole context; 164.00 and 2144.00 MiB for Mistral 7B at "
    "2048 and 32768 tokens (fedora-copr/logdetective#106)"
)
COPYING_BATCH = 32
"""Tokens from which the CUDA backend multiplies with weights that lie on the host (ggml-cuda.cu offload_op)."""
COPY_SOURCE = "ggml/src/ggml-cuda/ggml-cuda.cu offload_op: 742 MiB more for a head of 151 936 x 2 560 in 16 bits"
GRAPH_INPUTS = "graph inputs"
"""The term that llama.cpp prints as its host compute buffer."""
COMPUTE_SOURCE = (
    "ggml/src/ggml-alloc.c: one buffer as large as the graph's fullest point; checked against printed sizes"
)


def plan_llama_cpp(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads) -> ServerPlan:
    """How llama.cpp places a model on the GPU that judges; `pipeline` or `tensor` GPUs share the layers evenly."""
    sizes = _sizes(load)
    layers = len(sizes.layers)
    wanted = layers + 1 if load.gpu_layers is None else min(load.gpu_layers, layers + 1)
    on_gpu, has_head = min(wanted, layers), wanted > layers
    cards = load.gpus
    own_layers = ceil_div(on_gpu, cards)
    micro_batch = load.micro_batch or DEFAULT_MICRO_BATCH
    draft = _draft(load, micro_batch)
    adapters = adapter_terms(replace(load, tensor_parallel=1, pipeline=cards))
    weights = (*_weights(sizes, own_layers, has_head), *adapters, *draft.weights)
    cache = (*_cache(load, own_layers / layers, micro_batch), *draft.cache)
    whole_cache = (*_cache(load, 1.0, micro_batch), *draft.cache)
    head_copied = 0 if has_head or not on_gpu else _head_bytes(sizes)
    compute = (*_compute(load, micro_batch, has_head, head_copied), *draft.activation)
    overhead = llama_cpp_overhead(chosen.gpu, overheads, ("load", *RUNNING)).terms
    host = _host(load, sizes, layers - on_gpu, has_head, micro_batch)

    held = Holdings(weights, cache, compute, overhead)
    total = chosen.capacities.usable_bytes
    need_bytes = held.weights_bytes + held.cache_bytes + held.activation_bytes + held.non_torch_bytes
    room = None if total is None else total - need_bytes + held.cache_bytes
    whole = Holdings(weights, whole_cache, compute, overhead)
    return ServerPlan(
        held,
        need_bytes=need_bytes,
        capacity_bytes=total,
        budget=held.budget(total, total, held.cache_bytes),
        tokens_available=pool_tokens(room, held, load, PADDING),
        refusal=_refusal(need_bytes, total),
        buffers={
            "model_total_bytes": sizes.total,
            "model_gpu_bytes": _gpu_bytes(sizes, on_gpu, has_head),
            "kv_bytes": whole.cache_bytes - whole.state_bytes,
            "compute_bytes": held.activation_bytes,
            "host_bytes": total_bytes(item for item in host if item.name == GRAPH_INPUTS),
            "state_bytes": whole.state_bytes,
        },
        host=host,
    )


def _refusal(need_bytes: Any, total: int | None) -> str | None:
    """What llama.cpp says when a buffer does not fit."""
    if total is None or not single(need_bytes) or need_bytes <= total:
        return None
    return (
        f"cudaMalloc failed: out of memory: llama.cpp asks for {need_bytes / GIB:.2f} GiB of weights, cache and "
        "compute buffers. Put fewer layers on the GPU (-ngl), shorten the context or quantize the cache."
    )


def _sizes(load: ServingWorkload) -> GgufSizes:
    mix = weight_format(FILE_TYPES.get(load.weights, load.weights))
    if not isinstance(mix, GgufMix):
        raise PlannerError(
            f"llama.cpp reads GGUF files; '{load.weights}' is not a GGUF type. Choose one, such as q4_k_m."
        )
    return gguf_sizes(load.spec, mix)


def _gpu_bytes(sizes: GgufSizes, on_gpu: int, has_head: bool) -> int:
    """The last layers, and the head with the final norm; a tied head is a second copy of the token table."""
    head = _head_bytes(sizes)
    return sum(sizes.layers[len(sizes.layers) - on_gpu :]) + (head if has_head else 0)


def _weights(sizes: GgufSizes, layers: int, has_head: bool) -> tuple[Term, ...]:
    source = "src/llama-model.cpp: the last layers and then the head go to the GPU; the token table stays on the host"
    held = sizes.layers[len(sizes.layers) - layers :]
    terms = [Term("weights", "layers", (Factor("bytes in the file", sum(held), f"{layers} layers"),), LOADED, source)]
    if has_head:
        head = _head_bytes(sizes)
        note = "a tied head is copied" if sizes.tied else ""
        terms.append(Term("weights", "head", (Factor("bytes in the file", head, note),), LOADED, source))
    return tuple(terms)


def _draft(load: ServingWorkload, micro_batch: int) -> Holdings:
    """A draft model (`-md`): whole on the GPU, with a context as long as the model's and buffers of its own.

    Its cache stays in 16 bits whatever the model's is (`-ctkd`, `-ctvd` in common/arg.cpp).
    """
    drafted = drafted_load(load)
    if drafted is None:
        return Holdings((), (), (), ())
    drafted = replace(drafted, cache_type="fp16", value_cache_type=None)
    sizes = _sizes(drafted)
    has_head = drafted.spec.head is not None
    return Holdings(
        as_draft(_weights(sizes, len(sizes.layers), has_head)),
        as_draft(_cache(drafted, 1.0, micro_batch)),
        as_draft(_compute(drafted, micro_batch, has_head, 0)),
        (),
    )


def _cache(load: ServingWorkload, share: float, micro_batch: int) -> tuple[Term, ...]:
    """The cache of the layers on this GPU: `share` of all of them."""
    context = round_up(load.context_tokens, PADDING)

    def held(window: int, tokens: Number) -> Number:
        cells: Number = tokens if load.full_window else smaller(round_up(window + micro_batch, PADDING), tokens)
        return cells

    values = None if load.value_cache_type is None else cache_element_bytes(load.value_cache_type)
    policy = CachePolicy(
        cache_element_bytes(load.cache_type), 1, held, state_bytes=4, conv_bytes=4, value_bytes=values,
        source="src/llama-kv-cache.cpp: K and V of every cell; the context is padded to 256",
    )  # fmt: skip
    terms = kv_cache_terms(load.spec, policy, RUNNING, sequences=load.sequences, tokens=context)
    if share == 1.0:
        return terms
    part = Factor("share of layers here", share)
    return tuple(Term(t.component, t.name, (*t.factors, part), t.alive, t.source) for t in terms)


def _head_bytes(sizes: GgufSizes) -> int:
    return sizes.output + (sizes.token_embedding if sizes.tied else 0)


def _reserved(load: ServingWorkload, micro_batch: int) -> Number:
    """Tokens the buffers are reserved for: min(n_ctx, n_ubatch), in src/llama-context.cpp."""
    reserved: Number = smaller(micro_batch, load.sequences * round_up(load.context_tokens, PADDING))
    return reserved


def _compute(load: ServingWorkload, micro_batch: int, has_head: bool, copied_head_bytes: int) -> tuple[Term, ...]:
    """The graph's fullest point: its output, or without flash attention the attention scores of one layer.

    A head on the host is copied to the GPU for batches of 32 tokens and more, and its output is made there.
    """
    hidden = load.spec.stack.hidden_size
    on_gpu = has_head or (copied_head_bytes and micro_batch >= COPYING_BATCH)
    scored = vocabulary(load.spec) if on_gpu else 0
    outputs = scored + hidden if scored else 4 * hidden
    widths = Factor("vocabulary + hidden" if scored else "four tensors of the hidden width", outputs)
    batch, width = Factor("micro-batch", _reserved(load, micro_batch)), Factor("bytes", 4)
    at_output = RUNNING if load.flash_attention else ("sampling", "decode")
    logits = [Term("activations", "compute buffer", (batch, widths, width), at_output, COMPUTE_SOURCE)]
    if on_gpu and not has_head:
        copied = (Factor("bytes in the file", copied_head_bytes),)
        logits.append(Term("activations", "compute buffer, head", copied, at_output, COPY_SOURCE))
    if load.flash_attention:
        return tuple(logits)
    heads, context = _heads(load.spec), round_up(load.context_tokens, PADDING)
    widest = Factor("widths", (heads + 1) * context + 4 * hidden, f"scores of {heads} heads, mask, 4 x {hidden}")
    factors = (batch, widest, width)
    return *logits, Term("activations", "compute buffer, attention scores", factors, ("prefill",), SCORES_SOURCE)


def _host(load: ServingWorkload, sizes: GgufSizes, layers: int, has_head: bool, micro_batch: int) -> tuple[Term, ...]:
    """Host memory: the token table, layers left there, inputs of the graph, and one row of logits per sequence."""
    source = "src/llama-context.cpp: host compute and output buffers, as llama.cpp prints them"
    left = sum(sizes.layers[:layers]) + sizes.token_embedding + (0 if has_head else sizes.output)
    context = round_up(load.context_tokens, PADDING)
    inputs: Number = _reserved(load, micro_batch) * (load.spec.stack.hidden_size + context) * 4
    return (
        Term("overhead", "weights on the host", (Factor("bytes in the file", left),), ("host_ram",), source),
        Term("overhead", GRAPH_INPUTS, (Factor("bytes", inputs, "micro-batch x (hidden + context) x 4"),),
             ("host_ram",), source),
        Term("overhead", "logits", (Factor("vocabulary", vocabulary(load.spec)), Factor("sequences", load.sequences),
                                    Factor("bytes", 4)), ("host_ram",), source),
    )  # fmt: skip


def _heads(spec: ModelSpec) -> int:
    mixers = (group.mixer for group in spec.stack.groups)
    return max((mixer.heads for mixer in mixers if isinstance(mixer, Attention | LatentAttention)), default=0)
