"""What the engines built on torch share: weights with the rotary table, forward activations, and the cache."""

from planner.engine.kv_cache import CachePolicy, WindowTokens, kv_cache_terms
from planner.engine.quantization import cache_element_bytes, weight_terms
from planner.engine.rounding import ceil_div
from planner.engine.servers.division import GRAPHS
from planner.engine.servers.workload import LOADED, RUNNING, ServingWorkload, feed_forward_width, vocabulary
from planner.engine.term import Factor, Number, Term
from planner.hardware import ChosenGpu, Overhead, Overheads
from planner.model.spec import Attention

VOCABULARY_MULTIPLE = 64
"""vLLM and its kin pad the vocabulary to this before they divide it (VocabParallelEmbedding)."""


def engine_weights(load: ServingWorkload) -> tuple[Term, ...]:
    """The weights on one GPU, and the cosines and sines of all positions, which the engine computes once."""
    terms = weight_terms(
        load.spec, load.weights, load.tensor_parallel, LOADED,
        pipeline=load.pipeline, expert_parallel=load.expert_parallel, vocab_multiple=VOCABULARY_MULTIPLE,
        experts_as_linear=True,
    )  # fmt: skip
    rotary = _rotary_width(load)
    if load.spec.max_positions and rotary:
        factors = (
            Factor("positions", load.spec.max_positions), Factor("rotated dim", rotary),
            Factor("bytes", 4 if load.weights == "fp32" else 2),
        )  # fmt: skip
        source = "vllm/model_executor/layers/rotary_embedding: cos and sin of half the rotated dimension, made once"
        terms += (Term("weights", "rotary table", factors, LOADED, source),)
    return terms


def engine_cache(load: ServingWorkload, window_tokens: WindowTokens, block: int, source: str) -> tuple[Term, ...]:
    """Cache of all sequences of one replica at full context, in blocks."""
    policy = CachePolicy(cache_element_bytes(load.cache_type), block, window_tokens, source=source)
    return kv_cache_terms(
        load.spec, policy, RUNNING,
        sequences=load.sequences, tokens=load.context_tokens,
        tensor_parallel=load.tensor_parallel, pipeline=load.pipeline,
    )  # fmt: skip


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


def _rotary_width(load: ServingWorkload) -> int:
    mixers = (group.mixer for group in load.spec.stack.groups)
    return max((int(m.head_dim * m.rotary_share) for m in mixers if isinstance(m, Attention)), default=0)
