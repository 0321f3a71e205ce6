"""Mixers that look back at other tokens through softmax attention."""

from dataclasses import dataclass
from typing import Literal

from planner.model.spec.parts import RMS_NORM, LinearKind, Norm


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention: MHA (`kv_heads == heads`), GQA, or MQA (`kv_heads == 1`)."""

    heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Norm | None = None
    """Norm over the rotated queries and keys; how wide its weights are says `qk_norm_scope`."""
    window: int | None = None
    """Sliding window (or chunk) in tokens; None attends to everything."""
    dropout: float = 0.0
    key_bias: bool | None = None
    """Bias of the keys where it differs from `qkv_bias` (Whisper has none)."""
    value_head_dim: int | None = None
    """Width of a value head where it differs from `head_dim`."""
    qk_norm_scope: Literal["head", "all", "each"] = "head"
    """`head`: one weight of `head_dim` for all heads; `each`: one per head; `all`: one over the whole projection."""
    value_norm: Norm | None = None
    fused: bool = False
    """Queries, keys and values are one stored matrix."""
    gated: bool = False
    """The query projection is twice as wide: the second half gates the output (Qwen3-Next)."""
    output_gate: int | None = None
    """Outputs of an extra gate projection from the layer's input, if there is one."""
    sinks: bool = False
    """One learned logit per head that takes part in the softmax (gpt-oss)."""
    own_key_value: bool = True
    """False: keys and values come from an earlier layer; there is no projection and no cache of its own."""
    value_from_key: bool = False
    """Values are the unrotated keys: no value projection, but a value cache (Gemma 4's global layers)."""
    causal: bool = True
    """Whether generation keeps a KV cache; encoders do not."""
    cache_heads: int | None = None
    """Heads the Hugging Face cache holds where it stores more than `kv_heads` (Falcon 40B repeats them first)."""
    kv_inputs: int | None = None
    """Width of the states that keys and values are made of, where it is not the layer's own (cross attention)."""
    rotary_share: float = 1.0
    """Part of each head that rotary embedding turns; 0 where positions are encoded otherwise."""
    rotary_pairs: Literal["halves", "neighbours", "complex"] = "halves"
    """Which two elements are turned together: of either half (GPT-NeoX, Llama) or beside each other (GPT-J, GLM), also
    as complex numbers in fp32 (Llama 4)."""
    qk_norm_rotated: bool = False
    """Queries and keys are normalised after they were rotated (Llama 4)."""
    scaled_by_position: bool = False
    """Queries are multiplied by a factor of their position in fp32 (the layers of Llama 4 that do not rotate)."""
    rotary_upcast: Literal["none", "tables", "products", "all"] = "none"
    """What of rotary embedding is in fp32 whatever the model's dtype: cosines and sines (OLMo), the products with them
    (ERNIE), or all (Cohere)."""
    scores_in_fp32: bool = False
    """Eager attention multiplies queries and keys in fp32 (GPT-J)."""
    alibi: bool = False
    """Scores are biased by distance (ALiBi, arXiv:2108.12409)."""
    softcap: bool = False
    """Scores are capped by a tanh (Gemma 2)."""
    linear: LinearKind = "linear"
    names: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "o_proj")
    """Names of the projections; a fused one uses the first and the last."""

    @property
    def value_dim(self) -> int:
        return self.head_dim if self.value_head_dim is None else self.value_head_dim

    @property
    def query_size(self) -> int:
        return self.heads * self.head_dim

    @property
    def cached_elements(self) -> int:
        """Elements that one more token adds to this layer's KV cache."""
        heads = self.kv_heads if self.cache_heads is None else self.cache_heads
        return heads * (self.head_dim + self.value_dim) if self.causal and self.own_key_value else 0


Rotary = Literal["halves", "pairs", "complex"]


@dataclass(frozen=True, slots=True)
class SparseIndexer:
    """The lightning indexer of DeepSeek-V3.2 and GLM-5: picks the tokens that attention may see."""

    heads: int
    head_dim: int
    top_k: int


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA, DeepSeek-V2, arXiv:2405.04434): a compressed KV cache, no heads in it."""

    heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None
    bias: bool = False
    indexer: SparseIndexer | None = None
    dropout: float = 0.0
    causal: bool = True
    norm: Norm = RMS_NORM
    rotary: Rotary = "pairs"
    """How the rotated part is turned: its halves against each other, its even and odd elements, or as complex numbers
    in fp32 (DeepSeek-V2)."""

    @property
    def head_dim(self) -> int:
        """Width of a query and key head."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def cached_elements(self) -> int:
        """Elements per token: the latent, the shared rotated key, and the indexer's key."""
        indexer = 0 if self.indexer is None else self.indexer.head_dim
        return self.kv_lora_rank + self.qk_rope_head_dim + indexer
