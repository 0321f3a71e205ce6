"""What one GPU moves in a training step: through its memory, to other GPUs, and to its server."""

from collections.abc import Iterator

from planner.engine.phases.gradients import reduces_every_micro_batch
from planner.engine.phases.methods import offloads_gradients
from planner.engine.sharding import gathers_stages
from planner.engine.speed.arithmetic import attending_width, meetings, mixtures
from planner.engine.speed.collectives import Group, Operation, exchanged
from planner.engine.speed.layout import BUBBLE, Step
from planner.engine.speed.work import Work
from planner.engine.term import Factor

WEIGHTS_READ = "Williams et al. 2009 (roofline): what is computed with is read once in each pass at least"
UPDATE = "Each state is read and written once, each gradient read, each weight read and written"
ZERO = "ZeRO (arXiv:1910.02054), section 7: gradients are scattered, weights gathered"
DDP = "torch 2.13 DistributedDataParallel; nccl-tests doc/PERFORMANCE.md: all-reduce"
TENSOR = "Narayanan et al. (arXiv:2104.04473), section 2.3: two all-reduces per layer in each direction"
SEQUENCE = "Korthikanti et al. (arXiv:2205.05198), section 4.2.2: an all-gather and a reduce-scatter in place of each"
RING = "Ring Attention (arXiv:2310.01889): keys and values of the other ranks pass by, in backward with gradients"
ULYSSES = "DeepSpeed, blogs/deepspeed-ulysses: all-to-all of queries, keys and values, then of outputs"
GSHARD = "GShard (arXiv:2006.16668): tokens are dispatched to experts and combined by all-to-all"
OFFLOAD = "DeepSpeed, docs/_tutorials/zero-offload.md: the host updates, so gradients go there and weights come back"
INFINITY = "ZeRO-Infinity (arXiv:2104.07857): weights that wait on the host are fetched in each pass"
SAVED = "torch 2.13, autograd/graph.py, save_on_cpu: to the host in forward, back in backward"


def step_traffic(step: Step) -> tuple[Work, ...]:
    """Beside the arithmetic of all micro-batches."""
    return (
        *_memory(step),
        *_tensor(step),
        *_stages(step),
        *_context(step),
        *_experts(step),
        *_data(step),
        *_host(step),
    )


def update_traffic(step: Step) -> tuple[Work, ...]:
    """Of the update: through the GPU's memory, or over the link to the processor that updates."""
    shards = step.shards.optimizer
    trained = step.trained_elements
    share = Factor("share of a rank", 1 / shards, f"1 / {shards}")
    if step.phase.offload.optimizer != "none":
        down = () if offloads_gradients(step.phase) else _crossing(step, "gradients to the host", step.gradient_bytes)
        return (*down, *_crossing(step, "updated weights from the host", step.compute_bytes))
    passes = Factor("read, and weights written", step.gradient_bytes + 2 * step.compute_bytes, "bytes per weight")
    works = [Work("memory", "weights and gradients in the update", (Factor("trained weights", trained), passes, share),
                  step.rates.memory, UPDATE)]  # fmt: skip
    if step.state_bytes:
        factors = (Factor("optimizer states", step.state_bytes), Factor("read and written", 2))
        works.append(Work("memory", "optimizer states in the update", factors, step.rates.memory, UPDATE))
    return tuple(works)


def _crossing(step: Step, name: str, width: int) -> tuple[Work, ...]:
    shards = step.shards.optimizer
    factors = (
        Factor("trained weights", step.trained_elements),
        Factor("bytes", width),
        Factor("share of a rank", 1 / shards, f"1 / {shards}"),
    )
    return (Work("host link", name, factors, step.rates.host_link, OFFLOAD),)


def _passes(step: Step) -> Factor:
    """How often each weight is used in a micro-batch."""
    again = step.phase.activation_checkpointing == "full"
    return Factor("passes", 2 + again, f"forward and backward{', recomputed' if again else ''}")


def _memory(step: Step) -> Iterator[Work]:
    factors = (Factor("bytes of weights", step.held_bytes), _passes(step), step.micro_batches, *step.bubble)
    yield Work("memory", "reading weights", factors, step.rates.memory, WEIGHTS_READ)


def _activation(step: Step) -> tuple[Factor, ...]:
    """Bytes of the hidden states of a micro-batch, as ranks of a context-parallel group hold them."""
    context = step.phase.parallelism.context
    tokens = step.tokens or 0
    own = Factor("tokens", tokens / context, f"{tokens} / {context}" if context > 1 else "")
    return (
        Factor("sequences", step.sequences), own, Factor("hidden", step.spec.stack.hidden_size),
        Factor("bytes", step.compute_bytes),
    )  # fmt: skip


def _stage_layers(step: Step, layers: float) -> Factor:
    stages = step.phase.parallelism.pipeline
    return Factor("layers", layers / stages, f"{layers:g} / {stages} stages" if stages > 1 else "")


def _tensor(step: Step) -> Iterator[Work]:
    count = meetings(step.spec)
    stages = step.phase.parallelism.pipeline
    how = f"{count} / {stages} stages" if stages > 1 else ""
    size = (
        *_activation(step),
        Factor("meetings in a pass", count / stages, how),
        _passes(step),
        step.micro_batches,
        *step.bubble,
    )
    if step.phase.parallelism.sequence_parallel:
        yield from exchanged("all-gather", "tensor parallel, gathered", size, step.tensor_group, step.rates, SEQUENCE)
        yield from exchanged("reduce-scatter", "tensor parallel, summed", size, step.tensor_group, step.rates, SEQUENCE)
    else:
        yield from exchanged("all-reduce", "tensor parallel", size, step.tensor_group, step.rates, TENSOR)


