"""Roughly, how soon an engine answers and how fast it goes on, at best."""

from planner.engine.kv_cache import is_causal
from planner.engine.speed.serving_work import Served, prompt_works, token_works
from planner.engine.speed.speed import HOUR, MILLION, Figure, Speed, shown, unknown_notes
from planner.engine.speed.work import Pass, worth_counting
from planner.model.spec import RecurrentMixer
from planner.scenario.hardware import Hardware

PREFILL = "Pope et al. (arXiv:2211.05102), section 2: a prompt in parallel, then one token after the other"


def serving_speed(gpu: str, served: Served, hardware: Hardware) -> Speed:
    """Time to the first token of a lonely request, and of each further one while all requests are in flight."""
    prompt = Pass("prompt of one request", worth_counting(prompt_works(served)))
    ranks = served.phase.parallelism.ranks
    figures = _answering(served, prompt)
    if not is_causal(served.spec):
        notes = (*_notes(served), *unknown_notes((prompt,)))
        costs = _costs(hardware, ranks, figures)
        return Speed("serving", gpu, ranks, "request", (prompt,), figures, costs, notes)
    step = Pass("one token of every request", worth_counting(token_works(served)))
    figures = (*figures, *_decoding(served, step))
    notes = (*_notes(served), *unknown_notes((prompt, step)))
    costs = _costs(hardware, ranks, figures)
    return Speed(
        "serving", gpu, ranks, "token of every request", (step,), figures, costs, notes, (prompt,), _made(served)
    )


def _made(served: Served) -> float:
    """Tokens of one step for all requests."""
    return served.phase.concurrent_sequences * (1 + served.phase.speculative_tokens)


def _answering(served: Served, prompt: Pass) -> tuple[Figure, ...]:
    seconds, tokens, replicas = prompt.seconds, served.prompt, served.phase.parallelism.data
    if not prompt.is_told:
        return ()
    rate = tokens * replicas / seconds
    how = f"{tokens} tokens × {replicas} replicas / {shown(seconds)} s"
    return (
        Figure("time to first token", seconds, "s", f"a prompt of {tokens} tokens alone", PREFILL),
        Figure("prompt tokens per second", rate, "tokens/s", how, PREFILL),
    )


def _decoding(served: Served, step: Pass) -> tuple[Figure, ...]:
    seconds, ranks, requests = step.seconds, served.phase.parallelism.ranks, served.phase.concurrent_sequences
    if not seconds:
        return ()
    guessed = 1 + served.phase.speculative_tokens
    each, total = guessed / seconds, guessed * requests / seconds
    kept = f", if all {guessed - 1} guesses are right" if guessed > 1 else ""
    return (
        Figure("time per output token", seconds / guessed, "s", f"{shown(seconds)} s / {guessed}{kept}", PREFILL),
        Figure("tokens per second and request", each, "tokens/s", f"{guessed} / {shown(seconds)} s"),
        Figure("tokens per second", total, "tokens/s", f"{requests} requests × {shown(each)}"),
        Figure("tokens per second and GPU", total / ranks, "tokens/s", f"{shown(total)} / {ranks} GPUs"),
    )


def _costs(hardware: Hardware, gpus: int, figures: tuple[Figure, ...]) -> tuple[Figure, ...]:
    """An hour of all GPUs, and a million tokens of each kind as if nothing else were done."""
    if hardware.price is None:
        return ()
    hour, currency = gpus * hardware.price, hardware.currency
    found = [Figure("cost per hour", hour, currency, f"{gpus} GPUs × {hardware.price:g}")]
    for name, title in (("prompt tokens per second", "prompt tokens"), ("tokens per second", "output tokens")):
        rate = next((figure.value for figure in figures if figure.name == name), None)
        if rate:
            how = f"{shown(hour)} / 3600 s / {shown(rate)} × 1,000,000"
            found.append(Figure(f"cost per million {title}", hour / HOUR / rate * MILLION, currency, how))
    return tuple(found)


def _notes(served: Served) -> tuple[str, ...]:
    phase, spec = served.phase, served.spec
    found = {
        "What the processor computes of the layers on the host is not counted.": served.on_gpu < 1,
        "What guesses tokens ahead is not counted.": phase.speculative_tokens > 0,
        "The tower that reads images is not counted.": any(stack.image is not None for stack in spec.stacks[1:]),
        "The arithmetic of recurrent states is not counted.": any(
            isinstance(group.mixer, RecurrentMixer) for group in spec.stack.groups
        ),
    }
    return tuple(text for text, applies in found.items() if applies)
