"""Further transformers in which image and text attend jointly: Qwen-Image, FLUX.2 and Chroma."""

from collections.abc import Iterator

from planner.model.readers.config import Config
from planner.model.readers.diffusion.blocks import embedding_layers
from planner.model.readers.diffusion.mmdit import feed_forward, head_norms, projections
from planner.model.spec import RMS_NORM, Block, ImageInput, LayerGroup, Linear, ModelSpec, NormPart, Part, Stack

MODEL_TYPES = ("QwenImageTransformer2DModel", "Flux2Transformer2DModel", "ChromaTransformer2DModel")
_TIME_CHANNELS = 256
_IMAGE, _TEXT = ("to_q", "to_k", "to_v", "to_out"), ("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out")
_BOTH_NORMS = ("norm_q", "norm_k", "norm_added_q", "norm_added_k")


def read(config: Config, _task: str | None) -> ModelSpec:
    """A Qwen-Image, FLUX.2 or Chroma transformer."""
    name = config.model_type
    stack = (
        _qwen(config) if name.startswith("Qwen") else _flux2(config) if name.startswith("Flux2") else _chroma(config)
    )
    return ModelSpec(name, name, "diffusion", (stack,), None)


def _group(count: int, kind: str, parts: Iterator[Part]) -> LayerGroup:
    return LayerGroup(count, Block(kind, tuple(parts)), None, norms=0)


def _layers(config: Config, key: str, usual: int) -> int:
    return config.size(key, usual, maximum=10_000)


def _joint(width: int, head_dim: int) -> Iterator[Part]:
    """Joint attention with a feed-forward for each of image and text."""
    yield from projections((*_IMAGE, *_TEXT), width)
    yield from head_norms(_BOTH_NORMS, head_dim)
    yield from feed_forward("ff", width)
    yield from feed_forward("ff_context", width)


def _qwen(config: Config) -> Stack:
    head_dim = config.size("attention_head_dim", 128)
    width, text = config.size("num_attention_heads", 24) * head_dim, config.size("joint_attention_dim", 3584)
    channels, patch = config.size("in_channels", 64), config.size("patch_size", 2)

    def block() -> Iterator[Part]:
        yield Linear("img_mod", width, 6 * width, bias=True)
        yield Linear("txt_mod", width, 6 * width, bias=True)
        yield from _joint(width, head_dim)

    before = (
        *embedding_layers("timestep_embedder", _TIME_CHANNELS, width),
        NormPart("txt_norm", text, RMS_NORM),
        Linear("img_in", channels, width, bias=True),
        Linear("txt_in", text, width, bias=True),
    )
    outputs = patch**2 * config.size("out_channels", 16)
    after = (Linear("norm_out.linear", width, 2 * width, bias=True), Linear("proj_out", width, outputs, bias=True))
    groups = (_group(_layers(config, "num_layers", 60), "mmdit-joint", block()),)
    return Stack("transformer", width, None, groups, None, before, after, ImageInput(patch, channels=channels))


def _chroma(config: Config) -> Stack:
    """FLUX.1 without modulation in its layers: one small network makes all of it."""
    head_dim = config.size("attention_head_dim", 128)
    width, inner = config.size("num_attention_heads", 24) * head_dim, config.size("approximator_hidden_dim", 5120)
    channels, patch = config.size("in_channels", 64), config.size("patch_size", 1)
    guidance: list[Part] = [
        Linear("distilled_guidance_layer.in_proj", config.size("approximator_num_channels", 64), inner, bias=True)
    ]
    for _ in range(config.size("approximator_layers", 5, maximum=1000)):
        guidance += [*embedding_layers("layers", inner, inner), NormPart("norms", inner, RMS_NORM)]
    guidance.append(Linear("distilled_guidance_layer.out_proj", inner, width, bias=True))

    def single() -> Iterator[Part]:
        yield Linear("proj_mlp", width, 4 * width, bias=True)
        yield Linear("proj_out", 5 * width, width, bias=True)
        yield from head_norms(("norm_q", "norm_k"), head_dim)
        yield from projections(("to_q", "to_k", "to_v"), width)

    before = (
        *guidance,
        Linear("context_embedder", config.size("joint_attention_dim", 4096), width, bias=True),
        Linear("x_embedder", channels, width, bias=True),
    )
    groups = (
        _group(_layers(config, "num_layers", 19), "flux-double", _joint(width, head_dim)),
        _group(_layers(config, "num_single_layers", 38), "flux-single", single()),
    )
    outputs = patch**2 * config.size("out_channels", channels)
    after = (Linear("proj_out", width, outputs, bias=True),)
    return Stack("transformer", width, None, groups, None, before, after, ImageInput(patch, channels=channels))


def _flux2(config: Config) -> Stack:
    """No biases, one modulation for all layers of a kind, gated feed-forwards."""
    head_dim = config.size("attention_head_dim", 128)
    width = config.size("num_attention_heads", 48) * head_dim
    inner = int(width * config.number("mlp_ratio", 3.0, minimum=0.01))
    channels, patch = config.size("in_channels", 128), config.size("patch_size", 1)
    time = config.size("timestep_guidance_channels", 256)

    def double() -> Iterator[Part]:
        for name in (*_IMAGE, *_TEXT):
            yield Linear(name, width, width)
        yield from head_norms(_BOTH_NORMS, head_dim)
        for name in ("ff", "ff_context"):
            yield Linear(f"{name}.linear_in", width, 2 * inner)
            yield Linear(f"{name}.linear_out", inner, width)

    def single() -> Iterator[Part]:
        yield Linear("to_qkv_mlp_proj", width, 3 * width + 2 * inner)
        yield from head_norms(("norm_q", "norm_k"), head_dim)
        yield Linear("to_out", width + inner, width)

    embedders = (
        ("timestep_embedder", "guidance_embedder") if config.flag("guidance_embeds", True) else ("timestep_embedder",)
    )
    before: list[Part] = []
    for name in embedders:
        before += [Linear(f"{name}.linear_1", time, width), Linear(f"{name}.linear_2", width, width)]
    before += [
        Linear("double_stream_modulation_img", width, 6 * width),
        Linear("double_stream_modulation_txt", width, 6 * width),
        Linear("single_stream_modulation", width, 3 * width),
        Linear("x_embedder", channels, width),
        Linear("context_embedder", config.size("joint_attention_dim", 15360), width),
    ]
    outputs = patch**2 * config.size("out_channels", channels)
    # The last module has no bias, so 4-bit loaders keep it.
    after = (Linear("norm_out.linear", width, 2 * width), Linear("proj_out", width, outputs, kind="subclass"))
    groups = (
        _group(_layers(config, "num_layers", 8), "flux-double", double()),
        _group(_layers(config, "num_single_layers", 48), "flux-single", single()),
    )
    image = ImageInput(patch, channels=channels)
    return Stack("transformer", width, None, groups, None, tuple(before), after, image)
