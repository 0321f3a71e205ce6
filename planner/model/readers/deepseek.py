"""DeepSeek V2, V3, R1 and V3.2, Kimi K2 and GLM-5: latent attention, shared experts, dense first layers.

The layers for multi-token prediction that the checkpoints carry are not built by transformers and are not counted.
"""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, decoder_model, feed_forward
from planner.model.readers.layers import layer_count, merged
from planner.model.readers.moe import GROUPED_SIGMOID, Sparsity, first_dense, mixture, shared_experts
from planner.model.spec import LatentAttention, LayerGroup, ModelSpec, Rotary, Routing, SparseIndexer

MODEL_TYPES = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite")

_SPARSITY = Sparsity(
    Traits(),
    experts="n_routed_experts",
    sparse=first_dense,
    shared=shared_experts("n_shared_experts"),
    routing=GROUPED_SIGMOID,
    normalised=True,
)
_WITH_BIAS = replace(
    _SPARSITY,
    traits=Traits(mlp_bias="mlp_bias"),
    shared=shared_experts("n_shared_experts", bias="mlp_bias"),
    normalised=None,
)
_INDEXED = ("deepseek_v32", "glm_moe_dsa")


def _indexers(config: Config, layers: int) -> list[bool]:
    """Which layers have an indexer of their own: all, but in GLM-5 some reuse the choice of an earlier one."""
    if config.model_type not in _INDEXED:
        return [False] * layers
    if config.model_type == "deepseek_v32":
        return [True] * layers
    types = config.texts("indexer_types", layers)
    pattern = config.raw("index_topk_pattern")
    if types is not None:
        return [kind == "full" for kind in types]
    if isinstance(pattern, str | list) and len(pattern) == layers:
        return [kind in ("F", "full") for kind in pattern]
    period, offset = config.size("index_topk_freq", 1), config.count("index_skip_topk_offset", 2)
    return [max(index - offset + 1, 0) % period == 0 for index in range(layers)]


def _rotary(config: Config) -> Rotary:
    if config.model_type == "deepseek_v2":
        return "complex"
    return "pairs" if config.flag("rope_interleave", True) else "halves"


def _query_rank(config: Config) -> int | None:
    """transformers writes the derived `qk_head_dim` beside every other key: a rank missing there was null."""
    if config.states("qk_head_dim") and not config.states("q_lora_rank"):
        return None
    return config.optional_size("q_lora_rank")


def _attention(config: Config, indexed: bool) -> LatentAttention:
    indexer = None
    if indexed:
        indexer = SparseIndexer(config.size("index_n_heads"), config.size("index_head_dim"), config.size("index_topk"))
    return LatentAttention(
        heads=config.size("num_attention_heads"),
        kv_lora_rank=config.size("kv_lora_rank"),
        qk_nope_head_dim=config.size("qk_nope_head_dim"),
        qk_rope_head_dim=config.size("qk_rope_head_dim"),
        v_head_dim=config.size("v_head_dim"),
        q_lora_rank=_query_rank(config),
        bias=config.flag("attention_bias"),
        indexer=indexer,
        dropout=config.number("attention_dropout", 0.0, maximum=1.0),
        rotary=_rotary(config),
    )


def _second_version(config: Config) -> Sparsity:
    """DeepSeek-V2: softmax scores that are not normalised, over groups of experts where the file says so."""
    grouped = config.text("topk_method", "greedy") == "group_limited_greedy"
    routing = Routing("grouped-softmax" if grouped else "softmax", normalised=False, fp32=True, scaled=True)
    return replace(_WITH_BIAS, routing=routing)


def read(config: Config, task: str | None) -> ModelSpec:
    """A decoder with latent attention."""
    if config.model_type == "kimi_k2":
        # Kimi K2 is published as a DeepSeek-V3 of other sizes.
        config = Config(config.stated, "deepseek_v3", config.where)
    count = layer_count(config)
    sparse = first_dense(config, count)
    sparsity = _second_version(config) if config.model_type == "deepseek_v2" else _SPARSITY
    experts = mixture(config, sparsity) if any(sparse) else None
    dense = None if all(sparse) else feed_forward(config, sparsity.traits)

    def one(has_experts: bool, indexed: bool) -> LayerGroup:
        return LayerGroup(1, _attention(config, indexed), experts if has_experts else dense)

    seen = list(zip(sparse, _indexers(config, count), strict=True))
    kinds = {kind: one(*kind) for kind in set(seen)}
    return decoder_model(config, task, sparsity.traits, merged(kinds[kind] for kind in seen))
