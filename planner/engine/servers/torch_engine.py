"""What the engines built on torch share: weights with the rotary table, forward activations, and the cache."""

from dataclasses import replace
from functools import lru_cache

from planner.engine.kv_cache import CachePolicy, WindowTokens, kv_cache_terms, total_bytes
from planner.engine.quantization import cache_element_bytes, stage_weights, weight_terms
from planner.engine.rounding import ceil_div
from planner.engine.servers.adapters import adapter_terms
from planner.engine.servers.division import GRAPHS
from planner.engine.servers.drafts import OWN_LAYER, as_draft, drafted_caches, drafted_load, head_terms
from planner.engine.servers.rotary import rotary_terms
from planner.engine.servers.versions import vllm_rules
from planner.engine.servers.workload import LOADED, RUNNING, ServingWorkload, feed_forward_width, vocabulary
from planner.engine.term import Factor, Number, Term
from planner.hardware import ChosenGpu, Overhead, Overheads
from planner.model.counts import shard_elements
from planner.model.spec import Attention, DenseFeedForward, MixtureOfExperts, ModelSpec

VOCABULARY_MULTIPLE = 64
"""vLLM and its kin pad the vocabulary to this before they divide it (VocabParallelEmbedding)."""


def engine_weights(load: ServingWorkload) -> tuple[Term, ...]:
    """The weights on one GPU, and the cosines and sines of all positions, which the engine computes once."""
    return _engine_weights(
        load.spec, load.weights, load.tensor_parallel, load.pipeline, load.expert_parallel, load.engine
    )


@lru_cache(maxsize=512)
def _engine_weights(
    spec: ModelSpec, weights: str, tensor_parallel: int, pipeline: int, expert_parallel: int, engine: str
) -> tuple[Term, ...]:
    terms = weight_terms(
        spec, weights, tensor_parallel, LOADED,
        pipeline=pipeline, expert_parallel=expert_parallel, vocab_multiple=VOCABULARY_MULTIPLE, experts_as_linear=True,
    )  # fmt: skip
    return *terms, *rotary_terms(spec, weights, engine)


def served_weights(load: ServingWorkload) -> tuple[Term, ...]:
    """The weights, the places of adapters, and what drafts tokens beside the model."""
    if load.adapters is None and not load.speculative_tokens:
        return engine_weights(load)
    drafted = drafted_load(load)
    draft = () if drafted is None else as_draft(engine_weights(drafted))
    return (*engine_weights(load), *adapter_terms(load), *head_terms(load), *draft)


def padding_term(load: ServingWorkload, multiple: int) -> tuple[Term, ...]:
    """MXFP4 kernels pad the hidden dimension of expert matrices; gpt-oss: 2880 becomes 3072, 6.7 % of the experts."""
    hidden = load.spec.stack.hidden_size
    short = -hidden % multiple
    if load.weights != "mxfp4" or not short:
        return ()
    elements = sum(
        copies * shard_elements(weight, load.tensor_parallel, load.expert_parallel)
        for weight, copies in stage_weights(load.spec, load.pipeline)
        if weight.kind == "expert" and len(weight.shape) == 3
    )
    factors = (
        Factor("expert weights", elements), Factor("share", short / hidden, f"{hidden} padded to {hidden + short}"),
        Factor("bytes", 17 / 32),
    )  # fmt: skip
    source = "vllm/model_executor/layers/quantization/mxfp4.py; 13.47 GiB logged for gpt-oss-20b, 12.80 unpadded"
    return (Term("weights", "padding of expert matrices", factors, LOADED, source),) if elements else ()


def draft_term(load: ServingWorkload, families: tuple[str, ...]) -> tuple[Term, ...]:
    """The layer that a model drafts its own next tokens with (MTP): its last layer again, and a projection of two."""
    if not load.speculative_tokens or load.draft_method not in OWN_LAYER or load.spec.model_type not in families:
        return ()
    stack = load.spec.stack
    last = next(i for i in reversed(range(len(stack.groups))) if not hasattr(stack.groups[i].mixer, "state_elements"))
    longer = replace(stack.groups[last], count=stack.groups[last].count + 1)
    groups = (*stack.groups[:last], longer, *stack.groups[last + 1 :])
    deeper = replace(load.spec, stacks=(replace(stack, groups=groups), *load.spec.stacks[1:]))
    with_draft, without = (
        total_bytes(engine_weights(replace(load, spec=spec, pipeline=1))) for spec in (deeper, load.spec)
    )
    factors = (Factor("bytes", with_draft - without + 4 * stack.hidden_size**2, "a layer, and 2 x hidden to hidden"),)
    source = "vllm/model_executor/models/*_mtp.py: one decoder layer beside fc; loaded when it drafts"
    return (Term("weights", "draft layer", factors, LOADED, source),)


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
    drafted = drafted_caches(load, vllm_rules().draft_layer_models)
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
