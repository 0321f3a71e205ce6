"""Arithmetic of one training step on one GPU."""

from collections.abc import Iterator

from planner.engine.phases.methods import techniques
from planner.engine.speed.arithmetic import Layers, attention_flops, encoder_layers, head_weights, main_layers
from planner.engine.speed.layout import Step
from planner.engine.speed.tokens import encoder_tokens
from planner.engine.speed.work import Work
from planner.engine.term import Factor

SIX = "Kaplan et al. (arXiv:2001.08361), section 2.1: 2 FLOP per weight and token forward, 4 backward"
FROZEN = "As for trained weights, without the product that gives the gradient of frozen ones"
AGAIN = "Chen et al. (arXiv:1604.06174): what is not kept is computed once more before its backward pass"
EARLY = "torch 2.13 utils/checkpoint.py, set_checkpoint_early_stop: it stops at the last tensor that backward needs"
SELECTIVE = "Korthikanti et al. (arXiv:2205.05198): the attention core is computed again"
OP_SAC = "torchtitan, selective checkpointing 'op': every second matrix product is computed again"
TILES = "DeepSpeed, runtime/sequence_parallel/ulysses_sp.py, TiledMLP: forward runs again in backward"
ATTENTION = "PaLM (arXiv:2204.02311), appendix B; pairs under a mask and backward: arXiv:2307.08691, section 4.1"
FORMATS = {"fp32": "fp32", "tf32": "tf32", "fp8": "fp8"}
"""Precisions whose products of layers are not in 16 bits."""
BACKWARD_IN_TILES, BACKWARD_WHOLE = 2.5, 2.0
"""Backward arithmetic of attention over that of its forward pass: kernels in tiles compute scores again."""


def compute_works(step: Step) -> tuple[Work, ...]:
    """All of it; nothing where the structure of the layers or the size of images is not known."""
    return tuple(_works(step))


def layer_format(precision: str) -> str:
    """The number format in which layers multiply."""
    return FORMATS.get(precision, "16-bit")


def beside_format(precision: str) -> str:
    """That of attention and the output projection, which float8 leaves in 16 bits (torchao, Transformer Engine)."""
    return "16-bit" if precision == "fp8" else layer_format(precision)


def _works(step: Step) -> Iterator[Work]:
    main = main_layers(step.spec)
    if main is None or step.tokens is None:
        return
    yield from _layers(step, main, step.tokens)
    encoder = encoder_layers(step.spec)
    if encoder is not None:
        yield from _layers(step, encoder, encoder_tokens(step.spec, step.phase.sequence_length))
    yield from _head(step, step.tokens)
    yield from _attention(step, main, step.tokens)


def _tokens(step: Step, tokens: int) -> tuple[Factor, ...]:
    return (
        Factor("sequences", step.sequences),
        Factor("tokens", tokens),
        step.micro_batches,
        step.shared,
        *step.bubble,
    )


def _layers(step: Step, layers: Layers, tokens: int) -> Iterator[Work]:
    rate = step.rates.products.get(layer_format(step.phase.precision))
    flop, source = _per_weight(step, layers)
    weights = Factor("weights a token meets", layers.weights)
    yield Work(
        "compute", f"products with weights, {layers.name}", (flop, weights, *_tokens(step, tokens)), rate, source
    )
    again, why = _again(step, layers)
    if again:
        factors = (Factor("FLOP per weight and token", 2), Factor("weights met again", again), *_tokens(step, tokens))
        yield Work("compute", f"recomputation, {layers.name}", factors, rate, why)
    if techniques(step.phase).tiled_mlp:
        tiled = Factor("weights of feed-forwards", layers.feed_forward)
        factors = (Factor("FLOP per weight and token", 2), tiled, *_tokens(step, tokens))
        yield Work("compute", f"tiles again, {layers.name}", factors, rate, TILES)


