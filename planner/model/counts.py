"""Exact counts of a model, each a sum over its parameter tensors."""

from collections.abc import Iterable
from math import ceil, prod

from planner.model.spec import Linear, ModelSpec, ParallelMixers, RecurrentMixer
from planner.model.weights import Weight, layer_weights, stack_weights, weights

BYTES_16_BIT = 2
DIFFUSERS_PATHS = {
    "proj": "ff.net.0.proj",
    "net.2": "ff.net.2",
    "ff.proj": "ff.net.0.proj",
    "ff.out": "ff.net.2",
    "ff_context.proj": "ff_context.net.0.proj",
    "ff_context.out": "ff_context.net.2",
}
"""Paths of a denoiser's feed-forward layers in diffusers, by the names that they have here."""


def parameters(spec: ModelSpec) -> int:
    """Unique parameters: tied tensors count once."""
    return sum(weight.elements * copies for weight, copies in weights(spec))


def prediction_parameters(spec: ModelSpec) -> int:
    """Parameters of the layers for multi-token prediction, which `parameters` leaves out as the model's class does."""
    stack = spec.prediction
    return 0 if stack is None else sum(weight.elements * copies for weight, copies in stack_weights(stack))


def embedding_parameters(spec: ModelSpec) -> int:
    """Elements of the main stack's token table; 0 for models that read no tokens."""
    embedding = spec.stack.embedding
    return 0 if embedding is None else embedding.vocab * embedding.size


def active_parameters(spec: ModelSpec) -> int:
    """Parameters that one token passes: all but the routed experts it does not visit."""
    return sum(
        weight.elements * weight.experts_per_token // weight.experts * copies for weight, copies in weights(spec)
    )


def linear_4bit_parameters(spec: ModelSpec, experts_as_linear: bool = False) -> int:
    """Weights that transformers' bitsandbytes loader converts: plain linear layers outside the kept modules.

    `experts_as_linear` counts expert matrices too, as transformers 4 did, where experts were linear layers.
    """
    converted = sum(
        weight.elements * copies
        for weight, copies in weights(spec)
        if weight.quantizable or (experts_as_linear and weight.kind == "expert" and len(weight.shape) == 3)
    )
    return converted - _last_linear(spec)


def _last_linear(spec: ModelSpec) -> int:
    """Elements of the last layer's last projection where it is the last parameter of all, which the loader keeps.

    So it is in OLMo and nanochat, whose norms have no weights, when no output matrix follows.
    """
    stack, last = spec.stack, spec.stack.groups[-1]
    followed = stack.after or (spec.head is not None and not spec.head.tied)
    normed = last.norm.vectors or (stack.final_norm is not None and stack.final_norm.vectors)
    if len(spec.stacks) > 1 or followed or normed or last.mixer is None or last.feed_forward is None:
        return 0
    final = layer_weights(last, stack.hidden_size)[-1]
    return final.elements if final.quantizable else 0


def weight_bytes(spec: ModelSpec, bytes_per_parameter: float = BYTES_16_BIT) -> int:
    """Bytes of all parameters at one precision, 16 bit unless told otherwise."""
    return ceil(parameters(spec) * bytes_per_parameter)


def kv_elements_per_token(spec: ModelSpec) -> int:
    """Elements that one more token adds to the KV cache at short context, when no window is full yet."""
    return sum(
        group.mixer.cached_elements * group.count
        for stack in spec.stacks
        for group in stack.groups
        if group.mixer is not None
    )


def kv_bytes_per_token(spec: ModelSpec, bytes_per_element: float = BYTES_16_BIT) -> int:
    """Bytes that one more token adds to the KV cache, 16 bit unless told otherwise."""
    return ceil(kv_elements_per_token(spec) * bytes_per_element)


def layer_parameters(spec: ModelSpec) -> tuple[tuple[str, int, int], ...]:
    """(stack, layers, parameters of one such layer) for every kind of layer, in the order of the groups."""
    return tuple(
        (stack.name, group.count, sum(weight.elements for weight in layer_weights(group, stack.hidden_size)))
        for stack in spec.stacks
        for group in stack.groups
    )


def largest_tensor(spec: ModelSpec) -> Weight:
    """The tensor with the most elements, which bounds what loading and dequantizing need beside the model."""
    return max((weight for weight, _ in weights(spec)), key=lambda weight: weight.elements)


def shard_parameters(
    spec: ModelSpec, tensor_parallel: int = 1, expert_parallel: int = 1, vocab_multiple: int = 1
) -> int:
    """Parameters on the fullest rank.

    KV heads are repeated when `tensor_parallel` exceeds them; a vocabulary is first padded to `vocab_multiple` rows
    (64 in vLLM, 128 x tensor parallel in Megatron) and cut evenly.
    """
    return sum(
        shard_elements(weight, tensor_parallel, expert_parallel, vocab_multiple) * copies
        for weight, copies in weights(spec)
    )


