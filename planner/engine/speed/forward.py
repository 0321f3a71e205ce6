"""Roughly, how long a batch of an evaluation takes at best."""

from planner.engine.activations.lower import PRECISIONS
from planner.engine.activations.tape import BYTES
from planner.engine.speed.arithmetic import attention_flops, encoder_layers, head_weights, main_layers, meetings
from planner.engine.speed.collectives import Group, exchanged
from planner.engine.speed.costs import costs_of
from planner.engine.speed.rates import Rates
from planner.engine.speed.speed import Figure, Speed, shown, unknown_notes
from planner.engine.speed.tokens import encoder_tokens, stack_tokens
from planner.engine.speed.training_compute import ATTENTION, SIX, beside_format, layer_format
from planner.engine.speed.training_traffic import TENSOR, WEIGHTS_READ
from planner.engine.speed.weights_read import read_bytes
from planner.engine.speed.work import Pass, Work, worth_counting
from planner.engine.term import Factor
from planner.model.spec import ModelSpec
from planner.scenario.hardware import Hardware
from planner.scenario.phases import Evaluation


def evaluation_speed(gpu: str, phase: Evaluation, spec: ModelSpec, rates: Rates, hardware: Hardware) -> Speed:
    """One forward pass over a batch."""
    tokens = stack_tokens(spec, phase.sequence_length, phase.decoder_sequence_length, phase.image_size)
    works = worth_counting((*_compute(phase, spec, rates, tokens), *_traffic(phase, spec, rates, tokens)))
    passes = (Pass("forward", works),)
    ranks, seconds = phase.parallelism.ranks, passes[0].seconds
    notes = unknown_notes(passes)
    images = spec.stack.image is not None
    batch = phase.batch_size * phase.parallelism.data
    made, unit = (batch, "images") if images or tokens is None else (batch * tokens, "tokens")
    if tokens is None or not passes[0].is_told:
        return Speed("evaluation", gpu, ranks, "batch", passes, (), (), notes, made=made)
    figures = (
        Figure("sequences per second", batch / seconds, "sequences/s", f"{batch} / {shown(seconds)} s"),
        Figure(f"{unit} per second", made / seconds, f"{unit}/s", f"{shown(made)} / {shown(seconds)} s"),
    )
    costs = costs_of(hardware, ranks, seconds, "batch", made, unit)
    return Speed("evaluation", gpu, ranks, "batch", passes, figures, costs, notes, made=made)


def _width(phase: Evaluation) -> int:
    weight, autocast = PRECISIONS[phase.precision]
    return BYTES[autocast or weight]


def _compute(phase: Evaluation, spec: ModelSpec, rates: Rates, tokens: int | None) -> tuple[Work, ...]:
    main, encoder = main_layers(spec), encoder_layers(spec)
    if main is None or tokens is None:
        return ()
    rate = rates.products.get(layer_format(phase.precision))
    beside = rates.products.get(beside_format(phase.precision))
    shared = phase.parallelism.tensor * phase.parallelism.pipeline * phase.parallelism.context
    common = (Factor("sequences", phase.batch_size), Factor("share of a GPU", 1 / shared, f"1 / {shared}"))
    two = Factor("FLOP per weight and token", 2)
    stacks = [(main, tokens)] + ([(encoder, encoder_tokens(spec, phase.sequence_length))] if encoder else [])
    scored = tokens if phase.logits == "all" else 1
    flop = attention_flops(spec, tokens, skips=phase.attention_implementation != "eager")
    return (
        *(
            Work("compute", f"products with weights, {layers.name}",
                 (two, Factor("weights a token meets", layers.weights), Factor("tokens", length), *common), rate, SIX)
            for layers, length in stacks
        ),
        Work("compute", "output projection",
             (two, Factor("weights of the head", head_weights(spec)), Factor("tokens", scored), *common), beside, SIX),
        Work("compute", "attention", (Factor("FLOP forward", flop), *common), beside, ATTENTION),
    )  # fmt: skip


def _traffic(phase: Evaluation, spec: ModelSpec, rates: Rates, tokens: int | None) -> tuple[Work, ...]:
    layout, width = phase.parallelism, _width(phase)
    known = "fp32" if width == BYTES["fp32"] else "bf16"
    held = read_bytes(spec, known, layout.tensor, layout.pipeline, layout.expert_share)
    size = (
        Factor("sequences", phase.batch_size), Factor("tokens", tokens or 0), Factor("hidden", spec.stack.hidden_size),
        Factor("bytes", width), Factor("meetings", meetings(spec) / layout.pipeline),
    )  # fmt: skip
    return (
        Work("memory", "reading weights", (Factor("bytes of weights", held),), rates.memory, WEIGHTS_READ),
        *exchanged("all-reduce", "tensor parallel", size, Group(layout.tensor), rates, TENSOR),
    )
