"""What the engines built on torch share: weights with the rotary table, forward activations, and the cache."""

from functools import lru_cache

from planner.engine.kv_cache import CachePolicy, WindowTokens, kv_cache_terms
from planner.engine.quantization import cache_element_bytes, stage_weights, weight_terms
from planner.engine.rounding import ceil_div
from planner.engine.servers.adapters import adapter_terms
from planner.engine.servers.division import GRAPHS
from planner.engine.servers.drafts import (
    OWN_LAYER,
    as_draft,
    drafted_caches,
    drafted_load,
    drafts_itself,
    head_terms,
)
from planner.engine.servers.host_weights import kept_on_gpu
from planner.engine.servers.rotary import rotary_terms
from planner.engine.servers.versions import shares_draft_head
from planner.engine.servers.workload import LOADED, RUNNING, ServingWorkload, feed_forward_width, vocabulary
from planner.engine.term import Factor, Number, Term
from planner.hardware import ChosenGpu, Overhead, Overheads
from planner.model.counts import shard_elements
from planner.model.prediction import copied_heads, drafting_modules
from planner.model.spec import Attention, DenseFeedForward, MixtureOfExperts, ModelSpec

VOCABULARY_MULTIPLE = 64
"""vLLM and its kin pad the vocabulary to this before they divide it (VocabParallelEmbedding)."""
COPIES_SOURCE = (
    "vllm/model_executor/models/deepseek_mtp.py SharedHead, shared with the model since vllm-project/vllm#34385; "
    "v1/spec_decode/eagle.py: beside a pipeline the draft's token table is loaded separately"
)


def engine_weights(load: ServingWorkload) -> tuple[Term, ...]:
    """The weights on one GPU, and the cosines and sines of all positions, which the engine computes once."""
    return _engine_weights(load.spec, load.weights, load.tensor_parallel, load.pipeline, load.expert_share, load.engine)


@lru_cache(maxsize=512)
def _engine_weights(
    spec: ModelSpec, weights: str, tensor_parallel: int, pipeline: int, expert_share: float, engine: str
) -> tuple[Term, ...]:
    terms = weight_terms(
        spec, weights, tensor_parallel, LOADED,
        pipeline=pipeline, expert_parallel=expert_share, vocab_multiple=VOCABULARY_MULTIPLE, experts_as_linear=True,
    )  # fmt: skip
    return *terms, *rotary_terms(spec, weights, engine)


def served_weights(load: ServingWorkload) -> tuple[Term, ...]:
    """The weights, the places of adapters, and what drafts tokens: the model's own layers, or what stands beside it."""
    own = engine_weights(load)
    if load.host_weights_bytes:
        own = kept_on_gpu(own, load.host_weights_bytes)
    if load.adapters is None and not load.speculative_tokens:
        return own
    drafted = drafted_load(load)
    draft = () if drafted is None else as_draft(engine_weights(drafted))
    return (*own, *adapter_terms(load), *head_terms(load), *module_terms(load), *draft)


def padding_term(load: ServingWorkload, multiple: int) -> tuple[Term, ...]:
    """MXFP4 kernels pad the hidden dimension of expert matrices; gpt-oss: 2880 becomes 3072, 6.7 % of the experts."""
    hidden = load.spec.stack.hidden_size
    short = -hidden % multiple
    if load.weights != "mxfp4" or not short:
        return ()
    elements = sum(
        copies * shard_elements(weight, load.tensor_parallel, load.expert_share)
        for weight, copies in stage_weights(load.spec, load.pipeline)
        if weight.kind == "expert" and len(weight.shape) == 3
    )
    factors = (
        Factor("expert weights", elements), Factor("share", short / hidden, f"{hidden} padded to {hidden + short}"),
        Factor("bytes", 17 / 32),
    )  # fmt: skip
    source = "vllm/model_executor/layers/quantization/mxfp4.py; 13.47 GiB logged for gpt-oss-20b, 12.80 unpadded"
    return (Term("weights", "padding of expert matrices", factors, LOADED, source),) if elements else ()


