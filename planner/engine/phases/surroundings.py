"""Host RAM and disk around each phase that runs a model, from the rules in `host` and `storage`."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from planner.engine import host, storage
from planner.engine.components import trained_part
from planner.engine.optimizer import ParameterTensor, parameter_tensors, state_terms
from planner.engine.phases.methods import method_tensors, trained_layers, virtual_tokens
from planner.engine.phases.role_host import waiting_terms
from planner.engine.plan import Surroundings
from planner.engine.term import Factor, Term
from planner.model.counts import parameters
from planner.model.spec import ModelSpec
from planner.model.weights import weights
from planner.scenario.hardware import Hardware
from planner.scenario.host_work import Checkpoints, DataLoading, Loading
from planner.scenario.parallelism import Parallelism
from planner.scenario.phases import Design, Evaluation, FineTuning
from planner.scenario.step import ModelRun, TrainingStep

WEIGHT_BYTES = {"fp32": 4, "tf32": 4, "amp-fp16": 4, "amp-bf16": 4}
"""Bytes per weight as a training step keeps it; every other precision keeps two."""
FORMAT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
"""Widths that adapters and published checkpoints come in."""
PIXEL_BYTES = 4
USUAL_SIDE = 224
"""Of images for models that take any size (torchvision's presets)."""
LOGS_SOURCE = "as the scenario says"


def design_surroundings(phase: Design, spec: ModelSpec, hardware: Hardware) -> Surroundings:
    """The model is built at random on the CPU, or on the meta device, which takes nothing; nothing is stored."""
    share = host.NodeShare.of(phase.parallelism.ranks, hardware.gpus_per_node)
    if phase.smoke_test in ("construct", "shapes"):
        return Surroundings(host.runtime_terms(share))
    width = WEIGHT_BYTES.get(phase.precision, 2)
    return Surroundings((*host.runtime_terms(share), host.built_term(parameters(spec), width, share.ranks)))


def training_surroundings(
    phase: TrainingStep, spec: ModelSpec, hardware: Hardware, *, saved_activation_bytes: int = 0
) -> Surroundings:
    """Training or fine-tuning. `saved_activation_bytes` of one GPU count where activations are offloaded."""
    share = host.NodeShare.of(phase.parallelism.ranks, hardware.gpus_per_node)
    trained = trained_tensors(phase, spec)
    activations: tuple[Term, ...] = ()
    if phase.offload.activations == "cpu" and saved_activation_bytes:
        activations = host.activation_offload_terms(saved_activation_bytes, share)
    running = (
        *_loader(phase.data_loading, phase.micro_batch_size, _sample_bytes(phase, spec), share),
        *_offloaded(phase, trained, share),
        *activations,
        *waiting_terms(phase, spec, share),
    )
    loading = _loading(phase.loading, spec, WEIGHT_BYTES.get(phase.precision, 2), share, phase.parallelism)
    ram = (*host.runtime_terms(share), *host.fuller(loading, running))
    published = spec.dtype if spec.dtype in FORMAT_BYTES else "bf16"
    plan = checkpoint_plan(phase.checkpoints, phase.parallelism, share)
    saved = storage.checkpoint_terms(
        trained, phase.optimizer, phase.optimizer_implementation, plan,
        master_weights=phase.precision.endswith("-fp32-master"),
    )  # fmt: skip
    base = storage.weight_file_terms(spec, published, "base model", published=True)
    disk = (
        *(() if phase.loading.strategy == "from_scratch" else base),
        *saved,
        *_exports(phase.checkpoints, spec),
        *_nvme_terms(phase, sum(tensor.elements * tensor.multiplicity for tensor in trained)),
    )
    told = {"checkpoints": storage.written(saved, plan)}
    return Surroundings(ram, tuple(item for item in disk if item.bytes), told)


def evaluation_surroundings(phase: Evaluation, spec: ModelSpec, hardware: Hardware) -> Surroundings:
    """Loading, the loader's batches, and the logits that the loop moves to the host."""
    share = host.NodeShare.of(phase.parallelism.ranks, hardware.gpus_per_node)
    width = WEIGHT_BYTES.get(phase.precision, 2)
    running = list(_loader(phase.data_loading, phase.batch_size, _sample_bytes(phase, spec), share))
    if spec.head is not None:
        scored = phase.sequence_length if phase.logits == "all" and spec.head.kind == "vocabulary" else 1
        kept = phase.accumulated_samples
        running += (
            host.gathered_logits_terms(phase.batch_size, scored, spec.head.outputs, share)
            if kept is None
            else host.accumulated_logits_terms(kept, scored, spec.head.outputs, share)
        )
    loading = _loading(phase.loading, spec, width, share, phase.parallelism)
    name = "fp32" if width == 4 else "bf16"
    return Surroundings(
        (*host.runtime_terms(share), *host.fuller(loading, running)),
        storage.weight_file_terms(spec, name, "base model", published=True),
    )


def checkpoint_plan(asked: Checkpoints, spread: Parallelism, share: host.NodeShare) -> storage.CheckpointPlan:
    """How checkpoints are written: by every server at once where states are sharded, unless it is said otherwise."""
    sharded = spread.zero_stage > 0 if asked.sharded is None else asked.sharded
    return storage.CheckpointPlan(
        asked.contents == "resumable", asked.kept, asked.milestones, int(share.nodes) if sharded else 1,
        asked.minutes_between, asked.write_gb_per_s,
    )  # fmt: skip


@lru_cache(maxsize=256)
def trained_tensors(phase: TrainingStep, spec: ModelSpec) -> tuple[ParameterTensor, ...]:
    """What the optimizer updates: all weights, or those that the method trains."""
    spec = trained_part(spec)
    if isinstance(phase, FineTuning):
        lora = phase.lora if phase.uses_adapters else None
        width = WEIGHT_BYTES.get(phase.precision, 2)
        chosen = method_tensors(spec, phase.method, lora, trained_layers(phase) or 0, virtual_tokens(phase), width)
        if chosen is not None:
            return chosen
    return parameter_tensors(weights(spec), WEIGHT_BYTES.get(phase.precision, 2))


def _loading(
    asked: Loading, spec: ModelSpec, width: int, share: host.NodeShare, spread: Parallelism
) -> tuple[Term, ...]:
    """Loading by who does it; weights that are sharded are loaded once per server unless it is said otherwise."""
    strategy = asked.strategy
    if strategy in ("automatic", "from_scratch"):
        strategy = "one_process" if spread.zero_stage == 3 else "every_process"
    copies = {"every_process": share.ranks, "one_process": 1, "streamed": 0}[strategy]
    checkpoint = host.Checkpoint(
        parameters(spec), width, FORMAT_BYTES.get(asked.file_dtype or "", width), _largest(spec),
        asked.file_format == "pickle", asked.shard_bytes,
    )  # fmt: skip
    readers = share.ranks if strategy == "streamed" else None
    if asked.strategy == "from_scratch":
        return (host.built_term(parameters(spec), width, copies),)
    terms = host.loading_terms(checkpoint, copies=copies, readers=readers)
    if strategy == "every_process" and spread.backend in ("fsdp1", "fsdp2"):
        terms += (host.sharding_copies_term(checkpoint.parameters, width, share),)
    return terms


@lru_cache(maxsize=64)
def _largest(spec: ModelSpec) -> int:
    return max((tensor.elements for tensor in parameter_tensors(weights(spec), 4)), default=0)


def _loader(asked: DataLoading, count: int, automatic_bytes: int, share: host.NodeShare) -> tuple[Term, ...]:
    stated = asked.bytes_per_sample
    samples = host.Samples(
        count, stated or automatic_bytes, 1 if stated else int(host.amounts()["batch_tensors"].value)
    )
    return (
        *host.worker_terms(asked.workers, share.ranks, start=asked.worker_start, copied_bytes=asked.copied_bytes),
        *host.loader_terms(
            samples, share.ranks, workers=asked.workers, prefetch=asked.prefetch_factor, pinned=asked.pin_memory
        ),
    )


def _sample_bytes(phase: ModelRun, spec: ModelSpec) -> int:
    """What a loader hands over for one sample: tokens, or an image in fp32."""
    image = next((stack.image for stack in spec.stacks if stack.image is not None), None)
    if image is not None and spec.stacks[0].image is image:
        side = phase.image_size or image.image_size or USUAL_SIDE
        return image.channels * side**2 * PIXEL_BYTES
    return int(host.token_sample_bytes(phase.sequence_length))


def _offloaded(phase: TrainingStep, trained: Sequence[ParameterTensor], share: host.NodeShare) -> tuple[Term, ...]:
    """What waits in host RAM, as the sharding software keeps it."""
    count = sum(tensor.elements * tensor.multiplicity for tensor in trained)
    optimizer, weights_there = phase.offload.optimizer == "cpu", phase.offload.parameters == "cpu"
    states = sum(
        int(item.bytes)
        for item in state_terms(phase.optimizer, phase.optimizer_implementation, trained, host.HOST, state_bytes=4)
    )
    per_parameter = states / count if count else 0
    buffers = host.nvme_buffer_terms(share) if phase.offload.parameters == "nvme" else ()
    if phase.parallelism.backend in ("fsdp1", "fsdp2") and (optimizer or weights_there):
        width = trained[0].dtype_bytes if trained else 4
        return host.fsdp_offload_terms(count, share, width=width, state_bytes=per_parameter * width / 4)
    sharded = phase.parallelism.zero_stage == 3
    kept = round(per_parameter, 3)
    offloaded = host.offload_terms(
        count, share, optimizer=optimizer, weights=weights_there, initialised_sharded=sharded, state_bytes=kept
    )
    return (*offloaded, *buffers)


def _exports(asked: Checkpoints, spec: ModelSpec) -> tuple[Term, ...]:
    """The finished model in the formats it is served in, and the logs of the run."""
    terms = [term for name in asked.exports for term in storage.weight_file_terms(spec, name, f"exported as {name}")]
    if asked.log_bytes:
        logs = (Factor("bytes", asked.log_bytes),)
        terms.append(Term("overhead", "logs", logs, storage.STORAGE, LOGS_SOURCE))
    return tuple(terms)


def _nvme_terms(phase: TrainingStep, trained: int) -> tuple[Term, ...]:
    kinds: Mapping[str, tuple[int, str]] = {
        "optimizer states": (12, phase.offload.optimizer),
        "weights": (2, phase.offload.parameters),
    }
    source = "ZeRO-Infinity (arXiv 2104.07857): fp32 weights and both averages, and 16-bit weights, on NVMe"
    return tuple(
        Term("optimizer_states" if width > 2 else "weights", f"{name} on NVMe",
             (Factor("parameters", trained), Factor("bytes", width)), storage.STORAGE, source)
        for name, (width, place) in kinds.items()
        if place == "nvme"
    )  # fmt: skip
