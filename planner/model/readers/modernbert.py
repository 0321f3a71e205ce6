"""ModernBERT: rotary positions, gated feed-forwards, two local layers to one global."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.encoder import dense, encoder_model, encoder_stack, label_head, no_head
from planner.model.readers.layers import layer_count, merged
from planner.model.readers.tasks import task_of
from planner.model.spec import Attention, Buffer, DenseFeedForward, Head, LayerGroup, ModelSpec, Norm, NormPart, Task

MODEL_TYPES = ("modernbert",)
_ROTARY = "transformers 5.24, ModernBertRotaryEmbedding: two tables of frequencies for each kind of layer"


def read(config: Config, task: str | None) -> ModelSpec:
    """A ModernBERT encoder with the head of its task."""
    kind = task_of(config, task, "masked-lm")
    hidden = config.size("hidden_size")
    norm = Norm("layernorm", bias=config.flag("norm_bias"))
    stack = encoder_stack(config, LayerGroup(1, None, None), (NormPart("norm", hidden, norm),))
    groups = _layers(config, norm)
    local = Buffer(
        "rotary frequencies of local layers", config.divisible("hidden_size", "num_attention_heads"), 4, _ROTARY
    )
    stack = replace(stack, groups=groups, final_norm=norm, buffers=(local,) if len(groups) > 1 else ())
    return encoder_model(config, kind, stack, _head(config, kind, hidden, norm))


def _layers(config: Config, norm: Norm) -> tuple[LayerGroup, ...]:
    heads, count = config.size("num_attention_heads"), layer_count(config)
    period = config.size("global_attn_every_n_layers", 3)
    types = config.texts("layer_types", count)
    local = [bool(index % period) for index in range(count)]
    if types is not None:
        local = [kind == "sliding_attention" for kind in types]
    bias = config.flag("attention_bias")
    looks = Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=config.divisible("hidden_size", "num_attention_heads"),
        qkv_bias=bias,
        output_bias=bias,
        dropout=config.number("attention_dropout", 0.0, maximum=1.0),
        fused=True,
        causal=False,
        names=("Wqkv", "", "", "Wo"),
    )
    network = DenseFeedForward(
        config.size("intermediate_size"),
        activation=config.text("hidden_activation", "gelu"),
        bias=config.flag("mlp_bias"),
        fused=True,
        names=("", "Wi", "Wo"),
    )
    window = config.size("local_attention")

    def one(index: int) -> LayerGroup:
        # The embeddings are normalised already, so the first layer has no norm before its attention.
        mixer = replace(looks, window=window if local[index] else None)
        return LayerGroup(1, mixer, network, norm, norms=2 if index else 1)

    return merged(one(index) for index in range(count))


def _head(config: Config, task: Task, hidden: int, norm: Norm) -> Head | None:
    if task == "feature-extraction":
        return None
    head = (dense("dense", hidden, bias=config.flag("classifier_bias")), NormPart("norm", hidden, norm))
    if task == "masked-lm":
        tied = config.flag("tie_word_embeddings", True)
        return Head(config.size("vocab_size"), tied, config.flag("decoder_bias"), before=head, name="decoder")
    if task in ("sequence-classification", "token-classification", "question-answering"):
        return replace(
            label_head(config, task),
            before=head,
            activation=config.text("classifier_activation", "gelu"),
            dropout=config.number("classifier_dropout", 0.0, maximum=1.0),
            averages=config.text("classifier_pooling", "cls") == "mean",
        )
    raise no_head(config, task)
