"""Further dense decoders: CWM, Apertus, BitNet, VaultGemma, nanochat, MiniCPM 3 and Youtu."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward, layer
from planner.model.readers.layers import every, layer_count, merged, windows
from planner.model.spec import LatentAttention, LayerGroup, ModelSpec, Norm, NormPart, Part, Tensor

MODEL_TYPES = ("cwm", "apertus", "bitnet", "vaultgemma", "nanochat", "minicpm3", "youtu")


def _first_of_four(config: Config, layers: int) -> list[int | None]:
    """CWM: every fourth layer, beginning with the first, sees everything."""
    return windows(config, layers, [index % 4 != 0 for index in range(layers)])


def _alternating(config: Config, layers: int) -> list[int | None]:
    return windows(config, layers, every(2, layers))


_BIASED = Traits(qkv_bias="attention_bias", output_bias="attention_bias")
_NO_WEIGHT = Norm(weight=False)
TRAITS = {
    "cwm": Traits(mlp_bias="mlp_bias", windows=_first_of_four),
    "apertus": replace(_BIASED, gated=False, qk_norm=True),
    "bitnet": _BIASED,
    "vaultgemma": replace(
        _BIASED,
        norm=Norm(code="one-plus-weight"),
        activation="hidden_activation",
        windows=_alternating,
        scaled_embedding=True,
        softcap=True,
    ),
    "nanochat": replace(
        _BIASED,
        norm=_NO_WEIGHT,
        gated=False,
        qk_norm=True,
        qk_norm_kind=_NO_WEIGHT,
        qk_norm_rotated=True,
        mlp_names=("", "fc1", "fc2"),
    ),
    "minicpm3": replace(_BIASED, mlp_bias="mlp_bias"),
    "youtu": _BIASED,
}


def read(config: Config, task: str | None) -> ModelSpec:
    """A dense decoder."""
    traits, extra = TRAITS[config.model_type], list[Part]()
    count, network = layer_count(config), feed_forward(config, traits)
    if config.model_type in ("minicpm3", "youtu"):
        group = LayerGroup(count, _latent(config), network)
        return decoder_model(config, task, traits, (group,))
    if config.model_type == "bitnet":
        # A norm before each last projection, whose inputs are quantized to 8 bits.
        extra.append(NormPart("attn_sub_norm", config.size("hidden_size"), traits.norm))
        extra.append(NormPart("ffn_sub_norm", network.size, traits.norm))
    if config.model_type == "apertus" and network.activation == "xielu":
        # The activation xIELU has two parameters.
        extra += [Tensor("act_fn.alpha_p", (1,)), Tensor("act_fn.alpha_n", (1,))]
    seen = traits.windows(config, count)
    kinds = {window: layer(traits, attention(config, traits, window), network, tuple(extra)) for window in set(seen)}
    spec = decoder_model(config, task, traits, merged(kinds[window] for window in seen))
    if config.model_type == "nanochat" and spec.head is not None:
        # Its logits alone are capped, by a constant of the class where the file states none.
        head = replace(spec.head, softcap=config.raw("final_logit_softcapping", 15.0) is not None)
        assert spec.stack.embedding is not None
        stack = replace(spec.stack, embedding=replace(spec.stack.embedding, normed=True))
        return replace(spec, head=head, stacks=(stack, *spec.stacks[1:]))
    return spec


def _latent(config: Config) -> LatentAttention:
    heads = config.size("num_attention_heads")
    return LatentAttention(
        heads=heads,
        kv_lora_rank=config.size("kv_lora_rank"),
        qk_nope_head_dim=config.size("qk_nope_head_dim"),
        qk_rope_head_dim=config.size("qk_rope_head_dim"),
        v_head_dim=config.size("v_head_dim", config.size("hidden_size") // heads),
        q_lora_rank=config.optional_size("q_lora_rank"),
        bias=config.flag("attention_bias"),
        dropout=config.number("attention_dropout", 0.0, maximum=1.0),
    )
