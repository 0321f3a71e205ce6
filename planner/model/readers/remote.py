"""Decoders whose code comes with the checkpoint instead of transformers: Qwen 1, InternLM 2, Baichuan, ChatGLM,
MiniCPM, MiMo, EXAONE 3 and the pruned Llamas of Nemotron (`nemotron-nas`)."""

from collections.abc import Mapping
from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward
from planner.model.readers.layers import layer_count, merged
from planner.model.readers.llama import TRAITS as DENSE
from planner.model.spec import Head, LayerGroup, ModelSpec

_RENAMED = {
    "chatglm": {
        "padded_vocab_size": "vocab_size",
        "ffn_hidden_size": "intermediate_size",
        "multi_query_group_num": "num_key_value_heads",
        "num_layers": "num_hidden_layers",
        "kv_channels": "head_dim",
        "seq_length": "max_position_embeddings",
    },
    "qwen": {"kv_channels": "head_dim"},
    "exaone": {"num_layers": "num_hidden_layers", "activation_function": "hidden_act"},
}
"""Names that a key has in these files, and the usual one."""
TRAITS = {
    "qwen": Traits(
        qkv_bias=True, fused_qkv=True, attention_names=("c_attn", "", "", "c_proj"), mlp_names=("w2", "w1", "c_proj")
    ),
    "internlm2": Traits(
        qkv_bias="bias",
        output_bias="bias",
        fused_qkv=True,
        attention_names=("wqkv", "", "", "wo"),
        mlp_names=("w1", "w3", "w2"),
    ),
    "baichuan": Traits(fused_qkv=True, attention_names=("W_pack", "", "", "o_proj")),
    "chatglm": Traits(
        qkv_bias="add_qkv_bias",
        output_bias="add_bias_linear",
        mlp_bias="add_bias_linear",
        fused_qkv=True,
        fused_mlp=True,
        attention_names=("query_key_value", "", "", "dense"),
        mlp_names=("", "dense_h_to_4h", "dense_4h_to_h"),
    ),
    "minicpm": DENSE["llama"],
    "mimo": DENSE["qwen2"],
    "exaone": Traits(
        attention_names=("q_proj", "k_proj", "v_proj", "out_proj"), mlp_names=("c_fc_0", "c_fc_1", "c_proj")
    ),
}
MODEL_TYPES = (*TRAITS, "nemotron-nas")
_FFN_MULTIPLE = 256


def read(config: Config, task: str | None) -> ModelSpec:
    """A decoder of remote code."""
    if config.model_type == "nemotron-nas":
        return _nemotron(config, task)
    usual = _RENAMED.get(config.model_type, {})
    stated = {usual.get(key, key): value for key, value in config.stated.items()}
    own = Config(stated, config.model_type, config.where)
    traits = TRAITS[config.model_type]
    if config.model_type == "qwen":
        # Qwen 1 states the size of both halves of its gated feed-forward together.
        own = own.with_values(intermediate_size=own.size("intermediate_size") // 2)
    if config.model_type == "minicpm" and "tie_word_embeddings" not in stated:
        # The configuration class that comes with the checkpoints ties them.
        own = own.with_values(tie_word_embeddings=True)
    if config.model_type == "chatglm" and not own.flag("multi_query_attention"):
        own = own.with_values(num_key_value_heads=own.size("num_attention_heads"))
    # ChatGLM's files name the bare model's class, though its code maps generation to a class of its own.
    asked = task or ("causal-lm" if config.model_type == "chatglm" else None)
    spec = decoder_model(own, asked, traits)
    return replace(spec, head=_with_name(spec.head, config.model_type))


def _with_name(head: Head | None, model_type: str) -> Head | None:
    names = {"internlm2": "output", "chatglm": "output_layer"}
    return head if head is None or model_type not in names else replace(head, name=names[model_type])


def _nemotron(config: Config, task: str | None) -> ModelSpec:
    """Each entry of `block_configs` says how far its layer was pruned: KV heads, feed-forward, or neither at all."""
    blocks, count = config.raw("block_configs"), layer_count(config)
    if not isinstance(blocks, list) or len(blocks) != count:
        raise config.error("block_configs", type(blocks).__name__, f"a list of one entry for each of {count} layers")
    return decoder_model(config, task, DENSE["llama"], merged(_block(config, block) for block in blocks))


def _block(config: Config, block: object) -> LayerGroup:
    if not isinstance(block, Mapping):
        raise config.error("block_configs", block, "a list of objects with “attention” and “ffn”")
    where = f"{config.where}, “block_configs”"
    looks, network = (Config(block, key, where).part(key, key) for key in ("attention", "ffn"))
    for part in (looks, network):
        if part.flag("replace_with_linear"):
            raise part.error("replace_with_linear", True, "false; layers replaced by a matrix cannot be read yet")
    heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
    mixer, feed = None, None
    if not looks.flag("no_op"):
        grouped = config.with_values(num_key_value_heads=max(1, heads // looks.size("n_heads_in_group")))
        mixer = attention(grouped, DENSE["llama"])
    if not network.flag("no_op"):
        size = int(2 * network.number("ffn_mult") * hidden / 3)
        feed = feed_forward(config, DENSE["llama"], -(-size // _FFN_MULTIPLE) * _FFN_MULTIPLE)
    norms = int(mixer is not None) + int(feed is not None)
    return LayerGroup(1, mixer, feed, norms=norms)
