"""Decoders with latent attention, dense or with experts: DeepSeek-V2 and V3, Kimi K2, GLM-4.7-Flash."""

from dataclasses import replace

from planner.engine.activations.models import llama, moe
from planner.engine.activations.setting import Found, Setting, divided
from planner.engine.activations.shape import LatentShape, LayerShape
from planner.engine.term import Factor
from planner.model.spec import LatentAttention, LayerGroup, ModelSpec


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """The body of a model whose layers are Llama's, but for latent attention and perhaps experts."""
    groups = spec.stack.groups
    if len(spec.stacks) > 1 or not all(_is_told(group) for group in groups):
        return None
    return with_latents(moe.with_experts(llama.approximate(spec, setting), spec, setting), spec, setting)


def with_latents(found: Found, spec: ModelSpec, setting: Setting) -> Found:
    """`found` with latent attention in each layer that has it."""
    body = found.body
    assert isinstance(body, llama.DecoderBody)
    layers: list[LayerShape] = []
    symbols = list(found.symbols)
    for shape, group in zip(body.layers, spec.stack.groups, strict=True):
        mixer = group.mixer
        if isinstance(mixer, LatentAttention):
            if shape.kernel == "flash" and setting.attention == "sdpa" and mixer.v_head_dim != mixer.head_dim:
                # FlashAttention wants queries and values of one width; memory-efficient attention does not.
                shape = replace(shape, kernel="efficient")
            latent = LatentShape(mixer.q_lora_rank is not None, mixer.bias, mixer.rotary)
            shape = replace(shape, latent=latent, attention_dropout=mixer.dropout > 0)
            symbols += _symbols(shape.name, mixer, setting)
        layers.append(shape)
    return replace(found, body=replace(body, layers=tuple(layers)), symbols=tuple(symbols))


def approximate(spec: ModelSpec, setting: Setting) -> Found:
    """Any model as if its layers were Llama's, but for experts and latent attention, which are told as they are."""
    likened = llama.approximate(spec, setting)
    groups = spec.stack.groups
    if all(isinstance(group.mixer, LatentAttention) for group in groups):
        likened = with_latents(likened, spec, setting)
    return moe.with_experts(likened, spec, setting)


def _is_told(group: LayerGroup) -> bool:
    mixer = group.mixer
    return (
        isinstance(mixer, LatentAttention)
        and mixer.indexer is None
        and mixer.norm.kind == "rmsnorm"
        and llama.is_llama_shaped(group)
        and moe.is_told(group)
    )


def _symbols(name: str, mixer: LatentAttention, setting: Setting) -> list[Factor]:
    nope, rope, value = mixer.qk_nope_head_dim, mixer.qk_rope_head_dim, mixer.v_head_dim
    return [
        divided(f"{name}heads", mixer.heads, setting.tensor_parallel),
        Factor(f"{name}head dim", mixer.head_dim),
        Factor(f"{name}nope dim", nope),
        Factor(f"{name}rope dim", rope),
        Factor(f"{name}half rope dim", rope // 2),
        Factor(f"{name}value dim", value),
        Factor(f"{name}nope and value dim", nope + value),
        Factor(f"{name}kv rank", mixer.kv_lora_rank),
        Factor(f"{name}latent and rotated key", mixer.kv_lora_rank + rope),
        Factor(f"{name}q rank", mixer.q_lora_rank or 1),
    ]