def _per_weight(step: Step, layers: Layers) -> tuple[Factor, str]:
    """FLOP per weight and token without recomputation."""
    name = "FLOP per weight and token"
    phase = step.phase
    if step.method == "full":
        return Factor(name, 6, "2 forward + 4 backward"), SIX
    if step.method == "last_layers":
        trained = min(getattr(phase, "trained_layers", 1), layers.count)
        return Factor(name, 2 + 4 * trained / layers.count, f"2 + 4 × {trained} / {layers.count} layers"), FROZEN
    return Factor(name, 4, "2 forward + 2 backward, weights frozen"), FROZEN


def _again(step: Step, layers: Layers) -> tuple[int, str]:
    """Weights that are multiplied by once more in backward, and by which rule."""
    phase = step.phase
    if phase.activation_checkpointing == "full":
        whole = phase.checkpointing_reentrant or phase.activation_profile == "megatron-core"
        return (layers.weights, AGAIN) if whole else (layers.weights - layers.last_products, EARLY)
    policy = phase.selective_policy or "core-attention"
    if phase.activation_checkpointing == "none" or policy == "core-attention":
        return 0, ""
    if policy == "op-sac":
        return layers.every_second, OP_SAC
    return (layers.weights - layers.last_products) * _layers_again(step, layers) // layers.count, EARLY


def _layers_again(step: Step, layers: Layers) -> int:
    """How many layers are run again where it is one in n."""
    interval = 2 if step.phase.selective_policy == "every-2nd-layer" else step.phase.checkpoint_interval
    return layers.count // interval


def _head(step: Step, tokens: int) -> Iterator[Work]:
    weights = head_weights(step.spec)
    if weights:
        trained = step.method == "full"
        flop = Factor("FLOP per weight and token", 6 if trained else 4, "2 forward and the rest backward")
        rate = step.rates.products.get(
            "16-bit" if step.phase.precision == "fp8" else layer_format(step.phase.precision)
        )
        factors = (flop, Factor("weights of the head", weights), *_tokens(step, tokens))
        yield Work("compute", "output projection", factors, rate, SIX if trained else FROZEN)


def _attention(step: Step, layers: Layers, tokens: int) -> Iterator[Work]:
    eager = step.phase.attention_implementation == "eager"
    flop = attention_flops(step.spec, tokens, skips=not eager)
    if flop:
        backward = BACKWARD_WHOLE if eager else BACKWARD_IN_TILES
        again, why = _attention_again(step, layers)
        passes = Factor("passes", 1 + backward + again, f"1 forward + {backward:g} backward{why}")
        factors = (Factor("FLOP forward", flop), passes, *_tokens(step, 1))
        rate = step.rates.products.get(
            "16-bit" if step.phase.precision == "fp8" else layer_format(step.phase.precision)
        )
        yield Work("compute", "attention", factors, rate, SELECTIVE if again else ATTENTION)


def _attention_again(step: Step, layers: Layers) -> tuple[float, str]:
    phase = step.phase
    policy = phase.selective_policy or "core-attention"
    if phase.activation_checkpointing == "none" or (
        phase.activation_checkpointing == "selective" and policy == "op-sac"
    ):
        return 0.0, ""
    if phase.activation_checkpointing == "full" or policy == "core-attention":
        return 1.0, " + 1 again"
    share = _layers_again(step, layers) / layers.count
    return share, f" + {share:.2g} again"


def model_flops(step: Step) -> float | None:
    """FLOP of a step on one GPU without recomputation or waiting, as model FLOPs utilization counts (PaLM, app. B)."""
    main = main_layers(step.spec)
    if main is None or step.tokens is None:
        return None
    flop, _ = _per_weight(step, main)
    head = head_weights(step.spec) * (6 if step.method == "full" else 4)
    attention = 3 * attention_flops(step.spec, step.tokens, skips=step.phase.attention_implementation != "eager")
    each = (float(flop.value) * main.weights + head) * step.tokens + attention
    return each * step.sequences * step.phase.gradient_accumulation_steps * float(step.shared.value)