def shard_elements(weight: Weight, tensor_parallel: int, expert_parallel: float = 1, vocab_multiple: int = 1) -> int:
    """Elements of one tensor on the fullest rank; experts are spread whole over `expert_parallel` ranks first.

    `expert_parallel` below 1 says that fewer ranks share an expert than share other weights.
    """
    if weight.shard == "vocab" and tensor_parallel > 1:
        rows = ceil(weight.shape[0] / vocab_multiple) * vocab_multiple
        return weight.elements // weight.shape[0] * ceil(rows / tensor_parallel)
    own = weight.shard_elements(tensor_parallel)
    if weight.kind == "expert" and expert_parallel != 1:
        return own // weight.experts * ceil(weight.experts / expert_parallel)
    return own


def shard_shape(weight: Weight, tensor_parallel: int, expert_parallel: float = 1) -> tuple[int, ...]:
    """The shape of the fullest rank's part of a weight."""
    if tensor_parallel == 1 and expert_parallel == 1:
        return weight.shape
    own = shard_elements(weight, tensor_parallel, expert_parallel)
    if len(weight.shape) == 1:
        return (own,)
    if weight.shard == "row":
        return (*weight.shape[:-1], own // prod(weight.shape[:-1]))
    return (own // prod(weight.shape[1:]), *weight.shape[1:])


def row_share(shape: tuple[int, ...], ranks: int, *, cuts_experts: bool = False) -> tuple[int, ...]:
    """The part of a weight whose rows are shared out over `ranks`: as many as the first rank's, padded.

    A weight of few rows is divided no further than they go (torch 2.13 `fsdp/_fully_shard/_fsdp_param.py:
    FSDPParam._init_sharded_param`, chunks along dimension 0), and a single number not at all. `cuts_experts`: stacked
    experts are cut along their outputs where ranks outnumber them (torchtitan, `_experts_shard_placement_fn`).
    """
    if not shape:
        return ()
    if cuts_experts and len(shape) == 3 and shape[0] < ranks:
        return (shape[0], ceil(shape[1] / ranks), shape[2])
    return (ceil(shape[0] / ranks), *shape[1:])


def lora_parameters(spec: ModelSpec, rank: int, targets: str | tuple[str, ...] = "all-linear") -> int:
    """Adapter parameters (LoRA, arXiv:2106.09685): rank x (inputs + outputs) for every matrix that is adapted."""
    return sum(rank * (weight.shape[0] + weight.shape[1]) * copies for weight, copies in lora_targets(spec, targets))


def lora_targets(spec: ModelSpec, targets: str | tuple[str, ...] = "all-linear") -> tuple[tuple[Weight, int], ...]:
    """The matrices that adapters attach to.

    `all-linear` means, as in PEFT, every linear layer but the output head, whose transform before a token prediction is
    one of them; `attention` those of the mixers; a tuple names modules. Routed experts are no linear layers in
    transformers 5 and are left alone.
    """
    head = spec.head
    predicts_tokens = head is not None and head.kind == "vocabulary"
    transform = {part.name for part in head.before if isinstance(part, Linear)} if head is not None else set[str]()

    def chosen(weight: Weight) -> bool:
        if weight.kind not in ("linear", "conv1d"):
            return False
        if targets == "all-linear":
            return weight.block != "head" or (predicts_tokens and weight.role in transform)
        attends = weight.block in ("mixer", "cross_attention")
        if spec.task == "diffusion":
            return attends and _attends(weight.role) if targets == "attention" else _named(weight.role, targets)
        return attends if targets == "attention" else weight.role in targets

    return tuple((weight, copies) for weight, copies in weights(spec) if chosen(weight))


def _attends(role: str) -> bool:
    """Whether a linear layer of a denoiser's block belongs to its attention, beside modulation and feed-forward."""
    return role.rpartition(".")[2].startswith(("to_", "add_"))


def _named(role: str, targets: Iterable[str]) -> bool:
    """Whether a layer of a denoiser is one of the modules that diffusers' scripts name (`attn.to_q`, `ff.net.2`).

    PEFT takes a name for the end of a module's path.
    """
    wanted = [target.removeprefix("attn.").removesuffix(".0") for target in targets]
    path = DIFFUSERS_PATHS.get(role, role)
    return any(name == target or name.endswith(f".{target}") for name in (role, path) for target in wanted)


def state_elements(spec: ModelSpec) -> tuple[int, int]:
    """(recurrent, convolution) state elements of one sequence, which do not grow with the context."""
    recurrent = convolution = 0
    for stack in spec.stacks:
        for group in stack.groups:
            mixers = group.mixer.mixers if isinstance(group.mixer, ParallelMixers) else (group.mixer,)
            for mixer in mixers:
                if isinstance(mixer, RecurrentMixer):
                    recurrent += mixer.state_elements[0] * group.count
                    convolution += mixer.state_elements[1] * group.count
    return recurrent, convolution
