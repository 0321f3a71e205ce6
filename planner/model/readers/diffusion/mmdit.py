"""Transformers in which image and text attend jointly: Stable Diffusion 3 (arXiv:2403.03206) and FLUX.1."""

from collections.abc import Iterator

from planner.model.readers.config import Config
from planner.model.readers.diffusion.blocks import conv, embedding_layers
from planner.model.readers.layers import layer_count, merged
from planner.model.spec import RMS_NORM, Block, Buffer, ImageInput, LayerGroup, Linear, ModelSpec, NormPart, Part, Stack

MODEL_TYPES = ("FluxTransformer2DModel", "SD3Transformer2DModel")
_TIME_CHANNELS = 256


def read(config: Config, _task: str | None) -> ModelSpec:
    """A FLUX or Stable Diffusion 3 transformer."""
    stack = _flux(config) if config.model_type.startswith("Flux") else _sd3(config)
    return ModelSpec(config.model_type, config.model_type, "diffusion", (stack,), None)


def feed_forward(name: str, width: int) -> tuple[Part, ...]:
    """Two linear layers around four times the width."""
    return Linear(f"{name}.proj", width, 4 * width, bias=True), Linear(f"{name}.out", 4 * width, width, bias=True)


def projections(names: tuple[str, ...], width: int) -> Iterator[Part]:
    """Square linear layers with biases."""
    for name in names:
        yield Linear(name, width, width, bias=True)


def head_norms(names: tuple[str, ...], head_dim: int) -> Iterator[Part]:
    """Norms over each head of queries or keys."""
    for name in names:
        yield NormPart(name, head_dim, RMS_NORM)


def _layers(count: int, kind: str, parts: Iterator[Part], heads: int | None = None) -> LayerGroup:
    return LayerGroup(count, Block(kind, tuple(parts), heads), None, norms=0)


def _flux(config: Config) -> Stack:
    """`num_layers` joint blocks, then `num_single_layers` in which attention and feed-forward run side by side."""
    heads, head_dim = config.size("num_attention_heads", 24), config.size("attention_head_dim", 128)
    width, channels = heads * head_dim, config.size("in_channels", 64)
    before: list[Part] = [*embedding_layers("timestep_embedder", _TIME_CHANNELS, width)]
    if config.flag("guidance_embeds"):
        before += embedding_layers("guidance_embedder", _TIME_CHANNELS, width)
    before += embedding_layers("text_embedder", config.size("pooled_projection_dim", 768), width)
    before.append(Linear("context_embedder", config.size("joint_attention_dim", 4096), width, bias=True))
    before.append(Linear("x_embedder", channels, width, bias=True))
    patch, outputs = config.size("patch_size", 1), config.size("out_channels", channels)
    groups = (
        _layers(config.size("num_layers", 19, maximum=10_000), "flux-double", _flux_double(width, head_dim)),
        _layers(config.size("num_single_layers", 38, maximum=10_000), "flux-single", _flux_single(width, head_dim)),
    )
    after = (
        Linear("norm_out.linear", width, 2 * width, bias=True),
        Linear("proj_out", width, patch**2 * outputs, bias=True),
    )
    return Stack("transformer", width, None, groups, None, tuple(before), after, ImageInput(patch, channels=channels))


def _flux_double(width: int, head_dim: int) -> Iterator[Part]:
    for name in ("norm1.linear", "norm1_context.linear"):
        yield Linear(name, width, 6 * width, bias=True)
    yield from head_norms(("norm_q", "norm_k", "norm_added_q", "norm_added_k"), head_dim)
    names = ("to_q", "to_k", "to_v", "to_out", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out")
    yield from projections(names, width)
    yield from feed_forward("ff", width)
    yield from feed_forward("ff_context", width)


def _flux_single(width: int, head_dim: int) -> Iterator[Part]:
    yield Linear("norm.linear", width, 3 * width, bias=True)
    yield Linear("proj_mlp", width, 4 * width, bias=True)
    yield Linear("proj_out", 5 * width, width, bias=True)
    yield from head_norms(("norm_q", "norm_k"), head_dim)
    yield from projections(("to_q", "to_k", "to_v"), width)


def _sd3(config: Config) -> Stack:
    """Joint blocks; the last one drops the text, and 3.5 Medium attends twice in its first ones."""
    heads, head_dim = config.size("num_attention_heads", 18), config.size("attention_head_dim", 64)
    width, channels = heads * head_dim, config.size("in_channels", 16)
    patch, outputs = config.size("patch_size", 2), config.size("out_channels", channels)
    before = (
        conv("pos_embed.proj", channels, width, patch, patch),
        *embedding_layers("timestep_embedder", _TIME_CHANNELS, width),
        *embedding_layers("text_embedder", config.size("pooled_projection_dim", 2048), width),
        Linear(
            "context_embedder",
            config.size("joint_attention_dim", 4096),
            config.size("caption_projection_dim", 1152),
            bias=True,
        ),
    )
    count = layer_count(config, "num_layers") if config.states("num_layers") else 18
    twice = set(config.sizes("dual_attention_layers")) if config.raw("dual_attention_layers") else set()
    normed = config.raw("qk_norm") is not None
    groups = merged(
        _layers(1, "mmdit-joint", _sd3_block(width, head_dim, normed, index in twice, index == count - 1), heads)
        for index in range(count)
    )
    after = (
        Linear("norm_out.linear", width, 2 * width, bias=True),
        Linear("proj_out", width, patch**2 * outputs, bias=True),
    )
    image = ImageInput(patch, config.optional_size("sample_size"), channels)
    side = config.size("pos_embed_max_size", 96)
    table = Buffer("pos_embed", side**2 * width, source="diffusers, models/embeddings.py: PatchEmbed, a buffer")
    return Stack("transformer", width, None, groups, None, before, after, image, (table,))


def _sd3_block(width: int, head_dim: int, normed: bool, twice: bool, last: bool) -> Iterator[Part]:
    yield Linear("norm1.linear", width, (9 if twice else 6) * width, bias=True)
    yield Linear("norm1_context.linear", width, (2 if last else 6) * width, bias=True)
    yield from projections(("to_q", "to_k", "to_v", "to_out", "add_q_proj", "add_k_proj", "add_v_proj"), width)
    if normed:
        yield from head_norms(("norm_q", "norm_k", "norm_added_q", "norm_added_k"), head_dim)
    if twice:
        yield from projections(("attn2.to_q", "attn2.to_k", "attn2.to_v", "attn2.to_out"), width)
        if normed:
            yield from head_norms(("attn2.norm_q", "attn2.norm_k"), head_dim)
    yield from feed_forward("ff", width)
    if not last:
        yield from projections(("to_add_out",), width)
        yield from feed_forward("ff_context", width)
