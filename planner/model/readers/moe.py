"""Decoders with a mixture of experts in some or all layers and ordinary attention, one record each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.model.readers.config import LARGEST_SIZE, Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward, layer, switch
from planner.model.readers.layers import every, layer_count, merged, windows
from planner.model.readers.llama import TRAITS as DENSE
from planner.model.spec import (
    LAYER_NORM,
    DenseFeedForward,
    LayerGroup,
    LinearKind,
    MixtureOfExperts,
    ModelSpec,
    Norm,
    Routing,
    Tensor,
)

_NORMALISED = Routing()
IN_MODEL_DTYPE = Routing(fp32_weights=False)
OF_CHOSEN = Routing("softmax-of-chosen", normalised=False, fp32_weights=False)
GROUPED_SIGMOID = Routing("grouped-sigmoid", fp32=True, scaled=True)

Sparse = Callable[[Config, int], list[bool]]
Shared = Callable[[Config], DenseFeedForward | None]


def all_sparse(_config: Config, layers: int) -> list[bool]:
    return [True] * layers


def sparse_steps(config: Config, layers: int) -> list[bool]:
    """Qwen-MoE: every `decoder_sparse_step`-th layer but those of `mlp_only_layers`."""
    step = config.size("decoder_sparse_step", 1)
    dense = set(config.sizes("mlp_only_layers")) if config.raw("mlp_only_layers") else set()
    return [index not in dense and (index + 1) % step == 0 for index in range(layers)]


def first_dense(config: Config, layers: int) -> list[bool]:
    """DeepSeek, GLM, dots: dense up to `first_k_dense_replace`, or as `mlp_layer_types` says."""
    types = config.texts("mlp_layer_types", layers)
    if types is not None:
        return [kind == "sparse" for kind in types]
    # GLM-4.7-Flash has no such key: its first layer is dense.
    dense = config.count("first_k_dense_replace", 1)
    return [index >= dense for index in range(layers)]


def ernie_interval(config: Config, layers: int) -> list[bool]:
    """ERNIE 4.5: every `moe_layer_interval`-th layer between a first and a last one (-1: the last of all)."""
    start, step = config.count("moe_layer_start_index"), config.size("moe_layer_interval")
    end = config.raw("moe_layer_end_index", -1)
    last = layers - 1 if end == -1 else config.count("moe_layer_end_index")
    return [(index + 1) % step == 0 and start <= index <= last for index in range(layers)]


def no_shared(_config: Config) -> DenseFeedForward | None:
    return None


def shared_experts(count: str, size: str = "moe_intermediate_size", bias: str | bool = False) -> Shared:
    """So many shared experts as the key `count` says, stored as one feed-forward."""

    def read(config: Config) -> DenseFeedForward | None:
        experts = config.count(count)
        own = config.size(size)
        return DenseFeedForward(experts * own, bias=switch(config, bias)) if experts else None

    return read


def _qwen_shared(config: Config) -> DenseFeedForward | None:
    return DenseFeedForward(config.size("shared_expert_intermediate_size"))


def _granite_shared(config: Config) -> DenseFeedForward | None:
    size = config.count("shared_intermediate_size")
    names = ("", "input_linear", "output_linear")
    return DenseFeedForward(size, fused=True, names=names) if size else None


def _hunyuan_shared(config: Config) -> DenseFeedForward | None:
    return DenseFeedForward(config.size("intermediate_size"))


@dataclass(frozen=True, slots=True)
class Sparsity:
    """Where the experts stand in one architecture, and what its keys are called."""

    traits: Traits
    experts: str = "num_experts"
    visited: str = "num_experts_per_tok"
    size: str = "moe_intermediate_size"
    sparse: Sparse = all_sparse
    shared: Shared = no_shared
    shared_gate: bool = False
    shared_first: bool = False
    bias: bool = False
    router: LinearKind = "subclass"
    router_bias: bool = False
    sinks: bool = False
    transposed: bool = False
    clamped: bool = False
    correction: bool = False
    """A trainable per-expert correction of the router's scores."""
    routing: Routing = _NORMALISED
    normalised: bool | None = None
    """What `norm_topk_prob` is where the file does not state it; None: the architecture has no such key."""


def _alternating(config: Config, layers: int) -> list[int | None]:
    """gpt-oss: every second layer slides, beginning with the first."""
    return windows(config, layers, every(2, layers))


_ATTENTION_BIAS = Traits(qkv_bias="attention_bias", output_bias="attention_bias")
_GRANITE = Sparsity(_ATTENTION_BIAS, experts="num_local_experts", size="intermediate_size", routing=OF_CHOSEN)