def module_terms(load: ServingWorkload) -> tuple[Term, ...]:
    """The prediction layers (MTP) of the model itself, which engines load when it drafts its own next tokens.

    Token table and head are the model's: vLLM gives them to the draft (v1/spec_decode/eagle.py `load_model`), SGLang
    skips the copies in the file and sets the model's (models/deepseek_nextn.py, `set_embed_and_head`), TensorRT-LLM
    hands them over (_torch/models/modeling_speculative.py). vLLM shares the head inside each module of DeepSeek's and
    GLM's kind since vllm-project/vllm#34385 only, and has a token table of its own on the last stage of a pipeline.
    """
    if not load.speculative_tokens or load.draft_method not in OWN_LAYER or not drafts_itself(load.spec):
        return ()
    modules = weight_terms(
        drafting_modules(load.spec), load.weights, load.tensor_parallel, LOADED,
        expert_parallel=load.expert_share, vocab_multiple=VOCABULARY_MULTIPLE, experts_as_linear=True,
    )  # fmt: skip
    copies = 0
    if load.engine == "vllm":
        heads = 0 if shares_draft_head(load.version) else copied_heads(load.spec)
        copies = heads + (load.pipeline > 1)
    if not copies:
        return as_draft(modules)
    rows = ceil_div(vocabulary(load.spec), VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    factors = (
        Factor("copies", copies), Factor("vocabulary", ceil_div(rows, load.tensor_parallel)),
        Factor("hidden", load.spec.stack.hidden_size), Factor("bytes", 4 if load.weights == "fp32" else 2),
    )  # fmt: skip
    own = Term("weights", "own token table and head", factors, LOADED, COPIES_SOURCE)
    return as_draft((*modules, own))


def engine_cache(load: ServingWorkload, window_tokens: WindowTokens, block: int, source: str) -> tuple[Term, ...]:
    """Cache of all sequences of one replica at full context, in blocks."""
    policy = CachePolicy(
        cache_element_bytes(load.cache_type),
        block,
        window_tokens,
        kernel_columns_less=1,
        packs_sparse=load.packs_sparse,
        source=source,
    )
    own = kv_cache_terms(
        load.cached_spec, policy, RUNNING,
        sequences=load.sequences, tokens=load.context_tokens, encoder_tokens=load.encoder_tokens,
        tensor_parallel=load.tensor_parallel, pipeline=load.pipeline,
    )  # fmt: skip
    if not load.speculative_tokens:
        return own
    drafted = drafted_caches(load)
    return own + tuple(
        term for other in drafted for term in as_draft(engine_cache(other, window_tokens, block, source))
    )


def forward_term(load: ServingWorkload, tokens: Number, alive: tuple[str, ...]) -> Term:
    """Activations of the widest layer for one forward pass over `tokens`.

    Gate, up and their product, divided by tensor parallelism, and three tensors of the hidden width: within 0.5 % of
    vLLM 0.6.4 logs of two prompt lengths on RTX 3090, 5 % below one on T4.
    """
    inner = ceil_div(feed_forward_width(load.spec), load.tensor_parallel)
    hidden = load.spec.stack.hidden_size
    factors = (
        Factor("tokens per step", tokens),
        Factor("widths", 3 * inner + 3 * hidden, f"3 x {inner} + 3 x {hidden}"),
        Factor("bytes", 4 if load.weights == "fp32" else 2),
    )
    source = "gate, up and product beside input, residual and output of a layer; checked against vLLM 0.6.4 logs"
    return Term("activations", "forward pass", factors, alive, source)


def logits_term(load: ServingWorkload, sequences: int) -> Term:
    """Scores of the last position of every sequence of a step, in fp32."""
    factors = (
        Factor("sequences per step", sequences), Factor("vocabulary", vocabulary(load.spec)), Factor("bytes", 4),
    )  # fmt: skip
    source = "sglang/srt/layers/logits_processor.py, tensorrt_llm/_torch/pyexecutor/sampler.py: fp32 logits of one step"
    return Term("logits", "logits of one step", factors, ("sampling", "decode"), source)


def torch_overhead(load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads, *, graphs: bool) -> tuple[Term, ...]:
    """Context, communication buffers and captured graphs, from the catalogue's allowances."""
    parts: list[tuple[str, Overhead, tuple[str, ...]]] = [
        ("CUDA context and libraries", overheads.context_overhead(chosen.gpu), LOADED),
        ("communication buffers", overheads.nccl_overhead(chosen.gpu, load.gpus, training=False), LOADED),
    ]
    if graphs:
        parts.append((GRAPHS, overheads.cuda_graphs_overhead(chosen.gpu), RUNNING))
    return tuple(
        Term("overhead", name, (Factor("bytes", part.bytes),), alive, part.source)
        for name, part, alive in parts
        if part.bytes
    )


def widest_layer(load: ServingWorkload) -> int:
    """Elements per token inside the widest layer of one rank: gate, up and product, or queries, keys, values and mix.

    Experts are left out: their rows have workspaces of their own.
    """
    widths = [0]
    for group in load.spec.stack.groups:
        feed_forward, mixer = group.feed_forward, group.mixer
        if isinstance(feed_forward, MixtureOfExperts):
            feed_forward = feed_forward.shared or feed_forward.dense
        if isinstance(feed_forward, DenseFeedForward):
            widths.append((3 if feed_forward.gated else 2) * ceil_div(feed_forward.size, load.tensor_parallel))
        if isinstance(mixer, Attention):
            heads = 2 * ceil_div(mixer.heads, load.tensor_parallel) + 2 * ceil_div(mixer.kv_heads, load.tensor_parallel)
            widths.append(heads * mixer.head_dim)
    return max(widths)
