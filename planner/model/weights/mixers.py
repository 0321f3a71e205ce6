"""The tensors of attention and of other mixers."""

from collections.abc import Iterator

from planner.model.spec import (
    Attention,
    Block,
    LatentAttention,
    Linear,
    Mixer,
    Norm,
    ParallelMixers,
)
from planner.model.weights.recurrent import recurrent
from planner.model.weights.weight import Weight, expand, linear, norm


def attention(mixer: Attention, hidden: int) -> Iterator[Weight]:
    """Query, key, value and output projections, whole or fused, with norms, gates and sinks."""
    key_inputs = hidden if mixer.kv_inputs is None else mixer.kv_inputs
    query_rows = mixer.query_size * (2 if mixer.gated else 1)
    key_rows, value_rows = mixer.kv_heads * mixer.head_dim, mixer.kv_heads * mixer.value_dim
    query, key, value, output = mixer.names
    key_bias = mixer.qkv_bias if mixer.key_bias is None else mixer.key_bias
    if mixer.fused:
        fused = ((query_rows, mixer.heads), (key_rows, mixer.kv_heads), (value_rows, mixer.kv_heads))
        rows = query_rows + key_rows + value_rows
        yield from linear(Linear(query, hidden, rows, mixer.qkv_bias, "column", mixer.linear, fused))
    else:
        projections = [(query, hidden, query_rows, mixer.heads, mixer.qkv_bias)]
        if mixer.own_key_value:
            projections.append((key, key_inputs, key_rows, mixer.kv_heads, key_bias))
            if not mixer.value_from_key:
                projections.append((value, key_inputs, value_rows, mixer.kv_heads, mixer.qkv_bias))
        for name, inputs, rows, units, bias in projections:
            yield from linear(Linear(name, inputs, rows, bias, "column", mixer.linear, ((rows, units),)))
    inner = mixer.heads * mixer.value_dim
    segments = ((inner, mixer.heads),)
    yield from linear(Linear(output, inner, hidden, mixer.output_bias, "row", mixer.linear, segments))
    if mixer.output_gate is not None:
        yield from linear(Linear("g_proj", hidden, mixer.output_gate, False, "column", mixer.linear))
    if mixer.sinks:
        yield Weight("sinks", (mixer.heads,), "parameter", "column")
    if mixer.qk_norm is not None:
        whole, each = mixer.qk_norm_scope == "all", mixer.qk_norm_scope == "each"
        for name, heads, rows in (("q_norm", mixer.heads, mixer.query_size), ("k_norm", mixer.kv_heads, key_rows)):
            if name == "q_norm" or mixer.own_key_value:
                for _ in range(heads if each else 1):
                    yield from norm(name, rows if whole else mixer.head_dim, mixer.qk_norm)
    if mixer.value_norm is not None and mixer.own_key_value:
        yield from norm("v_norm", mixer.value_dim, mixer.value_norm)


def latent_attention(mixer: LatentAttention, hidden: int) -> Iterator[Weight]:
    """Projections of MLA: down to the latents (which every rank holds whole), and up to the heads (divided)."""
    heads, bias, key = mixer.heads, mixer.bias, mixer.kv_lora_rank
    query_rows = heads * mixer.head_dim
    if mixer.q_lora_rank is None:
        yield from linear(Linear("q_proj", hidden, query_rows, False, "column", segments=((query_rows, heads),)))
    else:
        yield from linear(Linear("q_a_proj", hidden, mixer.q_lora_rank, bias))
        yield from norm("q_a_layernorm", mixer.q_lora_rank, mixer.norm)
        segments = ((query_rows, heads),)
        yield from linear(Linear("q_b_proj", mixer.q_lora_rank, query_rows, False, "column", segments=segments))
    yield from linear(Linear("kv_a_proj_with_mqa", hidden, key + mixer.qk_rope_head_dim, bias))
    yield from norm("kv_a_layernorm", key, mixer.norm)
    key_value = heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
    yield from linear(Linear("kv_b_proj", key, key_value, False, "column", segments=((key_value, heads),)))
    inner = heads * mixer.v_head_dim
    yield from linear(Linear("o_proj", inner, hidden, bias, "row", segments=((inner, heads),)))
    indexer = mixer.indexer
    if indexer is not None:
        inputs = hidden if mixer.q_lora_rank is None else mixer.q_lora_rank
        yield from linear(Linear("wq_b", inputs, indexer.heads * indexer.head_dim))
        yield from linear(Linear("wk", hidden, indexer.head_dim))
        yield from norm("k_norm", indexer.head_dim, Norm("layernorm", bias=True))
        # transformers keeps this one in fp32 (`_keep_in_fp32_modules`), so a 4-bit loader leaves it alone.
        yield from linear(Linear("weights_proj", hidden, indexer.heads, kind="subclass"))


def mixer_weights(mixer: Mixer, hidden: int) -> Iterator[Weight]:
    """The tensors of any mixer in a layer of width `hidden`."""
    if isinstance(mixer, Attention):
        yield from attention(mixer, hidden)
    elif isinstance(mixer, LatentAttention):
        yield from latent_attention(mixer, hidden)
    elif isinstance(mixer, Block):
        for part in mixer.parts:
            yield from expand(part)
    elif isinstance(mixer, ParallelMixers):
        for one in mixer.mixers:
            yield from mixer_weights(one, hidden)
    else:
        yield from recurrent(mixer, hidden)