SPARSE: dict[str, Sparsity] = {
    "mixtral": Sparsity(DENSE["mistral"], experts="num_local_experts", size="intermediate_size"),
    "qwen2_moe": Sparsity(
        replace(DENSE["qwen2"], qkv_bias="qkv_bias"),
        sparse=sparse_steps,
        shared=_qwen_shared,
        shared_gate=True,
        routing=IN_MODEL_DTYPE,
        normalised=False,
    ),
    "qwen3_moe": Sparsity(
        replace(DENSE["qwen3"], windows=DENSE["llama"].windows),
        sparse=sparse_steps,
        routing=IN_MODEL_DTYPE,
        normalised=False,
    ),
    "olmoe": Sparsity(
        replace(_ATTENTION_BIAS, qk_norm=True, qk_norm_scope="all"),
        size="intermediate_size",
        routing=IN_MODEL_DTYPE,
        normalised=False,
    ),
    "phimoe": Sparsity(
        replace(_ATTENTION_BIAS, norm=LAYER_NORM, head_bias="lm_head_bias", windows=DENSE["mistral"].windows),
        experts="num_local_experts",
        size="intermediate_size",
    ),
    "granitemoe": _GRANITE,
    "granitemoeshared": replace(_GRANITE, shared=_granite_shared),
    "glm4_moe": Sparsity(
        Traits(qkv_bias="attention_bias", qk_norm="use_qk_norm", rotary_share=0.5),
        experts="n_routed_experts",
        sparse=first_dense,
        shared=shared_experts("n_shared_experts"),
        routing=GROUPED_SIGMOID,
        normalised=True,
    ),
    "dots1": Sparsity(
        replace(_ATTENTION_BIAS, qk_norm=True),
        experts="n_routed_experts",
        sparse=first_dense,
        shared=shared_experts("n_shared_experts"),
        routing=GROUPED_SIGMOID,
        normalised=False,
    ),
    "gpt_oss": Sparsity(
        replace(_ATTENTION_BIAS, windows=_alternating, norm=Norm(code="weight-in-fp32")),
        experts="num_local_experts",
        size="intermediate_size",
        bias=True,
        router_bias=True,
        sinks=True,
        transposed=True,
        clamped=True,
        routing=replace(OF_CHOSEN, fp32_scores=False),
    ),
    "minimax_m2": Sparsity(
        Traits(qk_norm=True, qk_norm_scope="all", rotary_size="rotary_dim"),
        experts="num_local_experts",
        size="intermediate_size",
        routing=Routing("sigmoid"),
    ),
    "ernie4_5_moe": Sparsity(
        replace(DENSE["ernie4_5"], head_bias="use_bias"),
        sparse=ernie_interval,
        shared=shared_experts("moe_num_shared_experts", bias="use_bias"),
        shared_first=True,
        correction=True,
        routing=Routing(fp32=True, fp32_weights=False),
    ),
    "hunyuan_v1_moe": Sparsity(
        replace(_ATTENTION_BIAS, qk_norm=True, qk_norm_rotated=True),
        size="intermediate_size",
        shared=_hunyuan_shared,
        shared_first=True,
        router="linear",
        routing=Routing(fp32=True),
    ),
}

SPARSE["qwen3_vl_moe_text"] = SPARSE["qwen3_moe"]
SPARSE["glm4v_moe_text"] = replace(SPARSE["glm4_moe"], traits=Traits(qkv_bias="attention_bias", rotary_share=0.5))
MODEL_TYPES = tuple(SPARSE)


def alike(config: Config, key: str, maximum: int = LARGEST_SIZE) -> int:
    """A size that some files state once for each layer (Hunyuan-A13B), all of them equal."""
    value = config.raw(key)
    if not isinstance(value, list):
        return config.size(key, maximum=maximum)
    sizes = config.sizes(key)
    if len(set(sizes)) > 1:
        raise config.error(key, value, "the same in every layer; layers that differ in it cannot be read yet")
    return config.with_values(**{key: sizes[0]}).size(key, maximum=maximum)


def mixture(config: Config, sparsity: Sparsity) -> MixtureOfExperts:
    """The experts of one layer."""
    experts = alike(config, sparsity.experts)
    routing = sparsity.routing
    if sparsity.normalised is not None:
        routing = replace(routing, normalised=config.flag("norm_topk_prob", sparsity.normalised))
    return MixtureOfExperts(
        experts=experts,
        experts_per_token=alike(config, sparsity.visited, maximum=experts),
        size=alike(config, sparsity.size),
        activation=config.text(sparsity.traits.activation, "silu"),
        bias=sparsity.bias,
        shared=sparsity.shared(config),
        shared_gate=sparsity.shared_gate,
        shared_first=sparsity.shared_first,
        router=sparsity.router,
        router_bias=sparsity.router_bias,
        transposed=sparsity.transposed,
        clamped=sparsity.clamped,
        extra=(Tensor("e_score_correction_bias", (1, experts)),) if sparsity.correction else (),
        routing=routing,
        groups=config.size("n_group", 1),
        chosen_groups=config.size("topk_group", 1),
    )


def sparse_layers(config: Config, sparsity: Sparsity) -> tuple[LayerGroup, ...]:
    """Layers with experts where the architecture has them, and dense ones elsewhere."""
    traits, count = sparsity.traits, layer_count(config)
    pattern = sparsity.sparse(config, count)
    experts = mixture(config, sparsity) if any(pattern) else None
    dense = None if all(pattern) else feed_forward(config, traits)

    def one(window: int | None, sparse: bool) -> LayerGroup:
        mixer = replace(attention(config, traits, window), sinks=sparsity.sinks)
        network = experts if sparse else dense
        assert network is not None
        return layer(traits, mixer, network)

    seen = list(zip(traits.windows(config, count), pattern, strict=True))
    kinds = {kind: one(*kind) for kind in set(seen)}
    return merged(kinds[kind] for kind in seen)


def read(config: Config, task: str | None) -> ModelSpec:
    """A decoder with a mixture of experts."""
    sparsity = SPARSE[config.model_type]
    return decoder_model(config, task, sparsity.traits, sparse_layers(config, sparsity))
