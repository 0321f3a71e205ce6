"""Host RAM and disk around each phase that runs a model, from the rules in `host` and `storage`."""

from collections.abc import Sequence
from functools import lru_cache

from planner.engine import host, storage
from planner.engine.optimizer import ParameterTensor, parameter_tensors
from planner.engine.phases.methods import method_tensors, trained_layers, virtual_tokens
from planner.engine.plan import Surroundings
from planner.engine.quantization import weight_terms
from planner.engine.term import Factor, Term
from planner.model.counts import parameters
from planner.model.spec import ModelSpec
from planner.model.weights import weights
from planner.scenario.hardware import Hardware
from planner.scenario.phases import Design, Evaluation, FineTuning
from planner.scenario.serving import Serving
from planner.scenario.step import TrainingStep

WEIGHT_BYTES = {"fp32": 4, "tf32": 4, "amp-fp16": 4, "amp-bf16": 4}
"""Bytes per weight as a training step keeps it; every other precision keeps two."""
ADAPTER_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
"""Widths that adapters and published checkpoints come in."""


def design_surroundings(phase: Design, spec: ModelSpec, hardware: Hardware) -> Surroundings:
    """The model is built at random on the CPU (or on the meta device, which takes nothing) and nothing is stored."""
    share = host.NodeShare.of(phase.parallelism.ranks, hardware.gpus_per_node)
    width = WEIGHT_BYTES.get(phase.precision, 2)
    built = () if phase.smoke_test == "construct" else _loading(spec, width, share, per_rank=True)
    return Surroundings((*host.runtime_terms(share), *built), ())


def training_surroundings(
    phase: TrainingStep, spec: ModelSpec, hardware: Hardware, *, saved_activation_bytes: int = 0
) -> Surroundings:
    """Training or fine-tuning. `saved_activation_bytes` of one GPU count where activations are offloaded."""
    spread, offload = phase.parallelism, phase.offload
    share = host.NodeShare.of(spread.ranks, hardware.gpus_per_node)
    width = WEIGHT_BYTES.get(phase.precision, 2)
    sharded = spread.zero_stage == 3
    count = parameters(spec)
    trained = trained_tensors(phase, spec)
    trained_count = sum(tensor.elements * tensor.multiplicity for tensor in trained)
    offloaded = host.offload_terms(
        trained_count, share, optimizer=offload.optimizer == "cpu", weights=offload.parameters == "cpu",
        initialised_sharded=sharded,
    )  # fmt: skip
    activations: tuple[Term, ...] = ()
    if offload.activations == "cpu" and saved_activation_bytes:
        activations = host.activation_offload_terms(saved_activation_bytes, share)
    sample = host.token_sample_bytes(phase.sequence_length)
    running = (*host.loader_terms(phase.micro_batch_size, sample, share), *offloaded, *activations)
    loading = host.loading_terms(count, width, share, per_rank=not sharded)
    ram = (*host.runtime_terms(share), *host.fuller(loading, running))
    published = spec.dtype if spec.dtype in ADAPTER_BYTES else "bf16"
    disk = [
        *storage.weight_file_terms(spec, published, "base model"),
        *storage.checkpoint_terms(
            trained, phase.optimizer, phase.optimizer_implementation,
            master_weights=phase.precision.endswith("-fp32-master"),
        ),
        *_nvme_terms(phase, trained_count),
    ]  # fmt: skip
    return Surroundings(ram, tuple(item for item in disk if item.bytes))


def evaluation_surroundings(phase: Evaluation, spec: ModelSpec, hardware: Hardware) -> Surroundings:
    """Loading, the loader's batches, and the logits of a batch that the loop moves to the host."""
    share = host.NodeShare.of(phase.parallelism.ranks, hardware.gpus_per_node)
    width = WEIGHT_BYTES.get(phase.precision, 2)
    running = list(host.loader_terms(phase.batch_size, host.token_sample_bytes(phase.sequence_length), share))
    if spec.head is not None:
        scored = phase.sequence_length if phase.logits == "all" and spec.head.kind == "vocabulary" else 1
        running += host.gathered_logits_terms(phase.batch_size, scored, spec.head.outputs, share)
    loading = _loading(spec, width, share, per_rank=True)
    name = "fp32" if width == 4 else "bf16"
    return Surroundings(
        (*host.runtime_terms(share), *host.fuller(loading, running)), storage.weight_file_terms(spec, name)
    )


def serving_surroundings(
    phase: Serving, spec: ModelSpec, hardware: Hardware, engine_terms: Sequence[Term] = ()
) -> Surroundings:
    """Processes, loading through the page cache, and the engine's own host buffers (`ServingPlan.host_terms`)."""
    share = host.NodeShare.of(phase.parallelism.ranks, hardware.gpus_per_node)
    size = sum(int(item.bytes) for item in weight_terms(spec, phase.weights, 1, host.HOST))
    loading = Term(
        "overhead", "page cache of the weight files", (Factor("bytes", size, f"all tensors in {phase.weights}"),),
        host.HOST, "safetensors and GGUF files are memory-mapped: every page read stays cached while there is room",
    )  # fmt: skip
    swap: tuple[Term, ...] = ()
    if phase.engine == "vllm" and phase.engine_version is not None and phase.engine_version.endswith("V0"):
        known = host.amounts()["vllm_swap"]
        factors = (Factor("GPUs", share.ranks), known.factor("bytes"))
        swap = (Term("overhead", "swap space", factors, host.HOST, known.source),)
    ram = (*host.runtime_terms(share), loading, *swap, *engine_terms)
    return Surroundings(ram, storage.weight_file_terms(spec, phase.weights, "served weights"))


@lru_cache(maxsize=256)
def trained_tensors(phase: TrainingStep, spec: ModelSpec) -> tuple[ParameterTensor, ...]:
    """What the optimizer updates: all weights, or those that the method trains."""
    if isinstance(phase, FineTuning):
        lora = phase.lora if phase.uses_adapters else None
        width = WEIGHT_BYTES.get(phase.precision, 2)
        chosen = method_tensors(spec, phase.method, lora, trained_layers(phase) or 0, virtual_tokens(phase), width)
        if chosen is not None:
            return chosen
    return parameter_tensors(weights(spec), WEIGHT_BYTES.get(phase.precision, 2))


def _loading(spec: ModelSpec, width: int, share: host.NodeShare, *, per_rank: bool) -> tuple[Term, ...]:
    return host.loading_terms(parameters(spec), width, share, per_rank=per_rank)


def _nvme_terms(phase: TrainingStep, trained: int) -> tuple[Term, ...]:
    kinds = [
        ("optimizer states", 12, phase.offload.optimizer),
        ("weights", 2, phase.offload.parameters),
    ]
    source = "ZeRO-Infinity (arXiv 2104.07857): fp32 weights and both averages, and 16-bit weights, on NVMe"
    return tuple(
        Term("overhead", f"{name} on NVMe", (Factor("parameters", trained), Factor("bytes", width)), storage.STORAGE,
             source)
        for name, width, place in kinds
        if place == "nvme"
    )  # fmt: skip
