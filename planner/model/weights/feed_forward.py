"""The tensors of dense feed-forwards and of experts."""

from collections.abc import Iterator
from dataclasses import replace

from planner.model.spec import ChannelMix, DenseFeedForward, FeedForward, Linear, MixtureOfExperts, Shard
from planner.model.weights.weight import Weight, expand, linear


def dense(feed_forward: DenseFeedForward, hidden: int) -> Iterator[Weight]:
    """Up (and gate) to `size`, divided by columns; down again, divided by rows."""
    size, kind, bias = feed_forward.size, feed_forward.linear, feed_forward.bias
    gate, up, down = feed_forward.names
    if feed_forward.gated and feed_forward.fused:
        yield from linear(Linear(up, hidden, 2 * size, bias, "column", kind, ((size, size), (size, size))))
    else:
        for name in (gate, up) if feed_forward.gated else (up,):
            yield from linear(Linear(name, hidden, size, bias, "column", kind))
    down_bias = bias if feed_forward.down_bias is None else feed_forward.down_bias
    down_kind = kind if feed_forward.down_linear is None else feed_forward.down_linear
    yield from linear(Linear(down, size, hidden, down_bias, "row", down_kind))


def experts(mixture: MixtureOfExperts, hidden: int) -> Iterator[Weight]:
    """Router, fused experts (experts, outputs, inputs), shared and parallel dense feed-forwards."""
    count, size = mixture.experts, mixture.size
    router = Weight("router", (count, hidden), "router", quantizable=mixture.router != "subclass")
    yield replace(router, fp32=mixture.routing.fp32)
    if mixture.router_bias:
        yield Weight("router", (count,), "bias")
    width = hidden if mixture.latent_size is None else mixture.latent_size
    if mixture.latent_size is not None:
        yield from linear(Linear("fc1_latent_proj", hidden, width))
        yield from linear(Linear("fc2_latent_proj", width, hidden))
    rows = 2 * size if mixture.gated else size
    halves = ((size, size), (size, size)) if mixture.gated else ()
    up = "gate_up_proj" if mixture.gated else "up_proj"
    tensors = [
        _expert(up, (count, rows, width), "column", halves, mixture),
        _expert("down_proj", (count, width, size), "row", (), mixture),
    ]
    if mixture.bias:
        tensors.append(Weight(up, (count, rows), "expert", "column", halves))
        tensors.append(Weight("down_proj", (count, width), "expert"))
    for tensor in tensors:
        yield replace(tensor, experts=count, experts_per_token=mixture.experts_per_token)
    if mixture.shared is not None:
        yield from dense(mixture.shared, hidden)
    if mixture.shared_gate:
        yield from linear(Linear("shared_expert_gate", hidden, 1))
    if mixture.dense is not None:
        yield from dense(mixture.dense, hidden)
    for part in mixture.extra:
        yield from expand(part)


def _expert(
    role: str,
    shape: tuple[int, int, int],
    shard: Shard,
    segments: tuple[tuple[int, int], ...],
    mixture: MixtureOfExperts,
) -> Weight:
    stored = (shape[0], shape[2], shape[1]) if mixture.transposed else shape
    plain = mixture.expert_kind != "subclass"
    return Weight(role, stored, "expert", shard, segments, mixture.transposed, plain)


def channel_mix(mix: ChannelMix) -> Iterator[Weight]:
    hidden = mix.hidden_size
    yield Weight("time_mix_key", (1, 1, hidden), "parameter")
    yield Weight("time_mix_receptance", (1, 1, hidden), "parameter")
    yield from linear(Linear("key", hidden, mix.size, shard="column"))
    yield from linear(Linear("receptance", hidden, hidden))
    yield from linear(Linear("value", mix.size, hidden, shard="row"))


def feed_forward_weights(feed_forward: FeedForward, hidden: int) -> Iterator[Weight]:
    """The tensors of any feed-forward in a layer of width `hidden`."""
    if isinstance(feed_forward, DenseFeedForward):
        yield from dense(feed_forward, hidden)
    elif isinstance(feed_forward, MixtureOfExperts):
        yield from experts(feed_forward, hidden)
    else:
        yield from channel_mix(feed_forward)
