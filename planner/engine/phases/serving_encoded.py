"""What `generate` works with where an encoder reads first: its pass, then the steps of a decoder beside its output."""

from dataclasses import replace

from planner.engine.phases.inference import COMPUTED_IN, FIRST_DECODED, generation_working_set
from planner.engine.servers.workload import SPEECH_FRAMES, vocabulary
from planner.engine.term import Factor, Term
from planner.model.spec import ModelSpec
from planner.scenario.serving import Serving

DECODING = ("prefill", "sampling", "decode")
OUTPUT_SOURCE = "transformers/generation/utils.py: `encoder_outputs` is computed once and passed to every step"
SCORES_SOURCE = "transformers/generation/utils.py _sample: `outputs.logits[:, -1].to(copy=True, dtype=torch.float32)`"


def generation_terms(phase: Serving, spec: ModelSpec) -> tuple[Term, ...]:
    """At `encoding` the pass of the encoder, before there is any cache; then its output and the scores of a token."""
    told = generation_working_set(phase, spec)
    if spec.task not in FIRST_DECODED:
        return told
    batch = Factor("batch", -(-phase.concurrent_sequences // phase.parallelism.data))
    width = 4 if COMPUTED_IN.get(phase.weights) == "fp32" else 2
    speech = spec.task == "speech-seq2seq"
    length = SPEECH_FRAMES if speech else phase.prompt_tokens or phase.context_length
    read = (batch, Factor("encoder tokens", length), Factor("hidden", spec.stacks[-1].hidden_size))
    scores = (batch, Factor("vocabulary", vocabulary(spec)), Factor("bytes", width + 4, "scores and a copy in fp32"))
    encoded = (replace(item, alive=("encoding",)) for item in told if item.alive == ("prefill",))
    return (
        *encoded,
        Term("temporaries", "output of the encoder", (*read, Factor("bytes", width)), DECODING, OUTPUT_SOURCE),
        Term("logits", "scores of the next token", scores, ("sampling", "decode"), SCORES_SOURCE),
    )