def _stages(step: Step) -> Iterator[Work]:
    layout = step.phase.parallelism
    tensor = layout.tensor if layout.sequence_parallel else 1
    size = (
        *_activation(step),
        Factor("share of a rank", 1 / tensor, f"1 / {tensor}"),
        Factor("forward and backward", 2),
        Factor("chunks", layout.pipeline_interleave),
        step.micro_batches,
    )
    yield from exchanged("send", "between stages", size, step.stage_group, step.rates, BUBBLE)


def _context(step: Step) -> Iterator[Work]:
    layout, spec = step.phase.parallelism, step.spec
    cached, queried = attending_width(spec)
    ring = layout.context_parallel_mode == "ring"
    width = cached if ring else cached + queried
    again = step.phase.activation_checkpointing == "full"
    passes = 1 + again + (2 if ring else 1)
    whole = step.tokens or 0
    tokens = Factor("tokens", whole if ring else whole / layout.context, "" if ring else f"{whole} / {layout.context}")
    share = layout.tensor * layout.pipeline
    size = (
        Factor("sequences", step.sequences), tokens, Factor("elements per token", width),
        Factor("share of a rank", 1 / share, f"1 / {share}"), Factor("bytes", step.compute_bytes),
        Factor("passes", passes, "forward 1, backward with gradients 2" if ring else "forward and backward"),
        step.micro_batches, *step.bubble,
    )  # fmt: skip
    operation: Operation = "all-gather" if ring else "all-to-all"
    source = RING if ring else ULYSSES
    yield from exchanged(operation, "context parallel", size, step.context_group, step.rates, source)


def _experts(step: Step) -> Iterator[Work]:
    ranks, layout = step.phase.parallelism.expert, step.phase.parallelism
    for layers, chosen, width in mixtures(step.spec):
        context, tokens = layout.context, step.tokens or 0
        visited = ranks * (1 - (1 - 1 / ranks) ** chosen)
        own = layout.tensor if layout.sequence_parallel else 1
        size = (
            Factor("sequences", step.sequences),
            Factor("tokens", tokens / context / own, f"{tokens} / {context * own}"),
            Factor("ranks that hold a token's experts", visited, f"{chosen} experts spread evenly over {ranks} ranks"),
            Factor("width", width), Factor("bytes", 1 if step.phase.precision == "fp8" else step.compute_bytes),
            _stage_layers(step, layers), Factor("dispatched and combined", 2), _passes(step), step.micro_batches,
            *step.bubble,
        )  # fmt: skip
        yield from exchanged("all-to-all", "tokens to experts", size, step.expert_group, step.rates, GSHARD)


def _data(step: Step) -> Iterator[Work]:
    layout, rates = step.phase.parallelism, step.rates
    gradients = (Factor("trained weights", step.trained_elements), Factor("bytes", step.reduced_bytes))
    if layout.zero_stage == 0:
        yield from exchanged("all-reduce", "gradients", gradients, step.data_group, rates, DDP)
        return
    group = step.shard_group
    if step.shards.weights > 1:
        held = (Factor("bytes of weights", step.held_bytes), *_gathers(step))
        yield from exchanged("all-gather", "weights", held, group, rates, ZERO)
    else:
        updated = (Factor("trained weights", step.trained_elements), Factor("bytes", step.compute_bytes))
        yield from exchanged("all-gather", "updated weights", updated, group, rates, ZERO)
    every = step.shards.gradients > 1 and reduces_every_micro_batch(step.phase) and not gathers_stages(layout)
    often = step.micro_batches if every else Factor("times", 1)
    yield from exchanged("reduce-scatter", "gradients", (*gradients, often), group, rates, ZERO)
    share = Factor("share of a rank", 1 / group.ranks, f"1 / {group.ranks}")
    replicas = Group(layout.shard_replicas, group.inner * group.ranks)
    yield from exchanged("all-reduce", "gradients of replicas", (*gradients, share), replicas, rates, DDP)


def _gathers(step: Step) -> tuple[Factor, ...]:
    """How often weights are gathered in a step: for each pass of a micro-batch, but stages of a pipeline once."""
    layout = step.phase.parallelism
    if gathers_stages(layout):
        return (Factor("gathered", 1, "whole stages, kept through all micro-batches"),)
    if layout.reshard_after_forward:
        return (Factor("gathered", 2, "forward and backward"), step.micro_batches)
    return (Factor("gathered", 1, "kept until backward"), step.micro_batches)


def _host(step: Step) -> Iterator[Work]:
    phase, link = step.phase, step.rates.host_link
    shards = step.shards.weights
    share = Factor("share of a rank", 1 / shards, f"1 / {shards}")
    if phase.offload.parameters != "none":
        factors = (Factor("bytes of weights", step.held_bytes), share, _passes(step), step.micro_batches)
        yield Work("host link", "weights from the host", factors, link, INFINITY)
    if offloads_gradients(phase):
        part = Factor("share of a rank", 1 / step.shards.gradients, f"1 / {step.shards.gradients}")
        sent = (Factor("trained weights", step.trained_elements), Factor("bytes", step.gradient_bytes))
        yield Work("host link", "gradients to the host", (*sent, part, step.micro_batches), link, OFFLOAD)
    if phase.offload.activations != "none" and step.saved_bytes:
        saved = (Factor("saved by the layers", step.saved_bytes), Factor("out and back", 2))
        yield Work("host link", "saved activations", (*saved, step.micro_batches), link, SAVED)
