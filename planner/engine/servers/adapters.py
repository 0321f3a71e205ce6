"""LoRA adapters served together: places on the GPU, each as wide as the widest adapter, filled or not.

    bytes = places x layers x rank x (own inputs + own outputs) x width     per adapted matrix

vLLM gives every linear layer of the language model places (lora/model_manager.py `_create_lora_modules`), and keeps
one of the two matrices whole on each rank unless they are fully sharded: A of what is divided by outputs, B of what is
divided by inputs (lora/layers/base_linear.py `create_lora_weights`). SGLang gives places to the asked-for layers,
divided likewise (srt/lora/mem_pool.py `get_lora_A_shape`, `get_lora_B_shape`). llama.cpp and PEFT hold the adapters
themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from planner.engine.quantization import stage_weights
from planner.engine.servers.versions import version_number, vllm_rules
from planner.engine.servers.workload import LOADED, ServingWorkload
from planner.engine.term import Factor, Term
from planner.model.counts import lora_targets, shard_elements
from planner.model.spec import Head
from planner.model.weights import Weight

WIDTHS = {"fp32": 4, "bf16": 2, "fp16": 2}
FP32_ENGINES = ("llama.cpp", "transformers")
"""convert_lora_to_gguf.py writes fp32 unless told otherwise; PEFT's `autocast_adapter_dtype` makes 16-bit ones fp32."""
SOURCES = {
    "vllm": "vllm/lora/layers/base_linear.py create_lora_weights: (places, rank, inputs) and (places, outputs, rank)",
    "sglang": "python/sglang/srt/lora/mem_pool.py: buffers of max_loras_per_batch adapters for each target module",
    "tensorrt-llm": (
        "tensorrt_llm/_torch/pyexecutor/_util.py PeftCacheConfig: device cache of max_loras adapters of every module"
    ),
    "llama.cpp": "src/llama-adapter.cpp: A and B of each adapter beside the tensor they belong to",
    "transformers": "peft/tuners/lora/layer.py: lora_A and lora_B of each adapter, fp32 unless cast",
}


@dataclass(frozen=True, slots=True)
class Place:
    """The two matrices of one adapted matrix on one rank, in elements per unit of rank."""

    inputs: int
    outputs: int
    copies: int


def adapter_terms(load: ServingWorkload) -> tuple[Term, ...]:
    """All places for adapters on one GPU."""
    served = load.adapters
    if served is None:
        return ()
    wide = load.weights == "fp32" or load.engine in FP32_ENGINES
    width = WIDTHS[served.dtype] if served.dtype else 4 if wide else 2
    found = tuple(_places(load))
    inputs = sum(place.inputs * place.copies for place in found)
    outputs = sum(place.outputs * place.copies for place in found)
    source = SOURCES[load.engine]
    shared = (Factor("adapters", served.count), Factor("rank", served.rank))
    return tuple(
        Term("weights", name, (*shared, Factor(side, elements, "over all adapted matrices"), Factor("bytes", width)),
             LOADED, source)
        for name, side, elements in (("adapter places, A", "inputs", inputs), ("adapter places, B", "outputs", outputs))
        if elements
    )  # fmt: skip


def _places(load: ServingWorkload) -> Iterator[Place]:
    assert load.adapters is not None
    targets = load.adapters.targets
    chosen = {weight for weight, _ in lora_targets(load.spec, targets)}
    main = load.spec.stack.name
    for weight, copies in stage_weights(load.spec, load.pipeline):
        if weight.stack not in (main, "head", ""):
            continue
        if weight.kind == "expert" and _adapts_experts(load):
            yield from _expert_places(load, weight, copies)
        elif weight in chosen or (load.engine == "vllm" and _is_linear(weight)):
            yield _place(load, weight, copies)
    if load.engine == "vllm" and load.spec.model_type in vllm_rules().lora_embedding_models:
        yield from _vocabulary_places(load)


def _is_linear(weight: Weight) -> bool:
    return weight.kind in ("linear", "conv1d") and weight.block != "head"


def _place(load: ServingWorkload, weight: Weight, copies: int) -> Place:
    """A stays whole where the outputs are divided, and B where the inputs are."""
    outputs, inputs = weight.shape if weight.kind != "conv1d" else weight.shape[::-1]
    own = shard_elements(weight, load.tensor_parallel)
    sharded = load.adapters is not None and load.adapters.fully_sharded
    if weight.shard == "column":
        return Place(ceil(inputs / load.tensor_parallel) if sharded else inputs, ceil(own / inputs), copies)
    if weight.shard == "row":
        return Place(ceil(own / outputs), ceil(outputs / load.tensor_parallel) if sharded else outputs, copies)
    return Place(inputs, outputs, copies)


def _adapts_experts(load: ServingWorkload) -> bool:
    """vLLM since 0.11.1 (vllm-project/vllm#21229); SGLang where they are asked for."""
    if load.engine == "vllm":
        number = version_number(load.version or vllm_rules().assumed_version)
        return number is None or number >= vllm_rules().lora_experts_from
    return load.engine == "sglang" and load.adapters is not None and load.adapters.targets == "all-linear"


def _expert_places(load: ServingWorkload, weight: Weight, copies: int) -> Iterator[Place]:
    """Of each expert; gate and up have an A each (lora/layers/fused_moe.py)."""
    if len(weight.shape) != 3:
        return
    experts, first, second = weight.shape
    outputs, inputs = (second, first) if weight.transposed else (first, second)
    slices = 2 if weight.role == "gate_up_proj" else 1
    spread = ceil(experts / load.expert_parallel)
    inner = 1 if load.expert_parallel > 1 else load.tensor_parallel
    if weight.shard == "row":
        yield Place(ceil(inputs / inner), outputs, copies * spread)
    else:
        yield Place(slices * inputs, ceil(outputs / inner), copies * spread)


def _vocabulary_places(load: ServingWorkload) -> Iterator[Place]:
    """Whole on every rank: A of the token table and B of the head have a row per word.

    lora/layers/vocab_parallel_embedding.py, logits_processor.py; before 0.12 also 256 words of each adapter's own.
    """
    head, hidden = load.spec.head, load.spec.stack.hidden_size
    if not isinstance(head, Head) or head.kind != "vocabulary":
        return
    rules = vllm_rules()
    number = version_number(load.version or rules.assumed_version)
    extra = 0 if number is None or number >= rules.lora_vocabulary_below else rules.lora_extra_vocabulary
    yield Place(head.outputs + extra, hidden, 1)
    yield Place(hidden, head.outputs + extra, 1)
