"""What one GPU of a serving engine does for a prompt, and for one more token of every request."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from planner.engine.kv_cache import CachePolicy, kv_cache_terms
from planner.engine.quantization import cache_element_bytes
from planner.engine.rounding import ceil_div
from planner.engine.speed.arithmetic import (
    attention_flops,
    decoded_attention_flops,
    encoder_layers,
    head_weights,
    main_layers,
    meetings,
)
from planner.engine.speed.collectives import Group, exchanged
from planner.engine.speed.rates import Rates
from planner.engine.speed.tokens import encoder_tokens
from planner.engine.speed.training_compute import ATTENTION, SIX
from planner.engine.speed.training_traffic import TENSOR
from planner.engine.speed.weights_read import read_bytes, with_visited_experts
from planner.engine.speed.work import Work
from planner.engine.term import Factor
from planner.hardware import Gpu
from planner.model.spec import MixtureOfExperts, ModelSpec
from planner.scenario.serving import Serving

READ = "Pope et al. (arXiv:2211.05102), section 1: each step loads the weights, and its requests' keys and values"
ABSORBED = "A new token attends to all before it; on latents where projections are absorbed (arXiv:2405.04434, 2.1.2)"
OFFLOADED = "vLLM, --cpu-offload-gb: weights on the host are fetched in each forward pass"
HALF = ("bf16", "fp16", "awq-int4", "gptq-int4", "nf4", "nf4-double")
"""Weights that are multiplied as 16-bit numbers, unpacked where they are fewer bits (AWQ, GPTQ, bitsandbytes)."""


@dataclass(frozen=True)
class Served:
    """A serving phase on GPUs of these rates."""

    phase: Serving
    spec: ModelSpec
    rates: Rates
    gpu: Gpu | None

    @property
    def requests(self) -> int:
        """Of one replica."""
        return int(ceil_div(self.phase.concurrent_sequences, self.phase.parallelism.data))

    @property
    def length(self) -> int:
        """Tokens of a request: its mean where that is stated, else as long as it may be."""
        spread = self.phase.context_distribution
        return self.phase.context_length if spread is None else spread.mean

    @property
    def prompt(self) -> int:
        return min(self.phase.prompt_tokens or self.length, self.length)

    @property
    def shared(self) -> Factor:
        layout = self.phase.parallelism
        ranks = layout.tensor * layout.pipeline
        return Factor("share of a GPU", 1 / ranks, f"1 / {ranks}")

    @property
    def on_gpu(self) -> float:
        """The part of the layers that is on the GPU (llama.cpp's --n-gpu-layers; the head counts as one)."""
        whole = self.spec.layers + 1
        return 1.0 if self.phase.gpu_layers is None else min(self.phase.gpu_layers, whole) / whole

    @cached_property
    def rate(self) -> Factor | None:
        """Of products with weights. llama.cpp's are unknown: they are of 8-bit numbers, or add up in 16 bits."""
        kind = self.phase.weights
        supports: frozenset[str] = frozenset() if self.gpu is None else self.gpu.supports
        if self.phase.engine == "llama.cpp" or kind not in (*HALF, "fp32", "fp8", "mxfp4", "nvfp4"):
            return None
        if kind in ("mxfp4", "nvfp4") and "fp4" in supports:
            return self.rates.products.get("fp4")
        if kind in ("fp8", "mxfp4") and "fp8" in supports:
            return self.rates.products.get("fp8")
        return self.rates.products.get("fp32" if kind == "fp32" else "16-bit")

    @property
    def beside_rate(self) -> Factor | None:
        """Of attention, which may work in 8 bits where keys and values do."""
        if self.phase.engine == "llama.cpp":
            return None
        eight = self.phase.kv_cache_dtype == "fp8" and self.rates.products.get("fp8") is not None
        return self.rates.products.get("fp8" if eight else "16-bit")

    def weights_read(self, tokens: int) -> int:
        """Bytes of weights of one stage that a pass over so many tokens reads."""
        layout = self.phase.parallelism
        spec = with_visited_experts(self.spec, tokens)
        stage = read_bytes(spec, self.phase.weights, layout.tensor, layout.pipeline, layout.expert_share)
        return max(0, int(stage * self.on_gpu) - (self.phase.cpu_offload_bytes or 0))

    def cache_bytes(self) -> int:
        """Keys, values and states of all requests of a replica that one GPU holds."""
        phase, layout = self.phase, self.phase.parallelism
        values = None if phase.value_cache_dtype is None else cache_element_bytes(phase.value_cache_dtype)
        policy = CachePolicy(cache_element_bytes(phase.kv_cache_dtype), value_bytes=values)
        terms = kv_cache_terms(
            self.spec,
            policy,
            (),
            sequences=self.requests,
            tokens=self.length,
            tensor_parallel=layout.tensor,
            pipeline=layout.pipeline,
        )
        return int(sum(int(term.bytes) for term in terms) * self.on_gpu)


def prompt_works(served: Served) -> Iterator[Work]:
    """One prompt that waits for nothing, none of it known before."""
    prompt, spec = served.prompt, served.spec
    tokens = Factor("tokens of the prompt", prompt)
    yield from _products(served, (tokens,), 1)
    encoder = encoder_layers(spec)
    if encoder is not None:
        heard = Factor("tokens", encoder_tokens(spec, prompt))
        weights = Factor("weights of the encoder", encoder.weights)
        factors = (Factor("FLOP per weight and token", 2), weights, heard, served.shared)
        yield Work("compute", "encoder", factors, served.rate, SIX)
    flop = attention_flops(spec, prompt, skips=True)
    yield Work("compute", "attention", (Factor("FLOP", flop), served.shared), served.beside_rate, ATTENTION)
    held = Factor("bytes of weights", served.weights_read(prompt))
    yield Work("memory", "reading weights", (held,), served.rates.memory, READ)
    yield from _meetings(served, (tokens,))


def token_works(served: Served) -> Iterator[Work]:
    """One more token of every request of a replica. Stages work in turn, on a part of the requests each."""
    guessed = 1 + served.phase.speculative_tokens
    requests = Factor("requests", served.requests)
    checked = Factor("tokens checked at once", guessed)
    yield from _products(served, (requests, checked), served.requests * guessed)
    flop = Factor("FLOP per request", decoded_attention_flops(served.spec, served.length))
    yield Work("compute", "attention", (flop, requests, checked, served.shared), served.beside_rate, ABSORBED)
    stages = Factor("stages in turn", served.phase.parallelism.pipeline)
    batch = max(1, served.requests * guessed // served.phase.parallelism.pipeline)
    held = Factor("bytes of weights", served.weights_read(batch), _evenly(served, batch))
    yield Work("memory", "reading weights", (held, stages), served.rates.memory, READ)
    cache = Factor("bytes of the cache", served.cache_bytes())
    yield Work("memory", "reading keys and values", (cache,), served.rates.memory, READ)
    away = Factor("bytes of weights on the host", served.phase.cpu_offload_bytes or 0)
    yield Work("host link", "weights from the host", (away, stages), served.rates.host_link, OFFLOADED)
    yield from _meetings(served, (requests, checked))


def _evenly(served: Served, tokens: int) -> str:
    """How many experts are read."""
    for group in with_visited_experts(served.spec, tokens).stack.groups:
        if isinstance(group.feed_forward, MixtureOfExperts):
            return f"{group.feed_forward.experts} experts of a layer, which {tokens} tokens visit if spread evenly"
    return ""


def _products(served: Served, tokens: tuple[Factor, ...], scored: int) -> Iterator[Work]:
    main = main_layers(served.spec)
    if main is None:
        return
    two = Factor("FLOP per weight and token", 2)
    part = () if served.on_gpu == 1 else (Factor("layers on the GPU", served.on_gpu),)
    factors = (two, Factor("weights a token meets", main.weights), *tokens, served.shared, *part)
    yield Work("compute", "products with weights", factors, served.rate, SIX)
    weights = Factor("weights of the head", head_weights(served.spec))
    factors = (two, weights, Factor("tokens scored", scored), served.shared)
    yield Work("compute", "output projection", factors, served.rate, SIX)


def _meetings(served: Served, tokens: tuple[Factor, ...]) -> Iterator[Work]:
    """Tensor-parallel ranks add up what they have after each half of a layer."""
    layout = served.phase.parallelism
    count, stages = meetings(served.spec), layout.pipeline
    met = Factor("meetings", count / stages, f"{count} / {stages} stages" if stages > 1 else "")
    size = (*tokens, Factor("hidden", served.spec.stack.hidden_size), Factor("bytes", 2), met)
    yield from exchanged("all-reduce", "tensor parallel", size, Group(layout.tensor), served.rates, TENSOR)
