"""Buffers: tensors that a model's modules keep on the GPU beside their parameters."""

from planner.engine.activations.versions import is_before
from planner.engine.term import Factor, Term
from planner.model.spec import Attention, LatentAttention, ModelSpec

ROTARY = "transformers 5.24, LlamaRotaryEmbedding: inv_freq and original_inv_freq, fp32"


def buffer_terms(spec: ModelSpec, weight_bytes: int, alive: tuple[str, ...], *, version: str = "") -> tuple[Term, ...]:
    """All buffers of the model, whose weights have `weight_bytes` bytes per element, in a version of transformers."""
    told = [
        Term(
            "weights",
            buffer.name,
            (
                Factor("elements", buffer.elements),
                Factor("bytes", weight_bytes if buffer.bytes_per_element is None else buffer.bytes_per_element),
            ),
            alive,
            buffer.source,
        )
        for stack in spec.stacks
        for buffer in stack.buffers
        if buffer.gone_since is None or is_before(version, buffer.gone_since)
    ]
    return (*rotary_buffers(spec, alive), *told)


def rotary_buffers(spec: ModelSpec, alive: tuple[str, ...]) -> tuple[Term, ...]:
    """The frequencies of rotary embedding, which the model keeps twice."""
    mixer = spec.stack.groups[0].mixer if spec.stack.groups else None
    if isinstance(mixer, LatentAttention):
        rotated = mixer.qk_rope_head_dim // 2
    elif isinstance(mixer, Attention) and mixer.rotary_share:
        rotated = int(mixer.head_dim * mixer.rotary_share) // 2
    else:
        return ()
    factors = (Factor("buffers", 2), Factor("half of the rotated head dim", rotated), Factor("bytes", 4))
    return (Term("weights", "rotary frequencies", factors, alive, ROTARY),)
